"""`zoo show`: a recipe's values and where each comes from, the model's own options among them; and
`zoo train --help`, what each key is for."""

import argparse
import ast
import functools
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING
from itertools import pairwise
from textwrap import dedent
from typing import Any, NamedTuple

from zoo.cli.arguments import Flags
from zoo.cli.table import write_table
from zoo.errors import UserError
from zoo.inputs.names import user_path

FROM_DATA = "from the data"
FORMS = {  # what a model section begins with
    "name": "one of `zoo list models`, or such a name of other sizes; random weights",
    "load": "a run, a saved model, or a name of the Hub: its weights, in place of a name",
    "freeze": "body: the head alone learns; a number: what is less deep does not",
    "lora.rank": "of low-rank updates, which learn in place of the body",
    "lora.of": "the Linears that get them: some of [q, k, v, out, up, down]",
}


GROUPS = (  # of the options of a model's parts, each on a screen
    ("adapter.",),
    ("block.attn.", "backbone.block.attn."),
    ("block.mlp.", "backbone.block.mlp."),
    ("block.", "backbone.block."),
    ("backbone.",),
    ("head.",),
)


class Option(NamedTuple):
    """One of a model's own options."""

    key: str
    """As behind `--model.`."""
    value: Any
    """A plain value, `MISSING` for one that data will give."""
    about: str
    """What it is, in a line."""


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
    for option in own if args.all else ():
        given = option.value is MISSING
        found = [FROM_DATA, ""] if given else [shown(option.value), source]
        rows.append([f"model.{option.key}", *found])
    write_table(["key", "value", "from"], rows)
    if own and not args.all:
        print(f"\nthe model has {len(own)} more options: zoo show {args.recipe} --all")
    return 0


def own_options(
    recipe: str, sections: dict[str, Any], origins: dict[str, Any], every: bool = False
) -> Iterator[Option]:
    """Each option of the model's parts that nothing gave, or `every` one. With its value the key is
    taken as a flag, but beside `model.load`, which takes none."""
    import torch

    from zoo.nn.config import to_plain
    from zoo.training.config import MODEL_FORMS, placing
    from zoo.training.models import KINDS, make_model, stand_in

    if not any(form in sections for form in MODEL_FORMS):
        return  # one must still be given
    place = str(sections.get("load", ""))
    if place.count("/") == 1 and not user_path(place).exists():
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
        for path, value, told in options_of(section, model, parts):
            key = path if path.startswith("block.") and not parts else f"{section}.{path}"
            names = [g.removeprefix(f"{section}.") for g in given] if parts else given
            named = any(f".{key}".endswith(f".{name}") for name in names)
            if path == "classes" or (named and not every):
                continue
            yield Option(key, MISSING if key in set_by_data else to_plain(value), told)


