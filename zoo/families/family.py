"""What a family is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zoo.convert import Rule


@dataclass(frozen=True)
class Family:
    """A set of models that share their make: everything the registry needs to build, name and
    convert one."""

    name: str
    parse: Callable[[str], dict[str, Any] | None]
    """A model's name -> the columns it stands for (dim, depth, patch, size ...), or None if it is
    not of this family."""
    build: Callable[..., tuple[Any, Any, Any]]
    """Columns -> the configs of adapter, backbone and head (or None)."""
    names: tuple[str, ...]
    """The names that are listed; `parse` takes more."""
    rules: Mapping[str, tuple[Rule, ...]]
    """Conversion rules by layout."""
    preprocess: Mapping[str, Any] | None = None
    """Facts of a picture's preprocessing: mean, std, interpolation, crop."""


def of_sizes(sizes: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any] | None:
    """`parse` for a family whose names are the rows of its table."""
    return dict(sizes[name]) if name in sizes else None
