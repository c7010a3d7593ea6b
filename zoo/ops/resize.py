"""Weights that belong to one size, made to belong to another. All in fp32, given back in their own
dtype.

Dimension key:  D model width   C channels   H heads   h, w sides of a patch
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def resize_kernel(kernel: Tensor, size: tuple[int, int]) -> Tensor:
    """(D, C, h, w) -> (D, C, *size): the kernel whose answer to a resized patch is the nearest to
    that of `kernel` to the patch itself.

    The pseudo-inverse of the resizing, bicubic and antialiased. (FlexiViT: Beyer et al. 2022,
    arXiv:2212.08013)
    """
    source = kernel.shape[-2:]
    if source == size:
        return kernel
    basis = torch.eye(source.numel()).unflatten(1, (1, *source))  # one patch per pixel
    resized = F.interpolate(basis, size, mode="bicubic", antialias=True, align_corners=False)
    back = torch.linalg.pinv(resized.flatten(1))  # (new pixels, pixels)
    return (kernel.float().flatten(2) @ back.T).unflatten(2, size).to(kernel.dtype)


def resize_channels(kernel: Tensor, channels: int) -> Tensor:
    """(D, C, ...) -> (D, channels, ...): summed for one channel, else repeated in turn and scaled
    by C / channels.

    So a picture whose channels are equal is answered as before, where one number divides the other.
    """
    own = kernel.shape[1]
    if own == channels:
        return kernel
    if channels == 1:
        return kernel.float().sum(1, keepdim=True).to(kernel.dtype)
    turns = torch.arange(channels) % own
    return (kernel.float()[:, turns] * (own / channels)).to(kernel.dtype)


def resize_bias(table: Tensor, source: tuple[int, ...], target: tuple[int, ...]) -> Tensor:
    """(prod(2 w - 1), H) of a window -> the same of another, bicubic for each head (trilinear where
    windows have three sides)."""
    if source == target:
        return table
    before, after = ([2 * w - 1 for w in window] for window in (source, target))
    picture = table.float().T.unflatten(1, before)[None]
    mode = "bicubic" if len(before) == 2 else "trilinear"
    resized = F.interpolate(picture, size=after, mode=mode, align_corners=False)
    return resized[0].flatten(1).T.to(table.dtype).contiguous()


def resize_offsets(table: Tensor, source: tuple[int, int], target: tuple[int, int]) -> Tensor:
    """(prod(2 n - 1) + 3, H) of a grid -> the same of another; the last three rows, of the first
    token, stay as they are.

    Along an axis the rows stand for offsets that grow geometrically up to the target's furthest, so
    that near ones keep their meaning; between them it is linear. (BEiT: Bao et al. 2021,
    arXiv:2106.08254, by scipy's cubic there)
    """
    if source == target:
        return table
    before = [2 * n - 1 for n in source]
    rows, last = table.float()[:-3].T.unflatten(1, before), table[-3:]  # (H, *before)
    down, across = (spread(s, t) for s, t in zip(source, target, strict=True))
    resized = down @ rows @ across.T
    return torch.cat((resized.flatten(1).T.to(table.dtype), last))


def spread(source: int, target: int) -> Tensor:
    """-> (2 target - 1, 2 source - 1) fp32: shares of the rows of offsets in those of another
    side."""
    if source == target or source == 1:
        return torch.eye(2 * source - 1).expand(2 * target - 1, -1)
    low, high = 1.01, 1.5  # of the ratio between one step and the next, as BEiT's authors search it
    ratio = low
    while high - low > 1e-6:
        ratio = (low + high) / 2
        total = (1 - ratio ** (source - 1)) / (1 - ratio)
        low, high = (low, ratio) if total > target - 1 else (ratio, high)
    steps = ratio ** torch.arange(source - 1, dtype=torch.float64)
    places = F.pad(steps.cumsum(0), (1, 0))
    places = torch.cat((-places[1:].flip(0), places))
    wanted = torch.arange(1 - target, target, dtype=torch.float64)
    right = torch.searchsorted(places, wanted).clamp(1, len(places) - 1)
    share = (wanted - places[right - 1]) / (places[right] - places[right - 1])
    share = share.clamp(0, 1)[:, None]
    one = torch.eye(len(places), dtype=torch.float64)
    return ((1 - share) * one[right - 1] + share * one[right]).float()
