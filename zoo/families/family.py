"""What a family is."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo.convert import Rule

BLOCK = "backbone.stages.0.blocks.{i}"  # our key of block i, where there is one stage
Sides = int | tuple[int, int]
Configs = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Family:
    """A set of models that share their make: everything the registry needs to build, name and
    convert one."""

    name: str
    sizes: Mapping[str, Mapping[str, Any]]
    """A table: a row's name -> its columns (dim, depth, heads ...), arguments of `build`."""
    build: Callable[..., Configs]
    """Columns -> the configs of adapter, backbone and head (or None)."""
    rules: Mapping[str, tuple[Rule, ...]]
    """Conversion rules by layout."""
    preprocess: Mapping[str, Any] | None = None
    """Facts of a picture's preprocessing: mean, std, interpolation, crop."""
    pattern: str = r"(?P<row>\w+)"
    """How a model's name is read: a regular expression whose group `row` names a row of `sizes`,
    and whose other groups are columns that stand in the name as whole numbers."""
    listed: tuple[str, ...] = ()
    """The names that are listed, where `pattern` takes more than the rows."""
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Columns, or options of parts, that models of a layout have otherwise and its keys cannot
    tell, by layout."""
    api: int = 1
    """The version of this interface that a family from another package was written for."""

    @property
    def layouts(self) -> tuple[str, ...]:
        """The names of the layouts it has rules for."""
        return tuple(self.rules)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are listed."""
        return self.listed or tuple(self.sizes)

    def parse(self, name: str) -> dict[str, Any] | None:
        """A model's name -> the columns it stands for, or None if it is not of this family."""
        found = re.fullmatch(self.pattern, name)
        if found is None or found["row"] not in self.sizes:
            return None
        numbers = {key: int(n) for key, n in found.groupdict().items() if key != "row" and n}
        return {**self.sizes[found["row"]], **numbers}
