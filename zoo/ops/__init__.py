"""Pure functions on tensors: no parameters, no state."""

from zoo.ops.attend import attend
from zoo.ops.cache import cached
from zoo.ops.mask import Mask
from zoo.ops.position import resize_table, sincos
from zoo.ops.regular import drop_path

__all__ = ["Mask", "attend", "cached", "drop_path", "resize_table", "sincos"]
