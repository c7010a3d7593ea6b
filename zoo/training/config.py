"""From a recipe, a preset and flags to one checked config that knows where each value came from.

The highest layer that gives a value wins: explicit flag > preset > recipe > default, wherever the
preset is named. A saved file has the values themselves and no preset, so that it runs again as it
was.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from zoo.errors import OptionError, UserError, some, suggest
from zoo.training import recipes
from zoo.training.places import Dumper, Given, Loader, read, shown
from zoo.training.schema import KEYS, Config, check, wording
from zoo.training.sections import (
    PRESETS,
    SECTIONS,
    DataConfig,
    HardwareConfig,
    OptimConfig,
    RunConfig,
    SelectConfig,
)
from zoo.training.swap import leave_out

__all__ = [
    "Config",
    "DataConfig",
    "Draft",
    "HardwareConfig",
    "OptimConfig",
    "Origin",
    "Resolved",
    "RunConfig",
    "SelectConfig",
    "collect",
    "flatten",
    "locate",
    "nearest",
    "placing",
    "resolve",
    "unflatten",
]

MODEL_FORMS = ("name", "load", "backbone")  # a model section has one of them
PARTS = (  # one of these comes with a backbone that is a model's form
    "model.backbone", "model.backbone.kind", "model.backbone.dim", "model.backbone.depth",
    "model.backbone.heads", "model.backbone.stages", "model.adapter.kind",
)  # fmt: skip
FORM_KEYS = ("model.name", "model.load")
OTHER_NAMES = {  # what people call a key elsewhere
    "batch_size": "run.global_batch",
    "gpus": "hw.devices",
    "label_smoothing": "optim.smoothing",
    "learning_rate": "optim.lr",
    "max_epochs": "run.epochs",
    "num_epochs": "run.epochs",
    "num_workers": "hw.workers",
    "output_dir": "run.dir",
}

Layer = dict[str, Given]  # dotted key -> value and place


class Origin(NamedTuple):
    """What gave a value: `default`, `recipe`, `preset` or `flag`, and its `file:line` or flag."""

    layer: str
    where: str = ""


class Draft(NamedTuple):
    """{dotted key: checked value, or `MISSING` where one must still be given}, before a config."""

    name: str
    path: Path
    values: dict[str, Any]
    origins: dict[str, Origin]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Resolved:
    """A config with the origin of each dotted key, model options included; the recipe's file."""

    config: Config
    origins: dict[str, Origin]
    path: Path
    notes: tuple[str, ...] = ()
    """What of the file was left out."""

    def locate(self, key: str) -> str:
        """`file:line` or the flag that gave a key, "" where nowhere."""
        return locate(self.origins, key)


def locate(origins: Mapping[str, Origin], key: str) -> str:
    """`file:line` or the flag that gave a key, "" where nowhere.

    `head.pool` is looked for as `model.head.pool`, then as `model.head`, which gave it all, then
    as the one option of the model that ends so, since a part does not know how it was reached.
    """
    for dotted in (f"model.{key}", key):
        while "." in dotted:
            for known, origin in origins.items():
                if f"{known}.".startswith(f"{dotted}."):
                    return origin.where
            dotted = dotted.rpartition(".")[0]
    named = [k for k in origins if k.startswith("model.") and k.endswith(f".{key}")]
    return origins[named[0]].where if len(named) == 1 else ""


@contextmanager
def placing(origins: Mapping[str, Origin]) -> Iterator[None]:
    """Inside, an OptionError becomes a UserError that says where the option was given."""
    try:
        yield
    except OptionError as error:
        where = locate(origins, error.key) if error.key else ""
        raise UserError(f"{error} ({where})" if where else str(error)) from error


