"""The files of a run's folder."""

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from zoo.data.table import is_table
from zoo.errors import UserError
from zoo.inputs.names import user_path
from zoo.training import environment
from zoo.training.config import Config

CLAIM = "command.txt"  # the first file of a run: who makes it owns the folder
FOLDER_OF_RANK_0 = "ZOO_RUN_DIR"  # how the processes that Lightning starts learn where their run is


def choose_folder(config: Config, main: bool, occupied: Callable[[Path, Config], str]) -> Path:
    """`run.dir`, or runs/<recipe>/<time>. UserError where there is something already; of a run,
    `occupied` tells what to do. The same for one within a folder of data, whose files it would
    become."""
    if config.run.dir is not None:
        folder = user_path(config.run.dir)
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
    try:
        held = len(list(folder.iterdir())) if main and folder.is_dir() else 0
        is_file = main and folder.exists() and not folder.is_dir()
    except OSError as error:  # such as one that may not be read
        raise UserError(f"run.dir takes a folder; {folder} is none: {error.strerror}") from error
    if held:
        other = f"which holds {held} files: give another --run.dir, or remove it"
        got = f"got {folder}, {occupied(folder, config) or other}"
        raise UserError(f"run.dir takes a new or an empty folder; {got}")
    if is_file:
        raise UserError(f"run.dir takes a folder; got {folder}, a file: give another --run.dir")
    for key in ("train", "val", "test"):
        source = getattr(config.data, key)
        place = user_path(source) if isinstance(source, str) else None
        if place is None or not place.is_dir() or is_table(place):
            continue
        if folder.resolve().is_relative_to(place.resolve()):
            got = f"got {folder} within data.{key}, {source}, which would read it"
            raise UserError(
                f"run.dir takes a folder beside the data; {got}: give another --run.dir"
            )
    return folder


def make_folder(folder: Path) -> list[Path]:
    """Make it and its parents. -> those that were not there before, innermost first.

    UserError where that is not allowed, and then none is left.
    """
    made: list[Path] = []
    try:
        for path in [*reversed(folder.parents), folder]:
            if not path.is_dir():
                path.mkdir(exist_ok=True)
                made.insert(0, path)
        try:
            (folder / CLAIM).open("x").close()  # of two runs that start at once, one gets it
        except FileExistsError as error:
            raise UserError(
                f"run.dir takes a new or an empty folder; another run has just taken {folder}: "
                "give another --run.dir"
            ) from error
    except OSError as error:
        remove_empty(made)
        raise UserError(
            f"run.dir takes a folder that can be written; {folder} cannot: {error.strerror}"
        ) from error
    return made


def clear_folder(folder: Path, made: list[Path]) -> None:
    """Take away what was written in it, and those folders that `make_folder` made.

    One that was there before, or a link to one, stays as it was.
    """
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    remove_empty(made)


def remove_empty(folders: list[Path]) -> None:
    """Remove them in this order, up to the first that holds what is not ours."""
    with suppress(OSError):
        for path in folders:
            path.rmdir()


def absolute(config: Config) -> Config:
    """The config with whole paths of data and of a loaded model, to be used from any folder."""

    def whole(value: Any) -> Any:
        path = user_path(value) if isinstance(value, str) else None
        return str(path.absolute()) if path and path.exists() else value  # not hf:NAME, nor a date

    names = ("train", "val", "test", "tokenizer")
    paths = {name: whole(getattr(config.data, name)) for name in names}
    model = {k: whole(v) if k == "load" else v for k, v in config.model.items()}
    return replace(config, data=replace(config.data, **paths), model=model)


def write_facts(folder: Path, config: Config, model: Any, splits: Any) -> None:
    """What is known before the first step, a file for each."""
    (folder / "config.yaml").write_text(absolute(config).to_yaml(), encoding="utf-8")
    write_json(folder / "environment.json", environment.describe())
    write_json(folder / "data.json", facts_of_data(splits))
    write_json(folder / "labels.json", list(splits.labels))
    prepare = model.record.preprocess
    write_json(folder / "preprocess.json", None if prepare is None else prepare.to_dict())


def facts_of_data(splits: Any) -> dict[str, Any]:
    """Fingerprint, labels, rows per split, notes, and what the targets of each split are.

    "counts", rows per class in the order of the labels, or "numbers", the mean, deviation, least
    and most of each.
    """
    rows = splits.rows()
    if splits.target == "numbers":
        spread = {split: [asdict(s) for s in part.spreads()] for split, part in rows.items()}
        targets = {"numbers": spread}
    else:
        targets = {"counts": {split: [*map(int, part.counts())] for split, part in rows.items()}}
    return {
        "fingerprint": splits.fingerprint,
        "target": splits.target,
        "labels": list(splits.labels),
        "rows": {split: len(part) for split, part in rows.items()},
        **targets,
        "notes": list(splits.notes),
    }


def command() -> str:
    """The command line of this process, as a shell takes it; `python -m zoo.cli` is `zoo`."""
    program = Path(sys.argv[0] or "python")
    name = "zoo" if program.parts[-3:] == ("zoo", "cli", "__main__.py") else program.name
    return shlex.join([name, *sys.argv[1:]])


BYTES: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}  # maybe no UTF-8


def write_command(folder: Path) -> None:
    """command.txt, as it was typed."""
    (folder / CLAIM).write_text(f"{command()}\n", **BYTES)


def written_command(folder: Path) -> str:
    """That of a run, also of one that was resumed; else of this process."""
    with suppress(OSError):
        return (folder / CLAIM).read_text(**BYTES).strip() or command()
    return command()


def write_json(file: Path, value: Any) -> None:
    """Replace the file as a whole, or not at all.

    Bytes of a file name that are no UTF-8 become JSON escapes, which are read back as they were.
    """
    scratch = file.with_name(f".{file.name}")
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=True)
    scratch.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    os.replace(scratch, file)
