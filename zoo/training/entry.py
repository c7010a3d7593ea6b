"""What commands and scripts call: train, evaluate, build."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.errors import OptionError, UserError, one_of
from zoo.inputs import Preprocess
from zoo.model import Model, Record
from zoo.registry import PARTS, create, load
from zoo.shapes import pair
from zoo.training import recipes
from zoo.training.config import Config, flatten, resolve
from zoo.training.console import speaking
from zoo.training.hardware import make_trainer, plan
from zoo.training.run import RunResult
from zoo.training.task import Task


def train(
    recipe: str | Path,
    overrides: Mapping[str, Any] | None = None,
    main: Callable[[Config], RunResult] | None = None,
) -> RunResult:
    """Train as a recipe says, with {"optim.lr": 1e-4, ...} on top of it.

    The same as `zoo train RECIPE --optim.lr 1e-4`; `main` stands in for the recipe's own script.
    UserError for whatever does not fit, before anything is written.
    """
    resolved = resolve(recipe, overrides)
    try:
        return (main or recipes.load(resolved.config.recipe))(resolved.config)
    except OptionError as error:
        where = resolved.locate(error.key) if error.key else ""
        raise UserError(f"{error} ({where})" if where else str(error)) from error


def evaluate(run: str | Path, test: str | Path | None = None) -> dict[str, float]:
    """The exported model of a finished run on its test split, or on the folder `test`.

    -> {"loss", "accuracy", "macro_f1"}. UserError where there is no such run or no test split.
    """
    folder = Path(run).expanduser()
    if not (folder / "config.yaml").is_file():
        raise UserError(f"evaluate takes the folder of a run; got {folder}, without a config.yaml")
    config = resolve(
        folder / "config.yaml", {} if test is None else {"data.test": str(test)}
    ).config
    model = load(folder / "model")
    script = sys.modules[recipes.load(config.recipe).__module__]
    alone = test is not None or (config.data.test and Path(str(config.data.test)).is_dir())
    splits = script.held_out(config, model.record.labels) if alone else script.splits(config)
    if splits.labels != model.record.labels:
        other = sorted({*splits.labels} ^ {*(model.record.labels or ())})
        raise UserError(
            f"evaluate takes the classes that {folder} was trained on; data.train now differs in "
            f"{', '.join(other) or 'their order'}: give --data.test FOLDER"
        )
    if splits.test is None:
        raise UserError(f"evaluate takes a test split; {folder} has none: give --data.test FOLDER")
    # one process: it has no rows to share, and a notebook could start no other
    config = replace(config, hw=replace(config.hw, devices=1))
    task, loaders = Task(model, config), script.loaders(config, splits, model)
    with speaking():
        trainer = make_trainer(config, plan(config))
        values = trainer.test(task, datamodule=loaders, verbose=False)[0]
    return {name.removeprefix("test/"): value for name, value in values.items()}


def build(config: Config, labels: Sequence[str]) -> Model:
    """The config's model with a head for these labels.

    `model.name` and options make a new one, `model.load` takes a saved one with a new head where
    the labels differ, `model.backbone`, `adapter` and `head` put parts together by their kinds.
    OptionError for what the model or a part does not have.
    """
    options = flatten(config.model)
    if "name" in options:
        return create(options.pop("name"), classes=list(labels), **options)
    if "load" in options:
        path = options.pop("load")
        for key in options:
            raise OptionError(f"model.load takes no options beside it; got {key!r}", key)
        model = load(path)
        same = model.record.labels == tuple(labels)
        return model if same else load(path, classes=list(labels))
    return assemble(config.model, labels)


def assemble(sections: Mapping[str, Any], labels: Sequence[str]) -> Model:
    """{"adapter": {"size": 32, ...}, "backbone": {...}, "head": {...}} -> a model.

    A section's `kind` names the class, unless it is Patches, Backbone or Classify.
    """

    def part(section: str, kind: str, **options: Any) -> Any:
        given = {"kind": kind, **options, **(sections.get(section) or {})}
        name = one_of("model", f"{section}.kind", given.pop("kind"), PARTS[section])
        return PARTS[section][name](**given)

    adapter, backbone = part("adapter", "Patches"), part("backbone", "Backbone")
    head = part("head", "Classify", dim=backbone.dim, classes=len(labels))
    prepare = Preprocess(size=pair(adapter.config.size), channels=adapter.config.channels)
    return Model(adapter, backbone, head, Record(labels=tuple(labels), preprocess=prepare))
