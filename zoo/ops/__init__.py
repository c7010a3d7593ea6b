"""Pure functions on tensors: no parameters, no state."""

from zoo.ops.attend import PATHS, attend, attention_weights
from zoo.ops.cache import cached
from zoo.ops.experts import grouped_linear
from zoo.ops.linear import linear
from zoo.ops.mask import Mask
from zoo.ops.position import (
    add_positions,
    alibi_slopes,
    bucket,
    grid_places,
    grid_positions,
    relative_index,
    resize_table,
    rope_table,
    rotate,
    sincos,
    sincos_grid,
)
from zoo.ops.regular import drop_path
from zoo.ops.window import Layout, axis_layout, join, split, window_layout
