"""What commands and scripts call: train, resume, evaluate."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.data.sources import refuse_column
from zoo.data.table import is_table
from zoo.errors import UserError, some, suggest
from zoo.inputs.names import user_path
from zoo.loading import load
from zoo.training import recipes
from zoo.training.baselines import baselines
from zoo.training.config import Config, Resolved, flatten, placing, resolve
from zoo.training.console import log, speaking
from zoo.training.folder import facts_of_data
from zoo.training.hardware import make_trainer, plan
from zoo.training.reading import adopt
from zoo.training.resuming import changes, ending, going_on
from zoo.training.run import RunResult
from zoo.training.schema import KEYS
from zoo.training.task import Task
from zoo.training.telling import introduce_data, say_baselines, sentence

READING = ("data.test", "data.input", "data.label", "data.on_bad")  # how test data are read


def train(
    recipe: str | Path,
    overrides: Mapping[str, Any] | None = None,
    main: Callable[[Config], RunResult] | None = None,
) -> RunResult:
    """Train as a recipe says, with {"optim.lr": 1e-4, ...} on top of it.

    The same as `zoo train RECIPE --optim.lr 1e-4`; `main` stands in for the recipe's own script.
    UserError for whatever does not fit, before anything is written.
    """
    return train_resolved(resolve(recipe, overrides), main)


def resume(run: str | Path, main: Callable[[Config], RunResult] | None = None) -> RunResult:
    """Go on with a run that was stopped, from the end of its last whole epoch, to the same end.

    The same as `zoo resume RUN`: with the run's config, and the shipped script of its recipe or
    `main`. A run without a checkpoint begins anew, a finished one is told and left as it is.
    UserError where there is no run, its data have changed, or it is still being trained.
    """
    if not isinstance(run, str | Path):
        raise UserError(f"resume takes the path of a run; got {run!r}")
    folder = recipes.find_run(run, "resume")
    if (known := ending(folder)) is not None:
        with speaking():
            log.info(f"{folder} is finished, with epoch {known['epochs']}: see its report.md")
        metrics = {split: known[split] for split in ("val", "test") if known.get(split)}
        return RunResult(folder, metrics, known["seconds"])
    with going_on(folder):
        return train_resolved(resolve(folder / "config.yaml", {"run.dir": str(folder)}), main)


def train_resolved(
    resolved: Resolved, main: Callable[[Config], RunResult] | None = None
) -> RunResult:
    """`train` behind its config."""
    with placing(resolved.origins):
        resolved = adopt(resolved)
    with speaking():
        for note in resolved.notes:
            log.info(f"model: {note}")
    try:
        with placing(resolved.origins):
            return (main or recipes.load(resolved.config.recipe))(resolved.config)
    except UserError as error:
        if "Original Traceback" not in str(error):
            raise
        raise UserError(sentence(error)) from error  # it comes from a worker process


def evaluate(
    run: str | Path, test: str | Path | None = None, overrides: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """The exported model of a finished run on its test split, or on the folder or table `test`.

    `overrides`, {"data.label": "column", ...}, says how the test data are read (`READING`), where
    that differs from the run.
    It runs the shipped script of the run's recipe, also where the run had one of its own.
    -> {"loss", ...}, see `zoo.training.metrics`. UserError where there is no such run or no test
    split, and for other overrides.
    """
    if not isinstance(run, str | Path) or not isinstance(test, str | Path | None):
        wants = "evaluate takes the paths of a run and of test data"
        raise UserError(f"{wants}; got {run!r} and {test!r}")
    folder = recipes.find_run(run, "evaluate")
    given = flatten(overrides or {})
    for key in given:
        if key not in READING:
            wants = f"evaluate takes {', '.join(READING)} beside a run"
            raise UserError(f"{wants}; got {key}{suggest(key, READING)}")
    test = given.pop("data.test", None) if test is None else test
    if test is not None:
        place = user_path(test)
        if not place.is_dir() and not is_table(test):
            wants = "evaluate takes --data.test FOLDER or TABLE"
            raise UserError(f"{wants}; got {test}, which is no folder")
        given["data.test"] = str(place.absolute() if place.exists() else test)
    learned = resolve(folder / "config.yaml").config.data.train
    config = resolve(folder / "config.yaml", given).config
    model = load(folder / "model")
    if KEYS["data.task"].of(config.recipe):  # a table alone may look like another task
        task = model.head.config.target  # type: ignore[union-attr]  # a run's model has a head
        config = replace(config, data=replace(config.data, task=task))
    if KEYS["data.columns"].of(config.recipe):  # others of the test table are not seen
        seen = model.record.preprocess.columns  # type: ignore[union-attr]  # that of a series
        config = replace(config, data=replace(config.data, columns=seen))
    script = sys.modules[recipes.load(config.recipe).__module__]
    source = str(config.data.test)
    alone = test is not None or Path(source).is_dir() or is_table(source)
    for key in ("input", "label"):
        if alone and f"data.{key}" in given and not is_table(source):
            refuse_column(key, source)
    splits = script.held_out(config, model.record.labels) if alone else script.splits(config)
    if splits.labels != model.record.labels:
        other = sorted({*splits.labels} ^ {*(model.record.labels or ())})
        raise UserError(
            f"evaluate takes the classes that {folder} was trained on; data.train now differs in "
            f"{some(other) or 'their order'}: give --data.test FOLDER"
        )
    if not alone and config.data.test is not None:
        check_unchanged(folder, config, splits)
    if splits.test is None:
        raise UserError(f"evaluate takes a test split; {folder} has none: give --data.test FOLDER")
    # one process: it has no rows to share, and a notebook could start no other
    config = replace(config, hw=replace(config.hw, devices=1))
    task, loaders = Task(model, config), script.loaders(config, splits, model)
    with speaking():
        introduce_data(splits)
        if test is not None and user_path(test).resolve() == user_path(learned).resolve():
            log.info(f"data: {test} is what the run learned from, so these figures say nothing of "
                     "other data")  # fmt: skip
        say_baselines(baselines(splits, model.head), "test")  # type: ignore[arg-type]
        log.info(f"hardware: {(hardware := plan(config))}")
        trainer = make_trainer(config, hardware)
        trainer.test(task, datamodule=loaders, verbose=False)
    return dict(task.metrics["test"].values)  # type: ignore[arg-type]


def check_unchanged(folder: Path, config: Config, splits: Any) -> None:
    """UserError where the data that test was drawn from are not those of the run any more: what is
    drawn from them now may be what it was trained on."""
    try:
        facts = json.loads((folder / "data.json").read_text("utf-8"))
        known = facts.get("fingerprint")
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"evaluate takes a run with its data.json; {folder} has none that can be "
                        "read: give --data.test FOLDER or TABLE") from error  # fmt: skip
    if known != splits.fingerprint:
        told = changes(facts, facts_of_data(splits))
        raise UserError(
            f"evaluate takes the data that {folder} was trained on, from which its test was drawn; "
            f"{config.data.train} has changed since ({told}): give --data.test FOLDER or TABLE"
        )
