"""What belongs to the places of a grid: coordinates, sinusoids, learned tables on another grid.

Dimension key:  T tokens   A axes   D model width   P prefix rows   N places in a window
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from zoo.errors import ShapeError
from zoo.ops.cache import cached
from zoo.ops.position import sincos
from zoo.tokens import Tokens


@cached
def grid_positions(grid: tuple[int, ...], device: torch.device) -> Tensor:
    """-> (T, A) int64: the coordinates of a grid's tokens, the last axis running fastest."""
    axes = torch.meshgrid(*(torch.arange(n, device=device) for n in grid), indexing="ij")
    return torch.stack(axes, -1).flatten(0, -2)


@cached
def grid_places(
    grid: tuple[int, ...],
    prefix: int,
    device: torch.device,
    extent: float | None = None,
    centred: bool = False,
) -> Tensor:
    """-> (1, P + T, A) int64: `grid_positions` behind P prefix tokens, which stand at 0.

    With an extent fp32, each axis stretched to it; `centred`: the middles of the places, seen from
    that of the axis.
    """
    places = grid_positions(grid, device)
    if extent is not None:
        sides = torch.tensor(grid, device=device)
        places = extent * ((places + 0.5) / sides - 0.5 if centred else places / sides)
    return F.pad(places, (0, 0, prefix, 0))[None]


def as_map(tokens: Tokens) -> Tensor:
    """Tokens of (B, P + T, D) -> (B, D, h, w), of a video (B, D, t, h, w): the grid's tokens where
    they stand. ShapeError for tokens without a grid, such as those of a text."""
    if tokens.grid is None or tokens.size is None:
        raise ShapeError("maps takes tokens of a whole grid; got a sequence, or dropped tokens")
    grid = tokens.grid[-len(tokens.size) :]
    return rearrange(tokens.x[:, tokens.prefix :], "b t d -> b d t").unflatten(2, grid)


@cached
def sincos_grid(
    grid: tuple[int, ...], dim: int, base: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """-> (T, D): `sincos` at every point of a grid."""
    return sincos(grid_positions(grid, torch.device("cpu")), dim, base).to(device, dtype)


RESIZES: dict[str, dict[str, bool]] = {
    "antialias": {"antialias": True},  # timm, DINOv2 with registers
    "plain": {},  # transformers
    "corners": {"align_corners": True},  # torchvision
    "offset": {},  # DINOv2: a tenth of a place is added, against rounding
}


def resize_table(
    table: Tensor, source: tuple[int, ...], target: tuple[int, ...], how: str = "antialias"
) -> Tensor:
    """(P + T, D) on a grid -> (P + T', D) on another; the P prefix rows stay as they are.

    Grids are compared, not token counts, and the native grid comes back untouched. Two axes:
    bicubic, in one of `RESIZES`, as those did who trained with the table; three: trilinear.
    Computed in fp32.
    """
    if source == target:
        return table
    prefix, rows = table.split((len(table) - math.prod(source), math.prod(source)))
    picture = rows.float().T.unflatten(1, source)[None]  # (1, D, *source)
    given: dict[str, Any] = {"size": target}
    if how == "offset":
        given = {"scale_factor": [(t + 0.1) / s for s, t in zip(source, target, strict=True)]}
    flat = len(source) == 2
    mode = "bicubic" if flat else "trilinear"
    picture = F.interpolate(picture, mode=mode, **given, **(RESIZES[how] if flat else {}))
    return torch.cat((prefix, picture[0].flatten(1).T.to(table.dtype)))


@cached
def log_offsets(window: tuple[int, ...], trained: tuple[int, ...], device: torch.device) -> Tensor:
    """-> (R, A) fp32: each offset within a window, log-spaced; 1 is the furthest of the window that
    it was trained with (Swin v2: Liu et al. 2021, arXiv:2111.09883)."""
    middle = torch.tensor([w - 1 for w in window], device=device)
    scale = torch.tensor([max(w - 1, 1) for w in trained], device=device)
    offset = grid_positions(tuple([2 * w - 1 for w in window]), device) - middle
    spaced = 8.0 * offset / scale
    return spaced.sign() * (spaced.abs() + 1).log2() / math.log2(8)


@cached
def relative_index(window: tuple[int, ...], device: torch.device) -> Tensor:
    """-> (N, N) int64: the row, of prod(2 w - 1), for each pair of a window's N = prod(window)
    places."""
    places = grid_positions(window, torch.device("cpu"))
    offset = places[:, None] - places[None] + torch.tensor(window) - 1  # (N, N, A), none below 0
    sides = [2 * w - 1 for w in window]  # lists: a compiler follows no generator into math.prod
    strides = [math.prod(sides[i + 1 :]) for i in range(len(sides))]
    return (offset * torch.tensor(strides)).sum(-1).to(device)
