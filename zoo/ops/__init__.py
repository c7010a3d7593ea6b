"""Pure functions on tensors: no parameters, no state."""

from zoo.ops.attend import PATHS, attend, attention_weights
from zoo.ops.cache import cached
from zoo.ops.experts import grouped_linear
from zoo.ops.grid import (
    RESIZES,
    as_map,
    grid_places,
    grid_positions,
    log_offsets,
    relative_index,
    resize_table,
    sincos_grid,
)
from zoo.ops.linear import linear
from zoo.ops.mask import Mask
from zoo.ops.pieces import in_pieces, saves_memory, too_many
from zoo.ops.position import add_positions, alibi_slopes, bucket, rope_table, rotate, sincos
from zoo.ops.regular import drop_path, drop_tokens, order_of, some
from zoo.ops.resize import resize_bias, resize_channels, resize_kernel, resize_offsets
from zoo.ops.window import Layout, axis_layout, join, split, take, window_layout
