"""From names and options to configs, before anything is built."""

import inspect
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zoo.errors import OptionError, cut, require, suggest
from zoo.extend import families
from zoo.families import Family
from zoo.inputs.labels import clean_label
from zoo.nn import Part
from zoo.nn.backbone import option_paths
from zoo.nn.backbone import set_option as set_backbone
from zoo.nn.config import hints_of, match, paths, put, read_option

SECTIONS = ("adapter", "backbone", "head")


def configs_for(
    name: str, classes: Any, options: Mapping[str, Any], owner: str = "create"
) -> tuple[Family, tuple[str, ...] | None, dict[str, Any]]:
    """A model's name, classes and options as `create` takes them -> its family, the labels, and
    the config of each section. `owner` is what the user called, for errors."""
    family, columns = find(name, owner)
    labels = None
    if classes is not None:
        columns["classes"], labels = count_and_labels(classes, owner)
    options = dict(options)
    headless, given = "head" in options, options.pop("head", None)
    wants = f"{owner} takes head=None alone (other heads: Model(adapter, backbone, head))"
    require(given is None, f"{wants}; got {given!r}", "head")
    hints, taken = hints_of(family.build), inspect.signature(family.build).parameters
    columns |= {key: options.pop(key) for key in list(options) if key in taken}
    columns = {k: read_option(owner, k, hints.get(k, Any), v) for k, v in columns.items()}
    configs: dict[str, Any] = dict(zip(SECTIONS, family.build(**columns), strict=True))
    made = configs["adapter"]
    for key, value in options.items():
        set_option(configs, key, value, taken, owner)
    shape = getattr(Part.of_config[type(made)], "stages_of", None)
    if shape is not None and shape(made) != shape(configs["adapter"]):
        given = ", ".join(key for key in options if key.startswith("adapter."))
        wants = f"{owner} takes what shapes the stages of {family.name} by its plain names"
        raise OptionError(f"{wants}; got {given}", given)
    if headless:
        configs["head"] = None
    return family, labels, configs


def find(name: str, owner: str = "create") -> tuple[Family, dict[str, Any]]:
    """A model's name -> its family and columns. OptionError with the closest name where no family
    takes it."""
    for family in families() if isinstance(name, str) else ():
        columns = family.parse(name)
        if columns is not None:
            return family, columns
    hint = (
        suggest(str(name), [n for family in families() for n in family.names])
        or "; zoo.list_models() shows the names"
    )
    raise OptionError(f"{owner} takes the name of a model; got {name!r}{hint}", "name")


def count_and_labels(classes: Any, owner: str = "create") -> tuple[int, tuple[str, ...] | None]:
    """10 -> (10, None); ["cat", "dog"] -> (2, ("cat", "dog")). OptionError for anything else."""
    if isinstance(classes, numbers.Integral) and not isinstance(classes, bool):
        return int(classes), None
    names = tuple(classes) if isinstance(classes, Sequence) and not isinstance(classes, str) else ()
    plain = {clean_label(name) if isinstance(name, str) else "" for name in names}
    if not names or "" in plain or len(plain) < len(names):
        wants = "classes as a number, or as the labels' names, each once"
        raise OptionError(f"{owner} takes {wants}; got {cut(repr(classes))}", "classes")
    return len(names), names


def set_option(
    configs: dict[str, Any], key: str, value: Any, columns: Iterable[str], owner: str
) -> None:
    """Put one option of `create`, or whoever is the owner, into the config that has it. OptionError
    where none has, or several."""
    sections = [s for s in ("adapter", "head") if configs[s] is not None]
    every = {f"{s}.{path}": s for s in sections for path in paths(configs[s])}
    for path in option_paths(configs["backbone"]):
        every[path if path.startswith("block.") else f"backbone.{path}"] = "backbone"
    for path in match(key, list(every), owner, columns):
        section = every[path]
        change = set_backbone if section == "backbone" else put
        configs[section] = change(configs[section], path.removeprefix(f"{section}."), value)
