"""Where things are: a box and a class for each, from the maps of all stages."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.errors import one_of, require
from zoo.heads.classify import Batch, Losses
from zoo.heads.segment import maps_of
from zoo.nn import Levels, Part
from zoo.tokens import Tokens


@dataclass(frozen=True)
class DetectConfig:
    """A feature pyramid over the stages' maps, of which each point tells of one box."""

    dim: int
    """Width D of the last stage."""
    classes: int
    """How many classes a thing may have; none is for what is no thing."""
    target: str = "boxes"
    """boxes: any number of boxes, one class each."""
    widths: tuple[int, ...] = ()
    """Width of each stage, finest first; none = one stage of D, of which `zoo.nn.Pyramid` makes
    four scales."""
    channels: int = 128
    """Of the pyramid's maps, a multiple of 32."""
    depth: int = 4
    """Convolutions in front of the classes, and as many in front of the boxes."""
    score: float = 0.05
    """The least of a box that is told."""
    overlap: float = 0.6
    """Of two boxes of one class with more, as intersection over union, the better one is told."""
    most: int = 100
    """Boxes of a picture that are told, the best."""
    eps: float = 1e-6
    """Added to the variance in the pyramid's norms."""


class Points(NamedTuple):
    """What each of N points, those of the finest map first, says of each of B pictures."""

    logits: Tensor
    """(B, N, classes)."""
    sides: Tensor
    """(B, N, 4): from the point to the box's left, top, right and bottom, in cells."""
    middle: Tensor
    """(B, N, 1): the logit of how near the point is to the box's middle."""
    cells: Tensor
    """(N, 4) float32: the cell that each point is the middle of, x0, y0, x1, y1 in pixels."""
    counts: tuple[int, ...]
    """How many points each map has."""
    size: tuple[int, int]
    """(h, w) of the pictures in pixels."""


class Detect(Part[DetectConfig]):
    """Tokens with the maps of all stages -> Points, of which `found` makes boxes.

    FCOS (Tian et al. 2019, arXiv:1904.01355) by torchvision's own convolutions, matching, losses
    and suppression, on the levels that `zoo.nn.Levels` makes of the maps.
    """

    Config = DetectConfig
    reads_maps = True  # the Model then asks the backbone for the stages

    def __init__(self, config: DetectConfig | None = None, /, **fields: Any):
        from zoo.heads.fcos import make_fcos  # what is heavy is imported where used

        c = self.configure(config, fields)
        one_of("Detect", "target", c.target, ("boxes",))
        widths = c.widths or (c.dim,)
        wants = "Detect takes widths of stages of which the last is dim"
        require(widths[-1] == c.dim, f"{wants}; got {widths} and dim {c.dim}", "widths")
        wants = "Detect takes channels in 32 groups"
        require(c.channels % 32 == 0, f"{wants}, a multiple of 32; got {c.channels}", "channels")
        self.dim = c.dim
        self.levels = Levels(widths, c.channels, c.eps)
        self.fcos = make_fcos(c.channels, c.classes, c.depth, c.score, c.overlap, c.most)

    def forward(self, tokens: Tokens) -> Points:
        """Tokens of (B, T, D), with stages -> Points."""
        finest, maps = maps_of("Detect", tokens, self.dim, self.config.widths)
        levels = self.levels(maps)
        told = self.fcos.head(levels)
        first = 0 if self.config.widths else -2  # one stage's finest level is four times as fine
        high, wide = finest.stride[-2:]  # type: ignore[index]  # what was cut from a picture has one
        cells = [
            cells_of(level, high * 2.0 ** (first + i), wide * 2.0 ** (first + i))
            for i, level in enumerate(levels)
        ]
        h, w = finest.size  # type: ignore[misc]  # a picture has two
        counts = tuple([len(each) for each in cells])
        each = told["cls_logits"], told["bbox_regression"], told["bbox_ctrness"]
        return Points(*each, torch.cat(cells), counts, (h, w))

    def loss(self, answer: Points, batch: Batch, smoothing: float = 0.0) -> Losses:
        """Points, {"target": (B, most, 5)} -> {"loss": (sum, count)} over points that hold a thing.

        A row of the target is x0, y0, x1, y1 in pixels and the class, or -1 where there is none.
        The sum is the focal loss of all points, and of those that hold a thing one minus the
        generalised overlap and the cross-entropy of the middle. OptionError for label smoothing.
        """
        wants = "Detect takes no label smoothing, since its losses are sigmoids"
        require(not smoothing, f"{wants}; got {smoothing}: give --optim.smoothing 0", "smoothing")
        real = [rows[rows[:, 4] >= 0] for rows in batch["target"]]
        targets = [{"boxes": rows[:, :4].float(), "labels": rows[:, 4].long()} for rows in real]
        told = {
            "cls_logits": answer.logits.float(),
            "bbox_regression": answer.sides.float(),
            "bbox_ctrness": answer.middle.float(),
        }
        cells = [answer.cells] * len(targets)
        losses = self.fcos.compute_loss(targets, told, cells, list(answer.counts))
        return {"loss": (losses["total"], losses["count"])}

    @torch.no_grad()
    def found(self, answer: Points) -> list[dict[str, Tensor]]:
        """Points -> {"boxes": (n, 4), "scores": (n,), "labels": (n,) int64} of each picture, best
        first, boxes as x0, y0, x1, y1 in pixels."""
        parts = {"cls_logits": answer.logits, "bbox_regression": answer.sides,
                 "bbox_ctrness": answer.middle}  # fmt: skip
        told = {name: list(x.float().split(answer.counts, 1)) for name, x in parts.items()}
        count = len(answer.logits)
        cells = [list(answer.cells.split(answer.counts))] * count
        rows = self.fcos.postprocess_detections(told, cells, [answer.size] * count)
        return [{name: x[area(row["boxes"]) > 0] for name, x in row.items()} for row in rows]


def cells_of(level: Tensor, high: float, wide: float) -> Tensor:
    """(B, C, h, w), a cell's height and width in pixels -> (h w, 4) float32: x0, y0, x1, y1 of each
    cell, row by row.

    The points are their middles, as in the paper; torchvision's own lie in the corners.
    """
    h, w = level.shape[-2:]
    y = torch.arange(h, device=level.device, dtype=torch.float32) * high
    x = torch.arange(w, device=level.device, dtype=torch.float32) * wide
    top, left = torch.meshgrid(y, x, indexing="ij")
    return torch.stack((left, top, left + wide, top + high), -1).flatten(0, 1)


def area(boxes: Tensor) -> Tensor:
    """(..., 4) of x0, y0, x1, y1 -> (...,): that of each box."""
    return (boxes[..., 2:4] - boxes[..., :2]).clamp(min=0).prod(-1)
