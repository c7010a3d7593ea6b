"""Models as files: safetensors and JSON, never pickle, never half a folder."""

import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from zoo.errors import UserError, cut
from zoo.weights import read_safetensors

CONFIG, WEIGHTS, FORMAT = "config.json", "model.safetensors", 1


def write_folder(
    folder: str | Path, config: Mapping[str, Any], state: Mapping[str, Tensor]
) -> Path:
    """Write CONFIG and WEIGHTS, whole, or leave the folder as it was.

    Where it is killed between the two files of an existing folder, `read_folder` finds the second
    one beside it. UserError where it cannot be written, or would take the place of another
    library's files; other files of an existing folder stay.
    """
    folder = place_of(folder)
    wants = "save takes a folder without another library's model, or one that cannot be read"
    if not is_ours(folder):
        raise UserError(f"{wants}; {folder} holds such: name another folder")
    tensors = {key: tensor.detach().contiguous().cpu() for key, tensor in state.items()}
    plain = json.dumps(config, sort_keys=True)
    pair = hashlib.sha256(plain.encode()).hexdigest()[:16]  # which config goes with which weights
    text = json.dumps({"zoo": FORMAT, "pair": pair, **config}, indent=1, ensure_ascii=False)
    with beside(folder, "save takes a folder it can write to") as scratch:
        (scratch / CONFIG).write_text(text + "\n", "utf-8")
        metadata = {"format": "pt", "pair": pair}
        write_tensors(tensors, scratch / WEIGHTS, metadata)
        if folder.exists():
            for name in (WEIGHTS, CONFIG):
                os.replace(scratch / name, folder / name)
        else:
            os.rename(scratch, folder)
    return folder


@contextlib.contextmanager
def beside(folder: Path, wants: str) -> Iterator[Path]:
    """A new folder beside another, to be written and then to take its place; gone where it did not.
    UserError, after what `wants` says, where something cannot be written."""
    scratch = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        (inner := scratch / "new").mkdir()  # with the rights of any new folder
        yield inner
    except (OSError, SafetensorError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{wants}; {folder} cannot be written: {reason}") from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def write_tensors(tensors: Mapping[str, Tensor], file: Path, metadata: dict[str, str]) -> None:
    """A new safetensors file, with the rights of any new file: safetensors gives its own fewer."""
    file.touch()
    rights = file.stat().st_mode & 0o777
    safetensors.torch.save_file(dict(tensors), file, metadata)
    file.chmod(rights)


def is_ours(folder: Path) -> bool:
    """Whether we wrote what is at the places of CONFIG and WEIGHTS, or nothing is there."""
    try:
        if (folder / CONFIG).is_file():
            return "zoo" in json.loads((folder / CONFIG).read_text("utf-8"))
        if (folder / WEIGHTS).is_file():  # the first of the two that is written
            return "pair" in read_safetensors(folder / WEIGHTS)[1]
    except (OSError, ValueError, TypeError, RecursionError):
        return False
    return True


def path_of(where: str | Path, wants: str) -> Path:
    """A path whose `~` is a home. UserError, after what it `wants`, for what no path can be."""
    try:
        place = Path(where).expanduser()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            place.stat()
            if place.is_dir() and not os.access(place, os.R_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "it may not be entered")
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).rstrip(".")
        raise UserError(f"{wants}; {cut(ascii(str(where)))} is none: {reason}") from error
    return place if place.name else place.resolve()  # "." has a name too


def place_of(folder: Any) -> Path:
    """The path of a folder to write. UserError for what is none, and for no name at all."""
    if not isinstance(folder, str | Path) or not str(folder).strip():
        raise UserError(f"save takes a folder, as text or a Path; got {folder!r}")
    return path_of(folder, "save takes a folder")


def write_foreign(
    folder: str | Path, state: Mapping[str, Tensor], files: Mapping[str, Any], weights: str
) -> Path:
    """Write a new folder for another library, whole or not at all: the JSON files, and the tensors
    as `weights`, a name that ends as their kind of file does. UserError where it cannot be written
    or holds anything."""
    folder = place_of(folder)
    wants = "save takes a folder that is new or empty"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{wants} for another library's layout; {folder} holds something")
    tensors = {key: tensor.detach().contiguous().cpu().clone() for key, tensor in state.items()}
    with beside(folder, wants) as scratch:
        for name, content in files.items():
            (scratch / name).write_text(json.dumps(content, indent=2) + "\n", "utf-8")
        if weights.endswith(".safetensors"):
            write_tensors(tensors, scratch / weights, {"format": "pt"})
        else:
            torch.save(tensors, scratch / weights)
        os.replace(scratch, folder)
    return folder


def read_folder(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """-> (config, state dict) of a folder that `write_folder` wrote, or of the run around it.

    UserError says what is missing or broken.
    """
    folder = path_of(folder, "load takes a folder")
    if not (folder / CONFIG).exists() and (folder / "model" / CONFIG).is_file():
        folder = folder / "model"  # a run's folder stands for the model in it
    takes = f"load takes a folder that model.save wrote ({CONFIG}, {WEIGHTS})"
    try:  # first: where it is broken, the weights may have the name that another library gives them
        read = (folder / CONFIG).is_file()
        config: Any = json.loads((folder / CONFIG).read_text("utf-8")) if read else None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{takes}; {folder / CONFIG} is not readable JSON: {error}") from error
    missing = [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
    if missing:
        lacks = f"has no {' and no '.join(missing)}" if folder.is_dir() else "is a file"
        runs = [run for run in (folder, folder.parent) if (run / "config.yaml").is_file()]
        todo = f": its run was stopped; zoo resume {runs[0]} goes on with it" if runs else ""
        raise UserError(f"{takes}; {folder} {lacks if folder.exists() else 'does not exist'}{todo}")
    version = config.get("zoo") if isinstance(config, dict) else None
    if version != FORMAT:
        got = f"{folder / CONFIG} says {version!r}: not written by it"
        raise UserError(f"{takes} in format {FORMAT}; {got}")
    state, metadata = read_safetensors(folder / WEIGHTS, takes)
    if metadata.get("pair") != config.get("pair"):
        config = left_over(folder, metadata.get("pair"))
    if config is None:
        raise UserError(f"{takes}; in {folder} the two are of different saves: save it again")
    return config, state


def left_over(folder: Path, pair: str | None) -> dict[str, Any] | None:
    """The config that goes with the weights of a folder, where `write_folder` was killed before it
    could put it there; None where there is none."""
    for file in folder.parent.glob(f".{glob.escape(folder.name)}.*/new/{CONFIG}"):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            config = json.loads(file.read_text("utf-8"))
            if isinstance(config, dict) and pair is not None and config.get("pair") == pair:
                return config
    return None
