"""A Part: a module that is built from one frozen config, and remembers it."""

import inspect
import typing
from typing import Any, ClassVar, Generic, TypeVar

from torch import nn

from zoo.nn.config import make_config

C = TypeVar("C")


class Part(nn.Module, Generic[C]):
    """Base of what a config names: `Patches(size=224, dim=384)` or `Patches(PatchesConfig(...))`.

    A subclass sets `Config`, a frozen dataclass of plain values, and opens its `__init__` with
    `c = self.configure(config, fields)`.
    """

    Config: ClassVar[type]
    of_config: ClassVar[dict[type, type["Part"]]] = {}
    config: C

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "Config" in cls.__dict__:
            Part.of_config[cls.Config] = cls
            signature = inspect.signature(cls.Config)
            cls.__signature__ = signature  # type: ignore[attr-defined]  # for help() and editors

    def configure(self, config: C | None, fields: dict[str, Any]) -> C:
        """The config given, or one made of `fields`; remembered as `self.config`."""
        super().__init__()
        values = fields if config is None else vars(config)
        self.config = typing.cast(C, make_config(self.Config, values, type(self).__name__))
        return self.config