def options_of(section: str, model: Any, parts: bool) -> Iterator[tuple[str, Any, str]]:
    """(dotted path, value, what it is) of a part's options that one flag can set.

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
        yield path, values[0], about(path, config.stages[0] if every else config)


def about(path: str, config: Any) -> str:
    """What the option at a dotted path is, in a line."""
    above, _, name = path.rpartition(".")
    return fields_of(type(at(above, config) if above else config)).get(name, "")


@functools.cache
def fields_of(kind: type) -> dict[str, str]:
    """{field: the first sentence of the docstring below it} of a config and those before it; {}
    where the source cannot be read."""
    above = fields_of(kind.__base__) if kind.__base__ not in (object, None) else {}
    try:
        body = ast.parse(dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]  # a class
    except (OSError, TypeError, SyntaxError):
        return above
    return above | {
        one.target.id: re.split(r"(?<! al)\.(?: |$)", " ".join(str(two.value.value).split()))[0]
        for one, two in pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        and isinstance(two, ast.Expr) and isinstance(two.value, ast.Constant)
    }  # fmt: skip


def at(path: str, config: Any) -> Any:
    """The value at a dotted path."""
    for name in path.split("."):
        config = getattr(config, name)
    return config


def show_keys(recipe: str | None, flags: Flags) -> None:
    """The keys of each section: what they take, their value in `recipe`, a line of help."""
    from zoo.training.config import collect, unflatten
    from zoo.training.schema import KEYS
    from zoo.training.sections import SECTIONS

    draft = collect(recipe, flags) if recipe else None
    values = {k.name: k.default for k in KEYS.values()} if draft is None else draft.values
    for section, kind in SECTIONS.items():
        keys = [k for k in KEYS.values() if k.name.startswith(f"{section}.") and k.name in values]
        if not keys:  # of other recipes
            continue
        print(f"\n{section}: {kind.__doc__}")
        rows = [[f"--{k.name}", k.short, shown(values[k.name]), k.help] for k in keys]
        write_table(["", "takes", "value", ""], rows)
    print("\nmodel: name, load or parts, what of it learns, and any option of its parts")
    given = {k.removeprefix("model."): v for k, v in values.items() if k.startswith("model.")}
    own: list[Option] = []
    if draft is not None:
        with suppress(UserError):  # which the run will say
            sections = unflatten(values).get("model", {})
            own = list(own_options(draft.name, sections, draft.origins, every=True))
    show_model(given, own)


def columns_of(given: dict[str, Any]) -> Iterator[Option]:
    """What shapes a named model, by the plain names that its family gives it."""
    from zoo.configs import find

    with suppress(UserError):
        family, columns = find(given["name"])
        adapter = type(family.build(**columns)[0])
        for name, taken in inspect.signature(family.build).parameters.items():
            if name != "classes":
                value = given.get(name, columns.get(name, taken.default))
                yield Option(name, value, shape(name, adapter))


def shape(key: str, *configs: type) -> str:
    """What a plain name such as `depth`, or one of a part, `adapter.position`, is, in a line."""
    from zoo.extend import kinds
    from zoo.nn import attention, backbone, block, mlp

    section, _, name = key.rpartition(".")
    parts = kinds(section).values() if section in ("adapter", "head") else ()
    body = (block.BlockConfig, attention.AttentionConfig, mlp.MlpConfig, backbone.Stage)
    for kind in (*configs, *(part.Config for part in parts), *body, backbone.BackboneConfig):
        if name in fields_of(kind):
            return fields_of(kind)[name]
    return "Width inside an MLP over that of the model" if name == "ratio" else ""


def show_model(given: dict[str, Any], own: list[Option]) -> None:
    """The keys of the model, a table for what is given and one for each part, and the kinds of
    parts that there are."""
    from zoo.extend import kinds

    needed = MISSING if not {"name", "load"} & given.keys() and not own else None
    rows = [[f"--model.{k}", shown(given.get(k, needed if k == "name" else None)), told]
            for k, told in FORMS.items()]  # fmt: skip
    columns = list(columns_of(given)) if "name" in given else []
    rows += [[f"--model.{o.key}", shown(o.value), o.about] for o in columns]
    known = [*FORMS, *(o.key for o in columns), *(o.key for o in own)]
    rows += [[f"--model.{k}", shown(v), shape(k)] for k, v in given.items()
             if not any(f".{one}".endswith(f".{k}") for one in known)]  # fmt: skip
    write_table(["", "value", ""], rows)
    left = list(own)
    for begins in GROUPS:
        section = begins[0].rstrip(".")
        named = section in ("adapter", "head")
        if named:
            print(f"\n--model.{section}.kind, in a recipe of parts: {', '.join(kinds(section))}")
        found = [o for o in left if o.key.startswith(begins)]
        left = [o for o in left if o not in found]
        rows = [[f"--model.{o.key}", FROM_DATA if o.value is MISSING else shown(o.value), o.about]
                for o in found]  # fmt: skip
        if rows:
            if not named:
                print()
            write_table(["", "value", ""], rows)


def shown(value: Any) -> str:
    """A config's value, or that one must be given."""
    from zoo.training.places import inline

    return "must be given" if value is MISSING else inline(value)
