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
    """Columns -> the configs of adapter, backbone and head."""
    names: tuple[str, ...]
    """The names that are listed; `parse` takes more."""
    rules: Mapping[str, tuple[Rule, ...]]
    """Conversion rules by layout."""
    preprocess: Mapping[str, Any]
    """Facts of its preprocessing: mean, std, interpolation, crop."""
    api: int = 1
