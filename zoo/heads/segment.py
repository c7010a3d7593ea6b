"""What each pixel is: a class per pixel, from the maps of all stages."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import ShapeError, one_of, require
from zoo.heads.classify import Batch, Losses
from zoo.inputs.scene import IGNORED
from zoo.nn import Levels, MapNorm, Part
from zoo.ops import as_map
from zoo.shapes import check
from zoo.tokens import Tokens


@dataclass(frozen=True)
class SegmentConfig:
    """A feature pyramid over the stages' maps, and a class per pixel."""

    dim: int
    """Width D of the last stage."""
    classes: int
    """How many classes a pixel may have."""
    target: str = "mask"
    """mask: one class for each pixel."""
    widths: tuple[int, ...] = ()
    """Width of each stage, finest first; none = one stage of D, of which `zoo.nn.Pyramid` makes
    four scales."""
    channels: int = 128
    """Of the pyramid's maps."""
    dice: float = 0.0
    """Share of the loss that is one minus each picture's soft Dice overlap (Milletari et al. 2016,
    arXiv:1606.04797)."""
    dropout: float = 0.0
    """Zeroed share of the channels in front of the last convolution."""
    eps: float = 1e-6
    """Added to the variance in norms."""


def maps_of(
    owner: str, tokens: Tokens, dim: int, widths: tuple[int, ...]
) -> tuple[Tokens, list[Tensor]]:
    """Tokens with stages -> the first stage, and the map (B, D_s, h, w) of each, for a head that
    reads them. ShapeError for other stages than `widths` says, and for what is no picture."""
    check(owner, tokens.x, "batch tokens dim", dim=dim)
    stages = tokens.stages or (tokens,)
    if len(stages) != len(widths or (1,)) or len(stages[0].size or ()) != 2:
        wants = f"{owner} takes a picture's maps of {len(widths) or 1} stages"
        raise ShapeError(f"{wants}; got {len(stages)} of {stages[0].size} pixels")
    return stages[0], [as_map(stage) for stage in stages]


class Segment(Part[SegmentConfig]):
    """Tokens with the maps of all stages -> (B, classes, h, w) logits at the picture's own size.

    The levels that `zoo.nn.Levels` makes of the maps are added up at the finest one's size
    (Kirillov et al. 2019, arXiv:1901.02446) and read by two convolutions.
    """

    Config = SegmentConfig
    reads_maps = True  # the Model then asks the backbone for the stages

    def __init__(self, config: SegmentConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Segment", "target", c.target, ("mask",))
        widths = c.widths or (c.dim,)
        wants = "Segment takes widths of stages of which the last is dim"
        require(widths[-1] == c.dim, f"{wants}; got {widths} and dim {c.dim}", "widths")
        self.dim = c.dim
        self.levels = Levels(widths, c.channels, c.eps)
        mix = nn.Conv2d(c.channels, c.channels, 3, padding=1, bias=False)
        self.mix = nn.Sequential(MapNorm(c.channels, c.eps), mix, MapNorm(c.channels, c.eps))
        self.out = nn.Conv2d(c.channels, c.classes, 1)

    def forward(self, tokens: Tokens) -> Tensor:
        """Tokens of (B, T, D), with stages -> (B, classes, h, w), the picture's pixels."""
        finest, maps = maps_of("Segment", tokens, self.dim, self.config.widths)
        levels = self.levels(maps)
        size = levels[0].shape[-2:]
        each = [F.interpolate(level, size, mode="bilinear") for level in levels]
        x = self.mix(torch.stack(each).sum(0))
        x = self.out(F.dropout2d(F.gelu(x), self.config.dropout, self.training))
        sides = zip(finest.grid[-2:], finest.stride, strict=True)  # type: ignore[index, arg-type]
        x = F.interpolate(x, [n * step for n, step in sides], mode="bilinear")
        h, w = finest.size  # type: ignore[misc]  # a picture has two
        return x[..., :h, :w]  # without what patches were filled up with

    def loss(self, answer: Tensor, batch: Batch, smoothing: float = 0.0) -> Losses:
        """(B, classes, h, w), {"target": (B, h, w) int64} -> {"loss": (sum, count)} over pixels.

        Cross-entropy, of which `smoothing` is spread over all classes, and for a share of `dice`
        each picture's Dice loss, times its pixels. A target of `IGNORED` counts for neither.
        """
        target, answer = batch["target"], answer.float()
        counted = target != IGNORED
        total = F.cross_entropy(
            answer, target, ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum"
        )
        dice = self.config.dice
        if dice:
            share = answer.softmax(1) * counted[:, None]
            real = F.one_hot(target.where(counted, 0), answer.shape[1]).movedim(-1, 1)
            real = real * counted[:, None]
            both, sizes = (share * real).sum((2, 3)), (share + real).sum((2, 3))
            overlap = ((2 * both + 1) / (sizes + 1)).mean(1)  # a class that is in neither: 1
            total = (1 - dice) * total + dice * ((1 - overlap) * counted.sum((1, 2))).sum()
        return {"loss": (total, counted.sum())}
