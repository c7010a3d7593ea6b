"""Positions as functions: sinusoids on a grid, and learned tables brought to another grid."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from zoo.ops.cache import cached


@cached
def sincos(
    grid: tuple[int, int], dim: int, base: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """-> (h*w, D). Half of the channels turn with the row, half with the column: sines, then
    cosines of each.

    `dim` is a multiple of 4. (Vaswani et al. 2017 in one axis; two axes as in MoCo v3, Chen et al.
    2021)
    """
    quarter = dim // 4
    rate = base ** (-torch.arange(quarter, dtype=torch.float64) / quarter)
    rows, columns = torch.meshgrid(
        *(torch.arange(n, dtype=torch.float64) for n in grid), indexing="ij"
    )
    angles = (
        torch.stack((rows.flatten(), columns.flatten()), -1)[..., None] * rate
    )  # (h*w, 2, quarter)
    table = torch.cat((angles.sin(), angles.cos()), -1)
    return rearrange(table, "t a c -> t (a c)").to(device, dtype)


def resize_table(
    table: Tensor,
    source: tuple[int, int],
    target: tuple[int, int],
    mode: str = "bicubic",
    antialias: bool = True,
) -> Tensor:
    """(P + h*w, D) -> (P + h'*w', D). A learned table on another grid; its P prefix rows stay as
    they are.

    Grids are compared, not token counts, and the native grid comes back untouched. Computed in
    fp32.
    """
    if source == target:
        return table
    prefix, rows = table.split((len(table) - source[0] * source[1], source[0] * source[1]))
    picture = rearrange(rows.float(), "(h w) d -> 1 d h w", h=source[0])
    picture = F.interpolate(
        picture, size=target, mode=mode, antialias=antialias, align_corners=False
    )
    return torch.cat((prefix, rearrange(picture, "1 d h w -> (h w) d").to(table.dtype)))
