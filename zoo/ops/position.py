"""Positions as functions: sinusoids, learned tables on another grid, rotations, relative indices.

Dimension key:  T tokens   S keys   A axes   K head width   D model width   P prefix rows   h, w
grid
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.ops.cache import cached


@cached
def grid_positions(grid: tuple[int, ...], device: torch.device) -> Tensor:
    """-> (T, A) int64: the coordinates of a grid's tokens, the last axis running fastest."""
    axes = torch.meshgrid(*(torch.arange(n) for n in grid), indexing="ij")
    return torch.stack(axes, -1).flatten(0, -2).to(device)


@cached
def grid_places(grid: tuple[int, ...], prefix: int, device: torch.device) -> Tensor:
    """-> (1, P + T, A) int64: `grid_positions` behind P prefix tokens, which stand at 0."""
    return F.pad(grid_positions(grid, device), (0, 0, prefix, 0))[None]


def sincos(positions: Tensor, dim: int, base: float = 10000.0) -> Tensor:
    """(..., A) -> (..., D) fp32: of D's A equal parts, each turns with one axis: sines, then
    cosines.

    Channels that 2 A does not fill stay zero. (One axis: Vaswani et al. 2017; two: MoCo v3, Chen et
    al. 2021)
    """
    half = dim // (2 * positions.shape[-1])
    rate = base ** (-torch.arange(half, dtype=torch.float64, device=positions.device) / half)
    angles = positions[..., None].double() * rate  # (..., A, half)
    waves = torch.cat((angles.sin(), angles.cos()), -1).flatten(-2).float()
    return F.pad(waves, (0, dim - waves.shape[-1]))


@cached
def sincos_grid(
    grid: tuple[int, ...], dim: int, base: float, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """-> (T, D): `sincos` at every point of a grid."""
    return sincos(grid_positions(grid, torch.device("cpu")), dim, base).to(device, dtype)


def add_positions(x: Tensor, table: Tensor, kind: str) -> Tensor:
    """(B, T, D), (..., T, D) -> (B, T, D): their sum.

    With kind "sincos_scaled", each row is first brought to the norm of the token that it is added
    to, so that neither drowns the other whatever the embeddings' scale.
    """
    table = table.to(x.dtype)
    if kind == "sincos_scaled":
        table = F.normalize(table, dim=-1) * x.detach().norm(dim=-1, keepdim=True)
    return x + table


def resize_table(table: Tensor, source: tuple[int, ...], target: tuple[int, ...]) -> Tensor:
    """(P + T, D) on a grid -> (P + T', D) on another; the P prefix rows stay as they are.

    Grids are compared, not token counts, and the native grid comes back untouched. Two axes:
    bicubic, antialiased, as timm does; three: trilinear. Computed in fp32.
    """
    if source == target:
        return table
    prefix, rows = table.split((len(table) - math.prod(source), math.prod(source)))
    picture = rows.float().T.unflatten(1, source)[None]  # (1, D, *source)
    if len(source) == 2:
        picture = F.interpolate(picture, size=target, mode="bicubic", antialias=True)
    else:
        picture = F.interpolate(picture, size=target, mode="trilinear")
    return torch.cat((prefix, picture[0].flatten(1).T.to(table.dtype)))


def rope_table(positions: Tensor, widths: tuple[int, ...], base: float = 10000.0) -> Tensor:
    """(..., A) -> (..., 2, sum(widths) / 2) fp32: cosines and sines; axis i turns widths[i]
    channels.

    (Su et al. 2021, arXiv:2104.09864)
    """
    angles = []
    for i, width in enumerate(widths):
        steps = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
        angles.append(positions[..., i, None].double() * base ** (-steps / width))
    angle = torch.cat(angles, -1)
    return torch.stack((angle.cos(), angle.sin()), -2).float()


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """(B, H, T, K), (..., T, 2, R) -> (B, H, T, K): turn each pair (x[i], x[i + R]) of the first 2R
    channels.

    Computed in fp32. Channels behind the first 2R stay as they are.
    """
    cos, sin = table.unbind(-2)
    turned = 2 * cos.shape[-1]
    a, b = x[..., :turned].float().chunk(2, -1)
    out = torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)
    return out if turned == x.shape[-1] else torch.cat((out, x[..., turned:]), -1)


@cached
def relative_index(window: tuple[int, ...], device: torch.device) -> Tensor:
    """-> (N, N) int64: the row, of prod(2 w - 1), for each pair of a window's N = prod(window)
    places."""
    places = grid_positions(window, torch.device("cpu"))
    offset = places[:, None] - places[None] + torch.tensor(window) - 1  # (N, N, A), none below 0
    sides = [2 * w - 1 for w in window]  # lists: a compiler follows no generator into math.prod
    strides = [math.prod(sides[i + 1 :]) for i in range(len(sides))]
    return (offset * torch.tensor(strides)).sum(-1).to(device)


def alibi_slopes(heads: int) -> list[float]:
    """-> H slopes, 2^(-8/H), 2^(-16/H) ...; between powers of two, filled from the next one's odd
    steps.

    (Press et al. 2021, arXiv:2108.12409)
    """

    def steep(n: int) -> list[float]:
        return [2 ** (-8 * (i + 1) / n) for i in range(n)]

    power = 2 ** math.floor(math.log2(heads))
    return steep(power) + steep(2 * power)[::2][: heads - power]


def bucket(distance: Tensor, buckets: int, furthest: int, both: bool) -> Tensor:
    """(T, S) int64, key - query -> (T, S) int64 in [0, buckets): near distances one by one, far
    ones by ratio.

    `both`: half of the buckets for keys ahead; else keys ahead count as distance 0.
    (T5: Raffel et al. 2019, arXiv:1910.10683)
    """
    if both:
        buckets //= 2
        first = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        first = torch.zeros_like(distance)
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    ratio = (distance.clamp(min=1).float() / exact).log() / math.log(furthest / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return first + torch.where(distance < exact, distance, far)
