"""Configs: frozen dataclasses of plain values, from and to JSON, with options found by name."""

import contextlib
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

from zoo.errors import OptionError, cut, one_of, require, suggest

C = TypeVar("C")
hints_of = functools.cache(typing.get_type_hints)


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
    def of(cls, value: Any) -> Self:
        """A name, a mapping with its kind, or a value of this class -> a value of this class."""
        if isinstance(value, cls):
            return make_config(type(value), vars(value), type(value).__name__)
        fields = dict(value) if isinstance(value, Mapping) else {"kind": value}
        name = one_of("Backbone", cls.__name__.lower(), fields.pop("kind", None), cls.kinds)
        return make_config(cls.kinds[name], fields, name)


def make_config(kind: type[C], fields: Mapping[str, Any], owner: str) -> C:
    """`kind(**fields)`, each field read by `read_option`; `owner` is named in errors.

    An unknown or a missing name is an OptionError, with a suggestion.
    """
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for name in fields:
        if name not in known:
            hint = suggest(name, known) or f"; it takes {', '.join(known)}"
            raise OptionError(f"{owner} has no option {name!r}{hint}", name)
    got = ", ".join(fields) or "none"
    for name, field in known.items():
        given = name in fields or field.default is not field.default_factory  # both are MISSING
        require(given, f"{owner} needs the option {name!r}; got {got}", name)
    read = {
        name: read_option(owner, name, hints_of(kind)[name], value, known[name].default)
        for name, value in fields.items()
    }
    return kind(**read)


def read_option(owner: str, name: str, hint: Any, value: Any, default: Any = None) -> Any:
    """A JSON-like value -> one of the hinted type, within the bounds that its kind has.

    Whole numbers start at 1, or at 0 where that is the default; a number whose default is 0 is a
    share, from 0 to below 1; other numbers are above 0. OptionError for anything else.
    """
    wants = f"{owner} takes {name} as {words(hint)}"
    try:
        made = read(hint, value)
    except TypeError:
        raise OptionError(f"{wants}; got {cut(repr(value))}", name) from None
    numbers = made if isinstance(made, tuple) else (made,)
    numbers = [n for n in numbers if isinstance(n, (int, float)) and not isinstance(n, bool)]
    least = 0 if default == 0 or name in ("left", "right", "registers") else 1
    most = 10_000 if name == "depth" else 10_000_000  # what no machine could build anyway
    if all(isinstance(n, int) for n in numbers) and "float" not in str(hint):
        bound = f"from {least} to {most}" if any(n > most for n in numbers) else f"at least {least}"
        inside = all(least <= n <= most for n in numbers)
    elif default == 0.0:
        bound, inside = "from 0 to below 1", all(0 <= n < 1 for n in numbers)
    else:
        bound, inside = "above 0", all(0 < n < math.inf for n in numbers)
    require(inside, f"{wants} {bound}; got {cut(repr(value))}", name)
    return made


def read(hint: Any, value: Any) -> Any:
    """A JSON-like value -> one of the hinted type: tuples from lists, configs from mappings, None
    from "none", as `words` calls it.

    TypeError where it does not fit; whole numbers pass for numbers, and booleans do not.
    OptionError for what is wrong within a config.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        value = None if value == "none" and str not in inner else value
        for kind in inner:
            with contextlib.suppress(TypeError):
                return read(kind, value)
    elif origin is tuple and isinstance(value, (tuple, list)):
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        if len(kinds) == len(value):
            return tuple(read(kind, item) for kind, item in zip(kinds, value, strict=True))
    elif origin is Mapping and isinstance(value, Mapping):
        key, item = inner  # JSON has text keys alone
        return {(int if key is int else str)(k): read(item, v) for k, v in value.items()}
    elif hint is Any:
        return value
    elif origin is None and issubclass(hint, Choice) and value is not None:
        return hint.of(value)
    elif dataclasses.is_dataclass(hint) and isinstance(value, (hint, Mapping)):  # type: ignore[arg-type]  # a class
        fields = value if isinstance(value, Mapping) else vars(value)
        return make_config(hint, fields, hint.__name__.removesuffix("Config"))  # type: ignore[arg-type]  # a class
    elif origin is None and isinstance(value, (int, float) if hint is float else hint):
        if not isinstance(value, bool) or hint is bool:
            return value
    raise TypeError


WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def words(hint: Any) -> str:
    """A type, as a sentence names it."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(words(kind) for kind in inner)
    if origin is tuple:
        many = "several" if inner[-1] is Ellipsis else str(len(inner))
        return f"a list of {many}, each {words(inner[0])}"
    return WORDS.get(hint, getattr(hint, "__name__", str(hint)).replace("NoneType", "none"))


def to_plain(value: Any) -> Any:
    """A config -> JSON-like values; `read` is its inverse."""
    if dataclasses.is_dataclass(value):
        kind = {"kind": value.kind} if isinstance(value, Choice) else {}
        return kind | {name: to_plain(item) for name, item in vars(value).items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def paths(config: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of all options of a config and of the plain configs within it."""
    for name, value in vars(config).items():
        if not dataclasses.is_dataclass(value) or isinstance(value, Choice):
            yield f"{prefix}{name}"
        if dataclasses.is_dataclass(value):
            yield from paths(value, f"{prefix}{name}.")


def match(name: str, every: list[str], owner: str, columns: Iterable[str] = ()) -> list[str]:
    """An option's plain or dotted name -> the whole paths that end in it; several only for `init`.

    OptionError, with the closest name, where there is none, or where several parts have one.
    """
    found = [path for path in every if path == name or path.endswith(f".{name}")]
    if not found:
        plain = sorted({path.rpartition(".")[2] for path in every} | set(columns))
        hint = suggest(name, [*plain, *every]) or f"; there are {', '.join(plain)}"
        raise OptionError(f"{owner} has no option {name!r}{hint}", name)
    dotted = f"{owner} knows several options {name!r}: {', '.join(found)}; say which"
    require(len(found) == 1 or name == "init", dotted, name)
    return found


def put(config: C, path: str, value: Any) -> C:
    """A copy of a config with the option at a dotted path set to a value, JSON-like or of its type.

    OptionError where there is none, or for a value that does not fit.
    """
    name, _, rest = path.partition(".")
    inner = getattr(config, name, None)
    if rest and dataclasses.is_dataclass(inner):
        value = put(inner, rest, value)
    owner = type(config).__name__.removesuffix("Config")
    return make_config(type(config), {**vars(config), name: value}, owner)
