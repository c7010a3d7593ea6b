"""Positions as functions: sinusoids, rotations, slopes, buckets of distances.

Dimension key:  T tokens   S keys   A axes   K head width   D model width
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


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


def add_positions(x: Tensor, table: Tensor, kind: str) -> Tensor:
    """(B, T, D), (..., T, D) -> (B, T, D): their sum.

    With kind "sincos_scaled", each row is first brought to the norm of the token that it is added
    to, so that neither drowns the other whatever the embeddings' scale.
    """
    table = table.to(x.dtype)
    if kind == "sincos_scaled":
        table = F.normalize(table, dim=-1) * x.detach().norm(dim=-1, keepdim=True)
    return x + table


def rope_table(
    positions: Tensor, widths: tuple[int, ...], base: float | tuple[float, ...] = 10000.0
) -> Tensor:
    """(..., A) -> (..., 2, sum(widths) / 2) fp32: cosines and sines; axis i turns widths[i]
    channels.

    `base` is one for all axes, or one each. (Su et al. 2021, arXiv:2104.09864)
    """
    bases, angles = base if isinstance(base, tuple) else (base,) * len(widths), []
    for place, width, one in zip(positions.unbind(-1), widths, bases, strict=True):
        steps = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
        angles.append(place[..., None].double() * one ** (-steps / width))
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
    buckets = buckets // 2 if both else buckets
    first = buckets * (distance > 0) if both else 0
    distance = distance.abs() if both else (-distance).clamp(min=0)
    exact = buckets // 2
    ratio = (distance.clamp(min=1).float() / exact).log() / math.log(furthest / exact)
    far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return first + torch.where(distance < exact, distance, far)
