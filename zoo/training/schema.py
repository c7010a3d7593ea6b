"""A config, and each of its keys: type, default, limits, a line of help."""

import math
import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import lru_cache
from numbers import Number
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from zoo.errors import UserError, suggest
from zoo.training.places import Dumper, Given, scalar
from zoo.training.sections import (
    SECTIONS,
    DataConfig,
    DistillConfig,
    EmaConfig,
    HardwareConfig,
    OptimConfig,
    RunConfig,
    SelectConfig,
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """A whole run. `recipe` is `<task>/<name>`; `model` has `name`, `load` or `backbone`."""

    recipe: str
    data: DataConfig
    model: dict[str, Any]
    optim: OptimConfig
    run: RunConfig
    distill: DistillConfig = field(default_factory=DistillConfig)
    ema: EmaConfig = field(default_factory=EmaConfig)
    select: SelectConfig = field(default_factory=SelectConfig)
    hw: HardwareConfig = field(default_factory=HardwareConfig)

    def to_dict(self) -> dict[str, Any]:
        """Nested dicts of plain values, without keys that only other tasks have."""
        values = asdict(self)
        for key in KEYS.values():
            if not key.of(self.recipe):
                section, _, name = key.name.partition(".")
                del values[section][name]
        return {section: given for section, given in values.items() if given != {}}

    def to_yaml(self) -> str:
        """YAML that `resolve` reads back, so that a saved file runs again.

        The config read is equal but for its preset, whose values stand here themselves.
        """
        plain = replace(self, hw=replace(self.hw, preset=None)).to_dict()
        return yaml.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1000)


@dataclass(frozen=True)
class Key:
    """One typed value of a config; `default` is `MISSING` where a value must be given."""

    name: str
    kind: Any
    default: Any
    help: str
    limits: Mapping[str, float]
    text: str = "text"
    tasks: tuple[str, ...] = ()

    def of(self, recipe: str) -> bool:
        """Whether the task of a recipe's name has this key."""
        return not self.tasks or recipe.split("/")[0] in self.tasks

    @property
    def wants(self) -> str:
        """What the key takes, in words: `a number above 0`."""
        *words, last = _words(self.kind, self.limits, self.text)
        return f"{', '.join(words)} or {last}" if words else last

    @property
    def short(self) -> str:
        """The same without limits, for a column of a table: `number`."""
        return " | ".join(
            word.removeprefix("a ").strip("'") for word in _words(self.kind, {}, self.text)
        )

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that the key takes, if it takes words."""
        return tuple(
            c for m in _members(self.kind) if get_origin(m) is Literal for c in get_args(m)
        )


def _keys() -> Iterator[Key]:
    for section, kind in SECTIONS.items():
        hints = get_type_hints(kind)
        for f in fields(kind):
            help, limits = f.metadata["help"], f.metadata["limits"]
            more = f.metadata["text"], f.metadata["tasks"]
            yield Key(f"{section}.{f.name}", hints[f.name], f.default, help, limits, *more)


KEYS: dict[str, Key] = {key.name: key for key in _keys()}


def check(key: Key, given: Given) -> Any:
    """The value in its key's type and limits; `UserError` names key, want, value and place."""
    value = os.fspath(given.value) if isinstance(given.value, os.PathLike) else given.value
    value = getattr(value, "item", lambda: value)() if isinstance(value, Number) else value
    if isinstance(value, str) and "\0" in value:
        raise UserError(f"{key.name} takes {key.wants}; got {value!r}{given.at}: drop the NUL")
    if isinstance(value, str) and not value.strip():
        raise UserError(f"{key.name} takes {key.wants}; got an empty word{given.at}: leave it out")
    readings = [value]
    if isinstance(value, str) and key.kind is not str:
        read = scalar(value)  # behind a flag all is text: a number, or a path?
        readings = [read, value]
        if read is None or (type(read) in (int, float) and float in _members(key.kind)):
            value, readings = read, [read]  # never a path
    wrong = f"{key.name} takes {key.wants}; got {wording(value)}{given.at}"
    for typed in (_typed(key, reading) for reading in readings):
        if typed is not MISSING:
            break
    else:
        if isinstance(value, str):
            raise UserError(wrong + suggest(value, key.choices))
        text = str in _members(key.kind) and isinstance(value, int | float)
        raise UserError(wrong + ("; put it in quotes" if text else ""))
    for number in typed if isinstance(typed, tuple) else [typed]:
        if type(number) in (int, float) and not _within(number, key.limits):
            raise UserError(wrong)
    return typed


def _typed(key: Key, value: Any) -> Any:
    """The value as the key's type, MISSING where it is of another."""
    members = _members(key.kind)
    if isinstance(value, str):  # jsonargparse would go on to read it, 12:30 as 750
        return value if str in members or value in key.choices else MISSING
    if value is None:  # and it takes null everywhere
        return None if NoneType in members else MISSING
    try:
        return _parser().parse_object({key.name: value}, defaults=False)[key.name]
    except ArgumentError:
        return MISSING


def wording(value: Any) -> str:
    """A value as a YAML file would have it, text in quotes."""
    return (
        {None: "null", True: "true", False: "false"}[value]
        if value is None or isinstance(value, bool)
        else repr(value)
    )


@lru_cache
def _parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    for key in KEYS.values():
        parser.add_argument(f"--{key.name}", type=key.kind)
    return parser


def _members(kind: Any) -> tuple[Any, ...]:
    """The types that a union is made of."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _within(number: float, limits: Mapping[str, float]) -> bool:
    tests = {"above": operator.gt, "least": operator.ge, "below": operator.lt, "most": operator.le}
    return math.isfinite(number) and all(
        tests[name](number, limit) for name, limit in limits.items()
    )


def _words(kind: Any, limits: Mapping[str, float], text: str) -> list[str]:
    """The alternatives of a type: `int | Literal["auto"]` -> ["a whole number", "'auto'"]."""
    if len(_members(kind)) > 1:
        return [word for member in _members(kind) for word in _words(member, limits, text)]
    if get_origin(kind) is Literal:
        return [repr(choice) for choice in get_args(kind)]
    names = {"above": "above", "least": "of at least", "below": "below", "most": "of at most"}
    bounds = " and ".join(f"{names[name]} {limit}" for name, limit in limits.items())
    words = {bool: "true or false", str: text, NoneType: "null"}
    words |= {float: f"a number {bounds}", int: f"a whole number {bounds}"}
    words |= {tuple[float, float]: "[number, number]" + (f", each {bounds}" if bounds else "")}
    words |= {tuple[str, ...]: "[word, word]"}
    return [words[kind].rstrip()]
