"""From the maps of stages to levels of one width: what dense heads and detectors read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from zoo.nn.part import Part
from zoo.shapes import check


class MapNorm(nn.LayerNorm):
    """(B, C, H, W) -> the same: the layer norm of each place's channels."""

    def forward(self, input: Tensor) -> Tensor:  # nn.LayerNorm's name
        """(B, C, H, W) -> (B, C, H, W)."""
        return super().forward(input.movedim(1, -1)).movedim(-1, 1)


@dataclass(frozen=True)
class PyramidConfig:
    """Four scales of one map."""

    dim: int
    """Channels of the map."""
    out: int = 256
    """Channels of each scale."""
    eps: float = 1e-6
    """Added to the variance in norms."""


class Pyramid(Part[PyramidConfig]):
    """[(B, D, h, w)] -> four maps of (B, out, ...): 4, 2, 1 and 1/2 times its sides, an odd half
    rounded up.

    The simple feature pyramid of ViTDet, each scale from the last map alone. (Li et al. 2022,
    arXiv:2203.16527)
    """

    Config = PyramidConfig

    def __init__(self, config: PyramidConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)

        def double(a: int) -> nn.ConvTranspose2d:
            return nn.ConvTranspose2d(a, a // 2, 2, 2)

        def smooth(width: int) -> nn.Sequential:
            mix = nn.Conv2d(width, c.out, 1, bias=False), MapNorm(c.out, c.eps)
            spread = nn.Conv2d(c.out, c.out, 3, padding=1, bias=False), MapNorm(c.out, c.eps)
            return nn.Sequential(*mix, *spread)

        half, quarter = c.dim // 2, c.dim // 4
        four = (double(c.dim), MapNorm(half, c.eps), nn.GELU(), double(half), *smooth(quarter))
        two, one, less = (double(c.dim), *smooth(half)), smooth(c.dim), smooth(c.dim)
        self.scales = nn.ModuleList([nn.Sequential(*four), nn.Sequential(*two), one, less])

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """[(B, D, h, w)] -> [(B, out, 4 h, 4 w), 2 h, h, h / 2], of the last map."""
        x = maps[-1]
        check("Pyramid", x, "batch channels height width", channels=self.config.dim)
        half = F.max_pool2d(x, 2, ceil_mode=True)
        return [make(y) for make, y in zip(self.scales, (x, x, x, half), strict=True)]


class Levels(nn.Module):
    """[(B, D_s, h, w)] of each stage -> [(B, channels, h, w)], finest first.

    Several stages go through a feature pyramid (Lin et al. 2016, arXiv:1612.03144), each map normed
    before; the last has passed the backbone's norm. One stage goes through `Pyramid`.
    """

    def __init__(self, widths: Sequence[int], channels: int, eps: float = 1e-6):
        from torchvision.ops import FeaturePyramidNetwork  # what is heavy is imported where used

        super().__init__()
        self.scales: Any = None
        if len(widths) == 1:
            self.scales = Pyramid(dim=widths[0], out=channels, eps=eps)
        else:
            norms = [*(MapNorm(width, eps) for width in widths[:-1]), nn.Identity()]
            self.norms = nn.ModuleList(norms)
            self.pyramid = FeaturePyramidNetwork(list(widths), channels)

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """[(B, D_s, h, w)] -> [(B, channels, h, w)], of one map four times, twice ... its sides."""
        if self.scales is not None:
            return self.scales(maps)
        normed = {str(i): norm(x) for i, (norm, x) in enumerate(zip(self.norms, maps, strict=True))}
        return list(self.pyramid(normed).values())
