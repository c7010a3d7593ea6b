"""Configs: frozen dataclasses of plain values, from and to JSON, with options found by name."""

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

from zoo.errors import OptionError, one_of, suggest

C = TypeVar("C")


class Choice:
    """Base of configs among which one is chosen by name, such as the kinds of position.

    A subclass is a frozen dataclass and gives its name: `class Rope(Position, kind="rope")`. Where
    a config has a field of the base class, users may write the name alone ("rope") for all
    defaults, the value (`Rope(base=500000)`), or a mapping with its kind (`{"kind": "rope", "base":
    500000}`).
    """

    kind: ClassVar[str] = ""
    kinds: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, kind: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Choice in cls.__bases__:
            cls.kinds = {}
        else:
            cls.kind = kind
            cls.kinds[kind] = cls

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """A name, a mapping with its kind, a value of this class, or None -> a value or None."""
        if value is None or isinstance(value, cls):
            return value
        fields = dict(value) if isinstance(value, Mapping) else {"kind": value}
        option = cls.__name__.lower()
        name = one_of("Backbone", option, fields.pop("kind", None), cls.kinds)
        return make_config(cls.kinds[name], {k: tuplify(v) for k, v in fields.items()}, name)


def make_config(kind: type[C], fields: Mapping[str, Any], owner: str) -> C:
    """`kind(**fields)`, where an unknown or a missing name is an OptionError with a suggestion."""
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for name in fields:
        if name not in known:
            hint = suggest(name, known) or f"; it takes {', '.join(known)}"
            raise OptionError(f"{owner} has no option {name!r}{hint}", name)
    for name, field in known.items():
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and name not in fields:
            got = ", ".join(fields) or "none"
            raise OptionError(f"{owner} needs the option {name!r}; got {got}", name)
    return kind(**fields)


def to_plain(value: Any) -> Any:
    """A config -> JSON-like values; `from_plain` is its inverse."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": value.kind, **fields} if isinstance(value, Choice) else fields
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def from_plain(hint: Any, value: Any, owner: str = "") -> Any:
    """JSON-like values -> a value of the hinted type: configs from mappings, tuples from lists."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    kinds = [k for k in typing.get_args(hint) if k is not types.NoneType] if union else [hint]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Choice):
            return kind.of(value)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
            hints = typing.get_type_hints(kind)
            fields = {k: from_plain(hints.get(k, Any), item, k) for k, item in value.items()}
            return make_config(kind, fields, owner or kind.__name__)
        if typing.get_origin(kind) is Mapping and isinstance(value, Mapping):
            key, inner = typing.get_args(kind)  # JSON has text keys alone
            return {(int if key is int else str)(k): from_plain(inner, v) for k, v in value.items()}
        if typing.get_origin(kind) is tuple and isinstance(value, (list, tuple)):
            inner = typing.get_args(kind)
            each = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
            if len(each) == len(value):  # else `check_config` says so
                pairs = zip(each, value, strict=True)
                return tuple(from_plain(k, item, owner) for k, item in pairs)
    return tuplify(value)


def tuplify(value: Any) -> Any:
    """Lists, as JSON and YAML give them -> tuples, as frozen configs hold them."""
    return tuple(tuplify(item) for item in value) if isinstance(value, list) else value


def paths(config: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of all options of a config and of the plain configs within it."""
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), f"{prefix}{field.name}"
        if not dataclasses.is_dataclass(value) or isinstance(value, Choice):
            yield name
        if dataclasses.is_dataclass(value):
            yield from paths(value, f"{name}.")


def match(name: str, every: list[str], owner: str, columns: Iterable[str] = ()) -> list[str]:
    """An option's plain or dotted name -> the whole paths that end in it; several only for `init`.

    OptionError, with the closest name, where there is none, or where several parts have one.
    """
    found = [path for path in every if path == name or path.endswith(f".{name}")]
    if len(found) > 1 and name != "init":
        dotted = ", ".join(found)
        raise OptionError(f"{owner} knows several options {name!r}: {dotted}; say which", name)
    if not found:
        plain = sorted({path.rpartition(".")[2] for path in every} | set(columns))
        hint = suggest(name, [*plain, *every]) or f"; there are {', '.join(plain)}"
        raise OptionError(f"{owner} has no option {name!r}{hint}", name)
    return found


def put(config: C, path: str, value: Any) -> C:
    """A copy of a config with the option at a dotted path set. OptionError where there is none.

    The value may be JSON-like, as in `from_plain`.
    """
    name, _, rest = path.partition(".")
    known = [field.name for field in dataclasses.fields(config)]  # type: ignore[arg-type]  # a dataclass
    if name not in known:
        hint = suggest(name, known) or f"; it takes {', '.join(known)}"
        raise OptionError(f"{type(config).__name__} has no option {name!r}{hint}", name)
    if rest:
        inner = put(getattr(config, name), rest, value)
    else:
        inner = from_plain(typing.get_type_hints(type(config))[name], value, name)
    return dataclasses.replace(config, **{name: inner})  # type: ignore[type-var]  # a dataclass


def check_config(config: Any, owner: str) -> None:
    """OptionError for a value of another type than its field's, or out of bounds; nested ones
    too."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        check_value(owner, field.name, hints[field.name], value, field.default)
        for part in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(part):
                check_config(part, type(part).__name__.removesuffix("Config"))


def check_value(owner: str, name: str, hint: Any, value: Any, default: Any = None) -> None:
    """OptionError unless `value` is of the hinted type and within the bounds that its kind has.

    Whole numbers start at 1, or at 0 where that is the default; a number whose default is 0 is a
    share, from 0 to below 1; other numbers are above 0.
    """
    numbers = value if isinstance(value, tuple) else (value,)
    numbers = [n for n in numbers if isinstance(n, (int, float)) and not isinstance(n, bool)]
    whole = all(isinstance(n, int) for n in numbers) and "float" not in str(hint)
    least = 0 if default == 0 or name in ("left", "right") else 1
    if whole:
        most = 10_000 if name == "depth" else 10_000_000  # what no machine could build anyway
        bound = f"from {least} to {most}" if any(n > most for n in numbers) else f"at least {least}"
        inside = all(least <= n <= most for n in numbers)
    elif default == 0.0:
        bound, inside = "from 0 to below 1", all(0 <= n < 1 for n in numbers)
    else:
        bound, inside = "above 0", all(0 < n < math.inf for n in numbers)
    if not fits(hint, value) or not inside:
        bounds = f" {bound}" if numbers and fits(hint, value) else ""
        raise OptionError(f"{owner} takes {name} as {words(hint)}{bounds}; got {value!r}", name)


WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def words(hint: Any) -> str:
    """A type, as a sentence names it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(words(kind) for kind in inner)
    if origin is tuple:
        many = "several" if inner[-1] is Ellipsis else str(len(inner))
        return f"a list of {many}, each {words(inner[0])}"
    name = "none" if hint is types.NoneType else getattr(hint, "__name__", str(hint))
    return WORDS.get(hint, name)


def fits(hint: Any, value: Any) -> bool:
    """Whether a value is of the hinted type; whole numbers pass for numbers, and booleans do
    not."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (types.UnionType, typing.Union):
        return any(fits(kind, value) for kind in inner)
    if origin is tuple:
        if not isinstance(value, tuple) or (inner[-1] is not Ellipsis and len(inner) != len(value)):
            return False
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return all(fits(kind, item) for kind, item in zip(kinds, value, strict=True))
    if hint in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if hint is float else origin or hint)