def resolve(recipe: str | Path, overrides: Mapping[str, Any] | None = None) -> Resolved:
    """A recipe's name or YAML file, {dotted key: value} on top -> the checked config with origins.

    Text in `overrides` is read as its key's type, as behind a flag. Raises `UserError` for whatever
    does not fit.
    """
    draft = collect(recipe, overrides)
    here = f"write it in {shown(draft.path)}"
    for key, value in draft.values.items():
        if value is MISSING:
            help = KEYS[key].help
            raise UserError(f"{draft.name} needs {key} ({help}); give --{key} VALUE or {here}")
    nested = unflatten(draft.values)
    if all(nested.get("model", {}).get(form) is None for form in MODEL_FORMS):
        ways = "--model.name NAME (`zoo list models`) or --model.load PATH"
        raise UserError(f"{draft.name} needs a model; give {ways}, or {here}")
    sections = {section: kind(**nested.get(section, {})) for section, kind in SECTIONS.items()}
    config = Config(recipe=draft.name, model=nested["model"], **sections)
    return Resolved(config, draft.origins, draft.path, draft.notes)


def collect(recipe: str | Path, overrides: Mapping[str, Any] | None = None) -> Draft:
    """All layers of a recipe on each other, checked, with what must still be given left open."""
    path = recipes.find(recipe)
    if not isinstance(overrides, Mapping | None):
        raise UserError(f"overrides are {{'optim.lr': 1e-4, ...}}; got {overrides!r}")
    written = read(path)
    name = recipes.name_of(path, written.pop("recipe", None))
    flags = {key: Given(value, f"--{key}") for key, value in flatten(overrides or {}).items()}

    given: Layer = {k.name: Given(k.default, "") for k in KEYS.values() if k.of(name)}
    origins, notes = dict.fromkeys(given, Origin("default")), ()
    preset = _preset(flags if "hw.preset" in flags else written)
    layers = ("recipe", written), ("preset", preset), ("flag", flags)
    for layer, values in layers:
        for key, value in values.items():
            if key in KEYS and not KEYS[key].of(name):
                tasks = " and ".join(KEYS[key].tasks)
                raise UserError(f"{key} is a key of {tasks}; {name} has none of it{value.at}")
        if layer == "flag":
            notes = leave_out(given, flags)
            if "select.metric" in flags:  # a file's mode is that of the file's metric
                given["select.mode"] = Given(KEYS["select.mode"].default, "")
                origins["select.mode"] = Origin("default")
        if replaced := _lay(given, values):
            notes = (*notes, f"left out, with the recipe's own model: {some(replaced)}")
        origins |= {key: Origin(layer, value.where) for key, value in values.items()}
    order = [*KEYS, *given]  # the sections' own order, the model's options after it
    values = {key: _typed(key, given[key]) for key in sorted(given, key=order.index)}
    origins = {"recipe": Origin("recipe", shown(path))} | {key: origins[key] for key in values}
    return Draft(name, path, values, origins, notes)


