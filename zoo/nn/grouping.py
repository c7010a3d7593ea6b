"""Groupings: how tokens are put together before they attend. Values without parameters.

ViT, BERT and GPT attend over `Everything`; Swin over `Windows` of a grid; divided space-time
attention over `Axes`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.errors import ShapeError, one_of
from zoo.nn.config import Choice
from zoo.ops import Layout, axis_layout, join, split, window_layout
from zoo.tokens import Tokens

PADS = ("mask", "attend", "attend_after")


@dataclass(frozen=True)
class Grouping(Choice):
    """Base: `layout(tokens)` once per size, then `split` before and `join` behind each
    attention."""

    def layout(self, tokens: Tokens) -> Layout | None:
        """Tokens of (B, P + T, D) -> the index tables of their grid, or None where they stay as
        they are."""
        return None

    def split(self, x: Tensor, layout: Layout, prefix: int) -> Tensor:
        """(B, P + T, D) -> (B*n, N, D)."""
        return split(x, layout)

    def join(self, x: Tensor, layout: Layout, prefix: int) -> Tensor:
        """(B*n, N, D) -> (B, P + T, D)."""
        return join(x, layout)


@dataclass(frozen=True)
class Everything(Grouping, kind="everything"):
    """All tokens attend in one group."""


@dataclass(frozen=True)
class Windows(Grouping, kind="windows"):
    """Tokens attend inside windows of a 1-, 2- or 3-axis grid. Refuses prefix tokens.

    (Swin: Liu et al. 2021, arXiv:2103.14030; Video Swin: arXiv:2106.13230)
    """

    window: tuple[int, ...] = (7, 7)
    """The window's sides, on the grid's last axes."""
    shift: bool = False
    """Whether windows lie half a window further, and wrap around. An axis that one window fills is
    not shifted."""
    pad: str = "mask"
    """What happens where windows do not fill the grid: see `ops.window_layout`."""

    def layout(self, tokens: Tokens) -> Layout:
        """Tokens of (B, T, D) -> the index tables. ShapeError without a grid, or with prefix
        tokens.

        Tokens in a row count as a grid of one axis; windows then start at the first, padding
        included.
        """
        one_of("Windows", "pad", self.pad, PADS)
        grid = tokens.grid
        if grid is None and len(self.window) == 1:
            grid = (1, 1, tokens.x.shape[1])
        if grid is None or tokens.prefix:
            has = f"{tokens.prefix} prefix tokens" if tokens.prefix else "no grid"
            raise ShapeError(f"Windows takes tokens of a grid and no others; got {has}")
        window = (1,) * (3 - len(self.window)) + self.window
        moved = [w // 2 if self.shift and g > w else 0 for g, w in zip(grid, window, strict=True)]
        return window_layout(grid, window, tuple(moved), self.pad, tokens.x.device)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Axes(Grouping, kind="axes"):
    """Tokens attend along one axis of the grid (divided space-time: Bertasius et al. 2021,
    arXiv:2102.05095).

    Prefix tokens are repeated into every group, and averaged over groups behind it ("repeat"), or
    stay out ("skip": this attention adds nothing to them).
    """

    axis: str = "time"
    """time, rows (along a column's rows), columns, or space (rows and columns of one time
    together)."""
    prefix: str = "repeat"
    """repeat or skip."""

    def layout(self, tokens: Tokens) -> Layout:
        """Tokens of (B, P + T, D) -> the index tables. ShapeError without a grid."""
        axis = one_of("Axes", "axis", self.axis, ("time", "rows", "columns", "space"))
        one_of("Axes", "prefix", self.prefix, ("repeat", "skip"))
        if tokens.grid is None:
            raise ShapeError("Axes takes tokens of a grid; got none: its tokens were dropped")
        t, h, w = tokens.grid
        if axis == "space":
            return axis_layout((t, 1, h * w), 2, tokens.x.device)
        return axis_layout((t, h, w), ("time", "rows", "columns").index(axis), tokens.x.device)

    def split(self, x: Tensor, layout: Layout, prefix: int) -> Tensor:
        """(B, P + T, D) -> (B*n, P + N, D), or (B*n, N, D) where the prefix is skipped."""
        groups = split(x[:, prefix:], layout)
        if not prefix or self.prefix == "skip":
            return groups
        return torch.cat((x[:, :prefix].repeat_interleave(layout.groups, 0), groups), 1)

    def join(self, x: Tensor, layout: Layout, prefix: int) -> Tensor:
        """(B*n, P + N, D) -> (B, P + T, D)."""
        if not prefix:
            return join(x, layout)
        if self.prefix == "skip":
            body = join(x, layout)
            return torch.cat((body.new_zeros(len(body), prefix, body.shape[-1]), body), 1)
        front = x[:, :prefix].unflatten(0, (-1, layout.groups)).mean(1)
        return torch.cat((front, join(x[:, prefix:], layout)), 1)
