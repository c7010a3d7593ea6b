"""What other installed packages bring: families, adapters and heads behind entry points.

A package says in its pyproject.toml, for example,

    [project.entry-points."zoo.adapters"]
    Series = "my_package:Series"

and `Series`, a Part with `api = 1`, stands beside the built-in ones by its entry point's name: in
recipes (`model.adapter.kind: Series`), in saved models, in `zoo list plugins`. A broken one, or one
whose name is taken, is listed with the reason and otherwise left out; nothing else fails.
"""

import functools
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from importlib.metadata import entry_points
from typing import Any

import torch

from zoo import adapters, heads
from zoo.errors import UserError, too_large
from zoo.families import FAMILIES, Family
from zoo.nn import Backbone, Part
from zoo.nn.config import hints_of

API = 1


@dataclass(frozen=True)
class Plugin:
    """An entry point, and what became of it."""

    group: str
    """families, adapters or heads."""
    name: str
    package: str
    value: Any = None
    """The Family or the class; None if it cannot be used."""
    reason: str = ""
    """Why it cannot be used; "" if it can."""


def parts_of(package: Any) -> dict[str, type[Part]]:
    """The parts that a package shows, by name."""
    kinds = [k for k in vars(package).values() if isinstance(k, type) and issubclass(k, Part)]
    return {kind.__name__: kind for kind in kinds}


BUILT_IN: Mapping[str, Mapping[str, Any]] = {
    "families": {family.name: family for family in FAMILIES},
    "adapters": parts_of(adapters),
    "heads": parts_of(heads),
}


@functools.cache
def plugins() -> tuple[Plugin, ...]:
    """Every entry point of the three groups, each with its value or the reason why not."""
    found: list[Plugin] = []
    for group in BUILT_IN:
        taken = dict.fromkeys(BUILT_IN[group], "omnizoo")
        for point in sorted(entry_points(group=f"zoo.{group}"), key=lambda p: (p.name, p.value)):
            package = point.dist.name if point.dist else "?"
            try:
                value = point.load()
                reason = fault(group, value) or unreachable(value, [p.value for p in found])
            except (Exception, SystemExit) as error:  # a plugin's own code may raise anything
                value, reason = None, f"{type(error).__name__}: {error}"
            if not reason and point.name in taken:
                reason = f"{taken[point.name]} has that name"
            own = value.name if isinstance(value, Family) else getattr(value, "__name__", "")
            if not reason and own != point.name:  # files of models name it by its own
                reason = f"it calls itself {own}: name the entry point so too"
            if not reason:
                taken[point.name] = package
            found.append(Plugin(group, point.name, package, None if reason else value, reason))
    return tuple(found)


def fault(group: str, value: Any) -> str:
    """What is wrong with a plugin's value; "" if nothing is."""
    part = isinstance(value, type) and issubclass(value, Part) and "Config" in vars(value)
    wants = "a Family" if group == "families" else "a subclass of zoo.nn.Part with a Config"
    if not (isinstance(value, Family) if group == "families" else part):
        return f"it is {value!r}, not {wants}"
    has = getattr(value, "api", None)
    if has != API:
        return f"its api is {has}; this version takes {API}"
    return "" if isinstance(value, Family) else fault_of_part(value)


def fault_of_part(kind: Any) -> str:
    """What is wrong with a part from outside, as far as it can be told before it is asked for.

    One that takes whole numbers alone is made once, without memory for its weights.
    """
    if not (is_dataclass(kind.Config) and kind.Config.__dataclass_params__.frozen):  # type: ignore[attr-defined]  # every dataclass has them
        return "its Config is no frozen dataclass"
    needed = [f.name for f in fields(kind.Config)
              if f.default is MISSING and f.default_factory is MISSING]  # fmt: skip
    if any(hints_of(kind.Config)[name] is not int for name in needed):
        return ""
    with torch.random.fork_rng(devices=[]), torch.device("meta"), suppress(Exception):
        part = kind(**dict.fromkeys(needed, 16))  # errors may be about that size: no verdict
        return "" if hasattr(part, "dim") else NO_DIM
    return ""


NO_DIM = "it has no `dim`, the width of its tokens: set it in __init__"


def unreachable(value: Any, before: list[Any]) -> str:
    """Why no model of a family can be asked for: a family before it reads its names."""
    if not isinstance(value, Family):
        return ""
    known = (*FAMILIES, *(family for family in before if isinstance(family, Family)))
    taken = [(name, f.name) for name in value.names for f in known if f.parse(name) is not None]
    return f"its name {taken[0][0]} is one of the family {taken[0][1]}" if taken else ""


def make(kind: type[Part], *config: Any, **options: Any) -> Any:
    """A part of a kind. UserError that names the package where a part from outside cannot be made;
    OptionError for options."""
    package = next((p.package for p in plugins() if p.value is kind), None)
    try:
        part = kind(*config, **options)
    except Exception as error:
        if package is None or isinstance(error, UserError) or too_large(error):
            raise
        told = (str(error).strip().splitlines() or [""])[0][:200]
        raise UserError(f"{kind.__name__} of the package {package} cannot be made, "
                        f"{type(error).__name__}: {told}") from error  # fmt: skip
    if package is not None and not hasattr(part, "dim"):
        raise UserError(f"{kind.__name__} of the package {package} cannot be used: {NO_DIM}")
    return part


def families() -> tuple[Family, ...]:
    """Built-in families, then those of plugins."""
    return (*FAMILIES, *(p.value for p in plugins() if p.group == "families" and p.value))


def kinds(section: str) -> dict[str, type[Part]]:
    """The parts that may stand in a model's section "adapter", "backbone" or "head", by name."""
    if section == "backbone":
        return {"Backbone": Backbone}
    group = f"{section}s"
    more = {p.name: p.value for p in plugins() if p.group == group and p.value}
    return {**BUILT_IN[group], **more}


def fault_of(section: str, name: object) -> str:
    """Why the plugin of that name cannot be used in a section; "" where none is installed."""
    reasons = [p.reason for p in plugins() if (p.group, p.name) == (f"{section}s", name)]
    return next(iter(reasons), "")
