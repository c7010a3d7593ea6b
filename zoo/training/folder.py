"""The files of a run's folder."""

import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from zoo.errors import UserError
from zoo.training import environment
from zoo.training.config import Config

FOLDER_OF_RANK_0 = "ZOO_RUN_DIR"  # how the processes that Lightning starts learn where their run is


def choose_folder(config: Config, main: bool) -> Path:
    """`run.dir`, or runs/<recipe>/<time>. UserError where there is something already."""
    if config.run.dir is not None:
        folder = Path(config.run.dir).expanduser()
    elif main:
        folder = Path("runs", config.recipe, time.strftime("%Y-%m-%d_%H-%M-%S"))
        while folder.exists():
            folder = folder.with_name(f"{folder.name}+")
    elif FOLDER_OF_RANK_0 in os.environ:
        return Path(os.environ[FOLDER_OF_RANK_0])
    else:
        raise UserError(
            "run.dir takes a folder where another program starts the processes; got none: "
            "give --run.dir FOLDER"
        )
    if main and folder.is_dir() and any(folder.iterdir()):
        raise UserError(
            f"run.dir takes a new or an empty folder; got {folder}, which holds "
            f"{len(list(folder.iterdir()))} files: give another --run.dir, or remove it"
        )
    if main and folder.exists() and not folder.is_dir():
        raise UserError(f"run.dir takes a folder; got {folder}, a file: give another --run.dir")
    return folder


def make_folder(folder: Path) -> None:
    """Make it with its parents. UserError where that is not allowed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"run.dir takes a folder that can be written; {folder} cannot: {error.strerror}"
        ) from error


def clear_folder(folder: Path, existed: bool) -> None:
    """Take away what was written, and the folder itself unless it was there before."""
    shutil.rmtree(folder, ignore_errors=True)
    if existed:
        folder.mkdir()


def write_facts(folder: Path, config: Config, model: Any, splits: Any) -> None:
    """What is known before the first step, a file for each."""
    (folder / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    (folder / "command.txt").write_text(command() + "\n", encoding="utf-8")
    write_json(folder / "environment.json", environment.describe())
    write_json(folder / "data.json", facts_of_data(splits))
    write_json(folder / "labels.json", list(splits.labels))
    prepare = model.record.preprocess
    write_json(folder / "preprocess.json", None if prepare is None else prepare.to_dict())


def facts_of_data(splits: Any) -> dict[str, Any]:
    """Fingerprint, rows per split and class in the order of the labels, notes."""
    present = {name: getattr(splits, name) for name in ("train", "val", "test")}
    return {
        "fingerprint": splits.fingerprint,
        "labels": list(splits.labels),
        "counts": {n: [int(c) for c in r.counts()] for n, r in present.items() if r is not None},
        "notes": list(splits.notes),
    }


def command() -> str:
    """The command line of this process, as a shell takes it."""
    program = Path(sys.argv[0] or "python").name
    return shlex.join([program, *sys.argv[1:]])


def write_json(file: Path, value: Any) -> None:
    """Replace the file as a whole, or not at all."""
    scratch = file.with_name(f".{file.name}")
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=True)
    scratch.write_text(text + "\n", encoding="utf-8")
    os.replace(scratch, file)
