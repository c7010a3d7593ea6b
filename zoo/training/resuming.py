"""Going on with a run that was stopped, from the end of its last whole epoch.

What an epoch does follows from its number, the seed, and what a checkpoint holds: the order of the
samples, their augmentation and mixing by `zoo.data.sampling`, dropout by
`Task.on_train_epoch_start`. So a run that is resumed ends as it would have ended.
"""

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger

from zoo.errors import UserError
from zoo.inputs.names import listed
from zoo.training.config import Config, flatten, resolve
from zoo.training.folder import absolute, facts_of_data

RUNNING = ".running"  # a file in a run's folder, locked while its rank 0 lives
GOING_ON: ContextVar[Path | None] = ContextVar("GOING_ON", default=None)


@contextmanager
def going_on(folder: Path) -> Iterator[None]:
    """Inside, a `Run` whose folder this is goes on with what is in it."""
    token = GOING_ON.set(folder)
    try:
        yield
    finally:
        GOING_ON.reset(token)


def ending(folder: Path) -> dict[str, Any] | None:
    """result.json of a run that came to its end, None for any other."""
    try:
        result = json.loads((folder / "result.json").read_text("utf-8"))
        return None if result["interrupted"] or result["failed"] else result
    except (OSError, ValueError, KeyError, TypeError):
        return None


def occupied(folder: Path, config: Config) -> str:
    """What to do where `run.dir` holds a run already, in a sentence's rest; "" where none."""
    if not (folder / "config.yaml").is_file():
        return ""
    if ending(folder) is not None:
        return "which holds a finished run: give another --run.dir"
    other = "or give another --run.dir"
    try:
        known = resolve(folder / "config.yaml").config
    except UserError:
        return ""
    differ = differences(known, config)
    if not differ:
        return ("which holds this run, not finished: `zoo resume "
                f"{folder}` goes on with it, {other}")  # fmt: skip
    return (f"which holds a run that is not finished and of other values ({'; '.join(differ)}): "
            f"`zoo resume {folder}` goes on with it as it was, {other}")  # fmt: skip


def differences(one: Config, other: Config) -> list[str]:
    """`optim.lr 0.1 there, 0.2 here` for each key that differs, but for `run.dir`."""
    there, here = (
        flatten(absolute(replace(c, run=replace(c.run, dir=None))).to_dict()) for c in (one, other)
    )
    for values in (there, here):
        values.pop("hw.preset", None)  # a saved config has its values
    keys = [key for key in {**there, **here} if plain(there.get(key)) != plain(here.get(key))]
    told = [f"{key} {there.get(key)} there, {here.get(key)} here" for key in keys[:3]]
    return [*told, *([f"and {len(keys) - 3} more"] if len(keys) > 3 else [])]


def plain(value: Any) -> Any:
    """Lists are equal to tuples."""
    return list(value) if isinstance(value, tuple) else value


def check_data(folder: Path, splits: Any) -> None:
    """UserError where the data are not those that a run began with."""
    try:
        facts = json.loads((folder / "data.json").read_text("utf-8"))
        known = facts["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        wants = f"resume takes a run with its data.json; {folder} has none that can be read"
        raise UserError(f"{wants}: train anew, with another --run.dir") from error
    if known != splits.fingerprint:
        wants = f"resume takes the data that {folder} began with; they have changed since"
        wants += f" ({changes(facts, facts_of_data(splits))})"
        raise UserError(f"{wants}: bring them back, or train anew, with another --run.dir")


def changes(then: dict[str, Any], now: dict[str, Any]) -> str:
    """What differs between the facts of two data, such as data.json holds, as far as they tell."""
    (old, new), told = ([str(x) for x in facts.get("labels", ())] for facts in (then, now)), []
    for names, what in ((set(old) - set(new), "gone"), (set(new) - set(old), "new")):
        told += [f"labels that are {what}: {listed(sorted(names))}"] if names else []
    for split in {**then.get("rows", {}), **now["rows"]}:
        had, has = (facts.get("rows", {}).get(split, 0) for facts in (then, now))
        held = [facts.get("counts", {}).get(split, ()) for facts in (then, now)]
        differ = old == new and all(len(each) == len(old) for each in held)
        classes = [
            f"{label}: {a}, now {b}" for label, a, b in zip(old, *held, strict=True) if a != b
        ] if differ else []  # fmt: skip
        more = f" ({listed(classes)})" if classes else ""
        if had != has or classes:
            told.append(f"{split} had {had} rows, now {has}{more}")
    return "; ".join(told) or "as many rows of the same labels, of which some are other ones"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Inside, no other process goes on with this run. UserError where one does.

    A killed process leaves no lock, and worker processes do not inherit it. Without locks in the
    system, nothing is promised.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    place = folder / RUNNING
    with place.open("w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            wants = f"resume takes a run that was stopped; a process still trains {folder}"
            raise UserError(f"{wants}: wait for its end, or stop it") from error
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            place.unlink(missing_ok=True)


def table(folder: Path, step: int) -> CSVLogger:
    """The writer of metrics.csv, which keeps what is there of the steps before `step`."""
    logger, rows = CSVLogger(folder, name="", version="", flush_logs_every_n_steps=1), []
    if step:
        with suppress(OSError), (folder / "metrics.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if int(row["step"]) < step]
    if rows:
        writer: Any = logger.experiment  # it removes the file
        writer.metrics = rows
        writer.save()
    return logger
