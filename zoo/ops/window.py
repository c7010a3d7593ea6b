"""Grids cut into groups of tokens, as index tables: one gather in, one gather out.

Dimension key:  n groups   N places in a group   t, h, w grid   wt, wh, ww window
"""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor

from zoo.ops.cache import cached

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Layout:
    """Which token stands where once the tokens of a grid are grouped."""

    index: Tensor
    """(n*N,) int64: the token at each place, group after group; any token where `real` is False."""
    inverse: Tensor
    """(T,) int64: the place of each token."""
    groups: int
    """n."""
    real: Tensor | None
    """(n*N,) bool: False where a place is padding; None = all are tokens."""
    allowed: Tensor | None
    """(n, 1, N, N) bool: which places of a group may attend to which; None = all."""
    coordinates: Tensor
    """(N, A) int64: where the places of a group lie within it."""


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
    padded = tuple(math.ceil(g / w) * w for g, w in zip(grid, window, strict=True))
    places = []  # per axis: which row of the grid stands at each place, and in which part of it
    for size, full, w, s in zip(grid, padded, window, shift, strict=True):
        place = torch.arange(full)
        if pad == "attend_after":  # roll the rows there are, then pad
            row = torch.where(place < size, (place + s) % size, size)
        else:
            row = (place + s) % full
        part = torch.zeros_like(place)
        if s:
            part = (place >= full - w).long() + (place >= full - s).long()
        places.append((row, part))
    rows = torch.stack(torch.meshgrid(*(row for row, _ in places), indexing="ij"), -1)
    parts = torch.stack(torch.meshgrid(*(part for _, part in places), indexing="ij"), -1)

    def to_windows(x: Tensor) -> Tensor:
        wt, wh, ww = window
        cut = "(t wt) (h wh) (w ww) a -> (t h w) (wt wh ww) a"
        return rearrange(x, cut, wt=wt, wh=wh, ww=ww)

    rows, parts = to_windows(rows), to_windows(parts)  # (n, N, 3)
    limits = torch.tensor(grid)
    real = (rows < limits).all(-1)
    strides = torch.tensor((grid[1] * grid[2], grid[2], 1))
    index = torch.where(real, (rows * strides).sum(-1), 0)
    region = (parts * torch.tensor((9, 3, 1))).sum(-1)
    allowed = region[:, None, :, None] == region[:, None, None, :] if any(shift) else None
    if pad == "mask" and not real.all():
        mine = real[:, None, None, :].expand(-1, 1, real.shape[1], -1)
        allowed = mine if allowed is None else allowed & mine
    inverse = torch.empty(math.prod(grid), dtype=torch.long)
    inverse[index[real]] = torch.arange(real.numel()).view_as(real)[real]
    coordinates = torch.stack(torch.meshgrid(*map(torch.arange, window), indexing="ij"), -1)
    return Layout(
        index.flatten().to(device),
        inverse.to(device),
        len(index),
        None if real.all() else real.flatten().to(device),
        None if allowed is None or allowed.all() else allowed.to(device),
        coordinates.flatten(0, 2).to(device),
    )


@cached
def axis_layout(grid: Triple, axis: int, device: torch.device) -> Layout:
    """The tokens of a grid in lines along one axis: 0 = time, 1 = rows, 2 = columns."""
    tokens = torch.arange(math.prod(grid)).view(grid)
    lines = tokens.movedim(axis, -1).reshape(-1, grid[axis])
    inverse = torch.empty(tokens.numel(), dtype=torch.long)
    inverse[lines.flatten()] = torch.arange(tokens.numel())
    return Layout(
        lines.flatten().to(device),
        inverse.to(device),
        len(lines),
        None,
        None,
        torch.arange(grid[axis])[:, None].to(device),
    )


def split(x: Tensor, layout: Layout) -> Tensor:
    """(B, T, D) -> (B*n, N, D): tokens into groups, zeros where a place is padding."""
    batch, tokens, _ = x.shape
    rows = torch.arange(batch, device=x.device)[:, None] * tokens + layout.index
    x = x.reshape(batch * tokens, -1).index_select(0, rows.flatten())
    if layout.real is not None:
        x = torch.where(layout.real[None, :, None], x.view(batch, -1, x.shape[-1]), 0)
    return x.reshape(batch * layout.groups, -1, x.shape[-1])


def join(x: Tensor, layout: Layout) -> Tensor:
    """(B*n, N, D) -> (B, T, D): the inverse of `split`; what stood on padding is dropped."""
    places = layout.index.numel()
    batch = x.shape[0] * x.shape[1] // places
    rows = torch.arange(batch, device=x.device)[:, None] * places + layout.inverse
    return (
        x.reshape(batch * places, -1).index_select(0, rows.flatten()).view(batch, -1, x.shape[-1])
    )
