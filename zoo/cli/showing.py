"""`zoo show`: a recipe's values and where each comes from, the model's own options among them."""

import argparse
from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from zoo.cli.arguments import Flags
from zoo.cli.table import write_table

FROM_DATA = "from the data"


def show(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo show`. UserError, as in training, for a model that cannot be built."""
    from zoo.training.config import collect, unflatten

    draft = collect(args.recipe, flags)
    rows = [["recipe", draft.name, draft.origins["recipe"].where]]
    for key, value in draft.values.items():
        layer, where = draft.origins[key]
        rows.append([key, shown(value), "" if value is MISSING else f"{layer} {where}".strip()])
    sections = unflatten(draft.values).get("model", {})
    own = list(own_options(draft.name, sections, draft.origins))
    source = "the loaded model" if "load" in sections else "default"
    for key, value in own if args.all else ():
        found = [FROM_DATA, ""] if value is MISSING else [shown(value), source]
        rows.append([f"model.{key}", *found])
    write_table(["key", "value", "from"], rows)
    if own and not args.all:
        print(f"\nthe model has {len(own)} more options: zoo show {args.recipe} --all")
    return 0


def own_options(
    recipe: str, sections: dict[str, Any], origins: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """(dotted key, plain value) of each option of the model's parts that nothing gave; `MISSING`
    for a value that data will give. With that value the key is taken as a flag, but beside
    `model.load`, which takes none."""
    import torch

    from zoo.nn.config import to_plain
    from zoo.training.config import MODEL_FORMS, placing
    from zoo.training.models import KINDS, make_model, stand_in

    if not any(form in sections for form in MODEL_FORMS):
        return  # one must still be given
    place = str(sections.get("load", ""))
    if place.count("/") == 1 and not Path(place).expanduser().exists():
        return  # of the Hub: nothing is fetched to be shown
    kind = KINDS[recipe.split("/")[0]]
    prepare = stand_in(kind)
    with placing(origins), torch.device("meta"):
        model: Any = make_model(sections, ["a", "b"], kind=kind, prepare=prepare)
    parts = not {"name", "load"} & sections.keys()
    set_by_data = {"head.target"}
    if prepare is not None and "load" not in sections:
        set_by_data |= {f"adapter.{name}" for name in model.record.preprocess.adapter()}
    given = [key.removeprefix("model.") for key in origins if key.startswith("model.")]
    given = [key.removesuffix(".kind") for key in given]
    for section in ("adapter", "backbone", "head"):
        for path, value in options_of(section, model, parts):
            key = path if path.startswith("block.") and not parts else f"{section}.{path}"
            names = [g.removeprefix(f"{section}.") for g in given] if parts else given
            if path == "classes" or any(f".{key}".endswith(f".{name}") for name in names):
                continue
            yield key, MISSING if key in set_by_data else to_plain(value)


def options_of(section: str, model: Any, parts: bool) -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of a part's options that one flag can set.

    A block's are those of all stages; they are left out where stages differ. So are options that
    shape the stages, of an adapter that has such: a model's name or the adapter gives them.
    """
    from zoo.nn.backbone import option_paths
    from zoo.nn.config import paths

    config, shaped = getattr(model, section).config, hasattr(model.adapter, "stages")
    for path in option_paths(config) if section == "backbone" else paths(config):
        every = path.startswith("block.")
        values = [at(path, stage) for stage in config.stages] if every else [at(path, config)]
        if any(value != values[0] for value in values) or (every and parts and shaped):
            continue
        yield path, values[0]


def at(path: str, config: Any) -> Any:
    """The value at a dotted path."""
    for name in path.split("."):
        config = getattr(config, name)
    return config


def show_keys(recipe: str | None, flags: Flags) -> None:
    """The keys of each section: what they take, their value in `recipe`, a line of help."""
    from zoo.training.config import collect
    from zoo.training.schema import KEYS
    from zoo.training.sections import SECTIONS

    values = collect(recipe, flags).values if recipe else {k.name: k.default for k in KEYS.values()}
    for section, kind in SECTIONS.items():
        print(f"\n{section}: {kind.__doc__}")
        keys = [k for k in KEYS.values() if k.name.startswith(f"{section}.") and k.name in values]
        rows = [[f"--{k.name}", k.short, shown(values[k.name]), k.help] for k in keys]
        write_table(["", "takes", "value", ""], rows)
    print("\nmodel: name, load (a saved model's folder) or backbone, and any option of its parts")
    rows = [[f"--{k}", shown(v)] for k, v in values.items() if k.startswith("model.")]
    write_table(["", "value"], rows or [["--model.name", shown(MISSING)]])


def shown(value: Any) -> str:
    """A config's value, or that one must be given."""
    from zoo.training.places import inline

    return "must be given" if value is MISSING else inline(value)
