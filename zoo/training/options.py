"""A model's options as its parts take them, and whose they are in errors."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from zoo.errors import OptionError
from zoo.nn.config import Choice


def named(options: Mapping[str, Any]) -> dict[str, Any]:
    """{"position.base": 100, "position.kind": "rope"} -> {"position": "rope", "position.base":
    100}, as `create` takes them: a kind in front of its options.

    OptionError where the kind has none of that name.
    """
    kind = ".kind"
    names = {key.removesuffix(kind): v for key, v in options.items() if key.endswith(kind)}
    for name, value in names.items():
        above, bases = f"{name}.", {base.__name__.lower(): base for base in Choice.__subclasses__()}
        below = {k.removeprefix(above): v for k, v in options.items() if k.startswith(above)}
        base = bases.get(name.rpartition(".")[2])
        if base is not None and value in base.kinds:
            with naming(above):
                base.of(below)
    return names | {key: v for key, v in options.items() if not key.endswith(kind)}


@contextmanager
def naming(above: str = "", flags: str = "") -> Iterator[None]:
    """Inside, an OptionError has its key within the section `above`, as parts do not know where
    they stand; what it says to give gets the beginning of such flags."""
    try:
        yield
    except OptionError as error:
        told = re.sub(r": give (?!--)", f": give {flags}", str(error)) if flags else str(error)
        raise OptionError(told, f"{above}{error.key}") from error
