"""`zoo show`: a recipe's values and where each comes from, the model's own options among them."""

import argparse
from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any

from zoo.cli.arguments import Flags
from zoo.cli.table import write_table


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
    rows += [[f"model.{key}", shown(value), source] for key, value in own if args.all]
    write_table(["key", "value", "from"], rows)
    if own and not args.all:
        print(f"\nthe model has {len(own)} more options: zoo show {args.recipe} --all")
    return 0


def own_options(
    recipe: str, sections: dict[str, Any], origins: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """(dotted key, plain value) of each option of the model's parts that nothing gave."""
    import torch

    from zoo.nn.backbone import option_paths
    from zoo.nn.config import paths, to_plain
    from zoo.training.config import MODEL_FORMS, placing
    from zoo.training.models import KINDS, make_model, stand_in

    if not any(form in sections for form in MODEL_FORMS):
        return  # one must still be given
    with placing(origins), torch.device("meta"):
        kind = KINDS[recipe.split("/")[0]]
        model = make_model(sections, ["a", "b"], kind=kind, prepare=stand_in(kind))
    given = [key.removeprefix("model.") for key in origins if key.startswith("model.")]
    for section in ("adapter", "backbone", "head"):
        config = getattr(model, section).config
        for path in option_paths(config) if section == "backbone" else paths(config):
            every = path.startswith("block.")  # of all stages; the first stands for them
            key = path if every else f"{section}.{path}"
            if path == "classes" or any(f".{key}".endswith(f".{g}") for g in given):
                continue
            value = config.stages[0] if every else config
            for name in path.split("."):
                value = getattr(value, name)
            yield key, to_plain(value)


def show_keys(recipe: str | None, flags: Flags) -> None:
    """The keys of each section: what they take, their value in `recipe`, a line of help."""
    from zoo.training.config import collect
    from zoo.training.schema import KEYS, SECTIONS

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