def flatten(mapping: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """{"head": {"pool": "mean"}} -> {"head.pool": "mean"}.

    A mapping that is empty, or has a key that is no text, stays as a value.
    """
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        deep = isinstance(value, Mapping) and value and all(isinstance(k, str) for k in value)
        flat |= flatten(value, f"{above}{key}.") if deep else {f"{above}{key}": value}
    return flat


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"head.pool": "mean"} -> {"head": {"pool": "mean"}}.

    Text with options below it is a kind: {"position": "rope", "position.base": 100} ->
    {"position": {"kind": "rope", "base": 100}}.
    """
    nested: dict[str, Any] = {}
    for dotted, value in flat.items():
        *path, last = dotted.split(".")
        inner = nested
        for key in path:
            if not isinstance(inner.setdefault(key, {}), dict):
                inner[key] = {"kind": inner[key]}
            inner = inner[key]
        below = inner.get(last)
        inner[last] = {"kind": value, **below} if isinstance(below, dict) else value
    return nested


def nearest(key: str, mark: str = "") -> str:
    """The end of a sentence about a wrong key: what was probably meant, or what there is.

    `mark` stands before each key, `--` where they are flags.
    """
    section, _, leaf = key.partition(".")
    leaf = leaf or section
    same = [OTHER_NAMES[leaf]] if leaf in OTHER_NAMES else []
    same += [k for k in KEYS if k.endswith(f".{leaf}")]
    if same:
        return f"; did you mean '{mark}{same[0]}'?"
    inside = {k.partition(".")[2]: k for k in KEYS if _inside(k, section)}
    if inside:
        every = {k.partition(".")[2]: k for k in reversed(KEYS)}
        own = get_close_matches(leaf, inside, 1, 0.75)
        close = own or get_close_matches(leaf, every, 1, 0.75)  # or a key of another section
        close = close or get_close_matches(leaf, inside, 1, 0.5)
        hint = f"; did you mean '{mark}{(every | inside)[close[0]]}'?" if close else ""
        return hint or f"; {section} has {', '.join(mark + k for k in inside.values())}"
    hint = suggest(key, [*KEYS, "model.name"]).replace("'", f"'{mark}", 1)
    return hint or f"; the sections are {', '.join(SECTIONS)}, model"


def _preset(layer: Layer) -> Layer:
    """What the preset that a layer names stands for."""
    if "hw.preset" not in layer:
        return {}
    preset = check(KEYS["hw.preset"], layer["hw.preset"])
    where = f"hw.preset {preset}{layer['hw.preset'].at}"
    return {key: Given(value, where) for key, value in PRESETS.get(preset, {}).items()}


def _lay(under: Layer, over: Layer) -> Layer:
    """Puts a layer on top: `head` takes the place of all below `head`. -> the options that went
    with a model that was replaced.

    Another form of model takes the place of the whole model: `--model.load PATH` that of a recipe's
    `model.name` and of the options that go with it. What is below the name of a kind joins it:
    `--model.position.base 100` a recipe's `model.position: rope`.
    """
    for key, given in over.items():
        below = next((k for k in over if k.startswith(f"{key}.")), None)
        if below and not isinstance(given.value, str):
            both = f"{key}{given.at} and {below}{over[below].at}"
            raise UserError(f"{key} takes options below a kind's name; got {both}: keep one")
    forms = _forms(over)
    if len(forms) > 1:
        places = " and ".join(f"model.{form}{over[key].at}" for form, key in forms.items())
        raise UserError(f"model takes one of {', '.join(MODEL_FORMS)}; got {places}, keep one")
    other = bool(forms and _forms(under).keys() - forms.keys())
    replaced, options = [*over, "model"] if other else [*over], {}
    for key in [key for key in under if key not in over]:
        named = key.startswith("model.") and isinstance(under[key].value, str)
        if any(_inside(key, k) or (_inside(k, key) and not named) for k in replaced):
            given = under.pop(key)
            if other and key.startswith("model.") and key not in FORM_KEYS:
                options[key] = given
    under |= over
    return options


def _forms(layer: Layer) -> dict[str, str]:
    """The forms of model that a layer gives, each with the first of its keys.

    A backbone's further options, such as `model.backbone.norm`, are options of a named model too.
    """
    keys = {f: [key for key in layer if _inside(key, f"model.{f}")] for f in MODEL_FORMS}
    if not any(key in layer for key in PARTS):
        del keys["backbone"]
    return {form: given[0] for form, given in keys.items() if given}


def _inside(key: str, other: str) -> bool:
    return key == other or key.startswith(f"{other}.")


def _typed(key: str, given: Given) -> Any:
    if key.startswith("model."):
        return _plain(key, given)
    if key not in KEYS:
        raise UserError(_unknown(key, given))
    return MISSING if given.value is MISSING else check(KEYS[key], given)


def _plain(key: str, given: Given) -> Any:
    """A model option must be writable: numbers, text, true, false, null, and lists of them."""
    value = os.fspath(given.value) if isinstance(given.value, os.PathLike) else given.value
    try:
        return yaml.load(yaml.dump(value, Dumper=Dumper), Loader)  # as a saved file would have it
    except yaml.YAMLError:
        kind = type(value).__name__
        raise UserError(
            f"{key} takes numbers, text, true, false, null and lists of them; got {kind}{given.at}"
        ) from None


def _unknown(key: str, given: Given) -> str:
    if key in (*SECTIONS, "model"):
        first = next((k for k in KEYS if _inside(k, key)), "model.name")
        return f"{key} takes keys of its own, such as {first}; got {wording(given.value)}{given.at}"
    return f"there is no key {key!r}{given.at}{nearest(key)}"
