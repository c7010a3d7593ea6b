"""Grids cut into groups of tokens, as index tables: one gather in, one gather out.

Dimension key:  n groups   N places in a group   t, h, w grid   wt, wh, ww window
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from zoo.ops.cache import cached
from zoo.ops.grid import grid_positions

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Layout:
    """Which token stands where once the tokens of a grid are grouped."""

    index: Tensor
    """(n*N,) or (B, n*N) int64: the token at each place, group after group; any token where `real`
    is False."""
    inverse: Tensor
    """(T,) or (B, T) int64: the place of each token behind the prefix."""
    groups: int
    """n."""
    real: Tensor | None
    """(n*N,) bool: False where a place is padding; None = all are tokens."""
    allowed: Tensor | None
    """(n, 1, N, N) bool: which places of a group may attend to which; None = all."""
    coordinates: Tensor
    """(N, A) int64: where the places of a group lie within it."""
    prefix: int = 0
    """P special tokens stand in front."""
    shared: bool = False
    """Whether every group holds the prefix too, in front of its N places; else no group does."""


@cached
def window_layout(
    grid: Triple, window: Triple, shift: Triple, pad: str, device: torch.device
) -> Layout:
    """Windows over a grid (t, h, w), moved by `shift` tokens and wrapped around (Liu et al. 2021).

    A grid that the windows do not fill is padded at the end of each axis. pad="mask": padding is
    attended by none. "attend": padding before the shift, zeros that are attended like tokens, as in
    torchvision. "attend_after": the same, but padded behind the shift, as in timm. Tokens of parts
    of the grid that only meet in a window because the shift wraps around never attend to each
    other.
    """
    full = tuple([math.ceil(g / w) * w for g, w in zip(grid, window, strict=True)])
    place = grid_positions(full, device).view(*full, 3)
    cut, (wt, wh, ww) = "(t wt) (h wh) (w ww) a -> (t h w) (wt wh ww) a", window
    place = rearrange(place, cut, wt=wt, wh=wh, ww=ww)  # (n, N, 3)
    size, end, moved = torch.tensor((grid, full, shift), device=device)
    period = size if pad == "attend_after" else end  # whether padding stays or is moved as well
    row = (place + moved) % period
    real = ((row < size) & (place < period)).all(-1)
    strides = torch.tensor((grid[1] * grid[2], grid[2], 1), device=device)
    index = torch.where(real, (row * strides).sum(-1), 0)
    tokens = math.prod(grid)
    inverse = torch.where(real, index, tokens).flatten().argsort()[:tokens]  # padding comes last
    wrapped = ((place >= end - moved) * torch.tensor((4, 2, 1), device=device)).sum(-1)
    allowed = wrapped[:, None, :, None] == wrapped[:, None, None, :]
    if pad == "mask":
        allowed = allowed & real[:, None, None, :]
    filled = full == grid
    ruled = any(shift) or (pad == "mask" and not filled)
    facts = (None if filled else real.flatten(), allowed if ruled else None)
    return Layout(index.flatten(), inverse, len(index), *facts, grid_positions(window, device))


@cached
def axis_layout(
    grid: Triple, axis: int, device: torch.device, prefix: int = 0, shared: bool = False
) -> Layout:
    """The tokens of a grid in lines along one axis: 0 = time, 1 = rows, 2 = columns.

    `prefix` special tokens in front of the grid are in no line, or `shared` by all.
    """
    t, h, w = (n if i == axis else 1 for i, n in enumerate(grid))
    lines = window_layout(grid, (t, h, w), (0, 0, 0), "mask", device)
    index, inverse = lines.index.view(lines.groups, -1) + prefix, lines.inverse
    if shared:
        inverse = inverse + prefix * (inverse // grid[axis] + 1)
        front = torch.arange(prefix, device=device).expand(lines.groups, -1)
        index = torch.cat((front, index), 1)
    places = lines.coordinates[:, axis, None]
    return Layout(index.flatten(), inverse, lines.groups, None, None, places, prefix, shared)


def take(x: Tensor, index: Tensor) -> Tensor:
    """(B, M, ...), (I,) or (B, I) int64 -> (B, I, ...): places of each sample.

    One index_select over the flattened rows, which was measured the fastest of all gathers.
    """
    rows = torch.arange(x.shape[0], device=x.device)[:, None] * x.shape[1] + index
    return x.flatten(0, 1).index_select(0, rows.flatten()).unflatten(0, rows.shape)


def split(x: Tensor, layout: Layout) -> Tensor:
    """(B, P + T, D) -> (B*n, N, D): tokens into groups, zeros where a place is padding.

    (B*n, P + N, D) where each group holds the prefix.
    """
    x = take(x, layout.index)
    if layout.real is not None:
        x = torch.where(layout.real[:, None], x, x.new_zeros(()))  # keeps bool what is bool
    return x.unflatten(1, (layout.groups, -1)).flatten(0, 1)


def join(x: Tensor, layout: Layout) -> Tensor:
    """(B*n, N, D) -> (B, P + T, D): the inverse of `split`; what stood on padding is dropped.

    The prefix is the mean of what the groups made of it, or zeros where none held it.
    """
    groups = x.unflatten(0, (-1, layout.groups))  # (B, n, N, D)
    body = take(groups.flatten(1, 2), layout.inverse)
    if not layout.prefix:
        return body
    if not layout.shared:
        return F.pad(body, (0, 0, layout.prefix, 0))
    return torch.cat((groups[:, :, : layout.prefix].mean(1), body), 1)
