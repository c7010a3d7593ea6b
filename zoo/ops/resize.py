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
