"""The handwritten digits that scikit-learn ships, as a folder of picture files.

    python -m zoo.data.digits FOLDER

1,797 digits of 8 x 8 pixels from the test part of "Optical Recognition of Handwritten Digits"
(E. Alpaydin and C. Kaynak, UCI, 1998, CC BY 4.0), needing no network.
"""

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from zoo.errors import UserError
from zoo.inputs.names import user_path

TEST_SHARE, SEED, WHITE = 0.2, 0, 16  # scikit-learn's pixels run from 0 to 16


def write_digits(folder: str | Path) -> Path:
    """FOLDER/train/<digit>/<number>.png (80 %) and FOLDER/test/..., 8-bit grey, always the same.

    Written once: all files or none, and a folder that has them already is left as it is. UserError
    if something else is there, or if it cannot be written.
    """
    folder = user_path(folder)
    digits: Any = load_digits()
    files = _files(digits.target)
    if folder.exists():
        if all((folder / name).is_file() for name in files):
            return folder
        raise UserError(
            f"digits are written to a new folder; {folder} is there and does not hold them all: "
            "give another, or delete it"
        )
    scratch = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        for name, image in zip(files, digits.images, strict=True):
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.rint(image * (255 / WHITE)).astype(np.uint8)).save(scratch / name)
        scratch.chmod(0o755)
        scratch.rename(folder)
    except OSError as error:
        raise UserError(
            f"digits are written to a folder; {folder} cannot be: {error.strerror or error}"
        ) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    return folder


def _files(targets: np.ndarray) -> list[str]:
    """The file of each row: train/3/0042.png."""
    rows = np.arange(len(targets))
    _, test = train_test_split(rows, test_size=TEST_SHARE, stratify=targets, random_state=SEED)
    held_out = set(map(int, test))
    return [
        f"{'test' if row in held_out else 'train'}/{targets[row]}/{row:04d}.png"
        for row in rows.tolist()
    ]


def main(arguments: list[str] | None = None) -> None:
    """The command: writes, says nothing, exits with 2 where it cannot."""
    parser = argparse.ArgumentParser(
        "zoo.data.digits", description="Write digits as picture files."
    )
    parser.add_argument("folder", help="where to; must not exist, or hold them already")
    try:
        write_digits(parser.parse_args(arguments).folder)
    except UserError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
