"""A Part: a module that is built from one frozen config, and remembers it."""

import dataclasses
import inspect
import types
import typing
from typing import Any, ClassVar, Generic, TypeVar

from torch import nn

from zoo.errors import OptionError, suggest

C = TypeVar("C")


class Part(nn.Module, Generic[C]):
    """Base of everything that a config names: `Patches(size=224, dim=384)` or
    `Patches(PatchesConfig(...))`.

    A subclass sets `Config`, a frozen dataclass of plain values, and opens its `__init__` with `c =
    self.configure(...)`.
    """

    Config: ClassVar[type]
    of_config: ClassVar[dict[type, type["Part"]]] = {}
    config: C

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "Config" in cls.__dict__:
            Part.of_config[cls.Config] = cls
            cls.__signature__ = inspect.signature(cls.Config)  # type: ignore[attr-defined]  # for help() and editors

    def configure(self, config: C | None, fields: dict[str, Any]) -> C:
        """The config given, or one made of `fields`; remembered as `self.config`."""
        super().__init__()
        self.config = (
            config if config is not None else make_config(self.Config, fields, type(self).__name__)
        )
        return self.config


def make_config(kind: type[C], fields: dict[str, Any], owner: str) -> C:
    """`kind(**fields)`, where an unknown or a missing name is an OptionError with a suggestion."""
    known = {f.name: f for f in dataclasses.fields(kind) if f.init}  # type: ignore[arg-type]  # a dataclass
    for name in fields:
        if name not in known:
            hint = suggest(name, known) or f"; it takes {', '.join(known)}"
            raise OptionError(f"{owner} has no option {name!r}{hint}", name)
    for name, field in known.items():
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and name not in fields:
            raise OptionError(
                f"{owner} needs the option {name!r}; got {', '.join(fields) or 'none'}", name
            )
    return kind(**fields)


def from_plain(kind: Any, value: Any, owner: str = "") -> Any:
    """JSON-like values -> a value of type `kind`: dataclasses from mappings, tuples from lists, the
    rest as it is."""
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind)
        fields = {
            name: from_plain(hints.get(name, Any), item, name) for name, item in value.items()
        }
        return make_config(kind, fields, owner or kind.__name__)  # type: ignore[arg-type]  # a class
    options = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [k for k in options if typing.get_origin(k) is tuple or dataclasses.is_dataclass(k)]
        fits = isinstance(value, (list, tuple, dict)) and len(kinds) == 1
        return from_plain(kinds[0], value, owner) if fits else value
    if typing.get_origin(kind) is tuple and isinstance(value, (list, tuple)):
        inner = options[0] if options and options[-1] is Ellipsis else Any
        return tuple(from_plain(inner, item, owner) for item in value)
    return value
