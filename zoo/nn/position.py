"""Positions that are relations: rotations of queries and keys, or biases of their scores.

A kind is a frozen config under a name. It says either what turns q and k (`rotation`, no
parameters) or which module makes a bias of the scores (`bias`). What is *added* to tokens belongs
to the adapters.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from zoo.errors import OptionError, require
from zoo.nn.config import Choice
from zoo.ops import alibi_slopes, bucket, log_offsets, relative_index, resize_table, rope_table


@dataclass(frozen=True)
class Position(Choice):
    """Base of the kinds. A kind overrides one of the two methods."""

    def rotation(self, positions: Tensor, width: int) -> Tensor | None:
        """(..., T, A) int64, head width K -> (..., T, 2, R): cosines and sines for `ops.rotate`, or
        None where the kind turns nothing."""
        return None

    @property
    def rotates(self) -> bool:
        """Whether the kind turns q and k."""
        return type(self).rotation is not Position.rotation

    def bias(self, heads: int) -> nn.Module | None:
        """-> a module (..., T, A), (..., S, A) positions -> (..., H, T, S) float, added to the
        scores, or None where the kind rotates."""
        takes = "Attention takes a position that rotates or makes a bias"
        require(self.rotates, f"{takes}; {self.kind} does neither", "position")
        return None


@dataclass(frozen=True)
class Rope(Position, kind="rope"):
    """Rotary embedding (Su et al. 2021, arXiv:2104.09864) over one axis or several."""

    base: float | tuple[float, ...] = 10000.0
    """Slowest wavelength / 2 pi, in positions; one number for all axes, or one each."""
    widths: tuple[int, ...] | None = None
    """How many channels of a head each axis turns; None = all of them in equal parts."""

    def rotation(self, positions: Tensor, width: int) -> Tensor:
        """(..., T, A), K -> (..., T, 2, sum(widths) / 2)."""
        axes = positions.shape[-1]
        widths = self.widths or (width // axes,) * axes
        if len(widths) != axes or sum(widths) > width or any(w % 2 for w in widths):
            wants = f"Rope takes one even width per axis, {width} channels together at most"
            raise OptionError(f"{wants}; got widths {widths} for {axes} axes", "widths")
        return rope_table(positions, widths, self.base)


@dataclass(frozen=True)
class Alibi(Position, kind="alibi"):
    """A penalty that grows with the distance (Press et al. 2021, arXiv:2108.12409). No
    parameters."""

    def bias(self, heads: int) -> nn.Module:
        """-> AlibiBias."""
        return AlibiBias(heads)


@dataclass(frozen=True)
class Buckets(Position, kind="buckets"):
    """T5's learned bias of bucketed distances (Raffel et al. 2019, arXiv:1910.10683)."""

    buckets: int = 32
    """Rows of the table."""
    furthest: int = 128
    """Distances from here on share the last bucket."""
    both: bool = True
    """Whether keys ahead have buckets of their own."""

    def bias(self, heads: int) -> nn.Module:
        """-> TableBias of a row per bucket."""
        return TableBias(heads, self.buckets, self)

    def rows(self, q: Tensor, k: Tensor) -> Tensor:
        """(..., T, 1), (..., S, 1) -> (..., T, S) int64: the bucket of each distance."""
        return bucket(ahead(q, k), self.buckets, self.furthest, self.both)


@dataclass(frozen=True)
class WindowTable(Position, kind="table"):
    """Swin's learned bias per offset within a window (Liu et al. 2021, arXiv:2103.14030), 1-3
    axes."""

    window: tuple[int, ...] = (7, 7)
    """The window's sides; offsets beyond them have no row."""

    def bias(self, heads: int) -> nn.Module:
        """-> TableBias of a row per offset."""
        return TableBias(heads, math.prod(2 * w - 1 for w in self.window), self)

    def rows(self, q: Tensor, k: Tensor) -> Tensor:
        """(N, A), (N, A) -> (1, N, N) int64: the number of each offset."""
        return offsets(self, q, k)


@dataclass(frozen=True)
class GridTable(Position, kind="grid_table"):
    """BEiT's learned bias per offset within a whole grid, and for pairs with prefix tokens, if
    there are any (Bao et al. 2021, arXiv:2106.08254)."""

    grid: tuple[int, ...] = (14, 14)
    """The native grid's sides; on others the table is resized."""

    def bias(self, heads: int) -> nn.Module:
        """-> GridTableBias."""
        return GridTableBias(heads, self)


@dataclass(frozen=True)
class Continuous(Position, kind="continuous"):
    """Swin v2's bias: a small MLP of log-spaced offsets (Liu et al. 2021, arXiv:2111.09883), 1-3
    axes."""

    window: tuple[int, ...] = (8, 8)
    """The window's sides."""
    trained: tuple[int, ...] | None = None
    """The window that it was trained with, which sets the scale; None = the same."""
    hidden: int = 512
    """Width of the MLP."""

    def bias(self, heads: int) -> nn.Module:
        """-> ContinuousBias."""
        return ContinuousBias(heads, self)


class AlibiBias(nn.Module):
    """(..., T, 1), (..., S, 1) positions -> (..., H, T, S): -slope |q - k|."""

    def __init__(self, heads: int):
        super().__init__()
        self.slopes = alibi_slopes(heads)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """(..., T, 1), (..., S, 1) -> (..., H, T, S) fp32."""
        slopes = torch.tensor(self.slopes, device=q.device)[:, None, None]
        return -slopes * ahead(q, k).abs()[..., None, :, :]


class TableBias(nn.Module):
    """The row of a learned table that the kind names for each pair."""

    def __init__(self, heads: int, rows: int, kind: Buckets | WindowTable):
        super().__init__()
        self.kind = kind
        self.table = nn.Parameter(nn.init.trunc_normal_(torch.empty(rows, heads), std=0.02))

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """(..., T, A), (..., S, A) -> (..., H, T, S)."""
        return look_up(self.table, self.kind.rows(q, k))


class GridTableBias(nn.Module):
    """A row per offset, and behind them rows for: from prefix tokens, to them, among them."""

    by_grid = True  # it is told the grid, and how many prefix tokens stand in front

    def __init__(self, heads: int, kind: GridTable):
        super().__init__()
        self.kind, rows = kind, math.prod(2 * n - 1 for n in kind.grid) + 3
        self.table = nn.Parameter(nn.init.trunc_normal_(torch.empty(rows, heads), std=0.02))

    def forward(
        self, q: Tensor, k: Tensor, grid: tuple[int, ...] | None = None, prefix: int = 1
    ) -> Tensor:
        """(..., T, A), (..., S, A) -> (..., H, T, S); without a grid, places are of the native."""
        native = self.kind.grid
        grid = native if grid is None else grid[-len(native) :]
        sides, target = (tuple([2 * n - 1 for n in sides]) for sides in (native, grid))
        table = resize_table(torch.cat((self.table[-3:], self.table[:-3])), sides, target)
        rows = q[..., :, None, :] - k[..., None, :, :] + torch.tensor(grid, device=q.device) - 1
        strides = [math.prod(target[i + 1 :]) for i in range(len(target))]
        rows = (rows * torch.tensor(strides, device=q.device)).sum(-1) + 3
        first = torch.arange(rows.shape[-2], device=q.device)[:, None] < prefix
        rows = torch.where(first, 0, torch.where(first.mT, 1, rows))
        return look_up(table, torch.where(first & first.mT, 2, rows))


class ContinuousBias(nn.Module):
    """16 sigmoid(MLP(log-spaced offset))."""

    def __init__(self, heads: int, kind: Continuous):
        super().__init__()
        self.kind = kind
        self.up = nn.Linear(len(kind.window), kind.hidden)
        self.down = nn.Linear(kind.hidden, heads, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """(N, A), (N, A) -> (1, H, N, N)."""
        window, trained = self.kind.window, self.kind.trained or self.kind.window
        # An fp32 island: bf16 has too few digits for the coordinates.
        with torch.autocast(q.device.type, enabled=False):
            spaced = log_offsets(window, trained, q.device)
            up = nn.functional.linear(spaced, self.up.weight.float(), self.up.bias.float())
            table = nn.functional.linear(up.relu(), self.down.weight.float())
        return look_up(16 * table.sigmoid(), offsets(self.kind, q, k))


def bias_among(
    position: nn.Module, places: Tensor | None, grid: tuple[int, ...] | None, prefix: int
) -> Tensor:
    """(..., T, A), what a table of a grid has to know -> (..., H, T, T): the bias of all pairs."""
    return position(places, places, *((grid, prefix) if hasattr(position, "by_grid") else ()))


def look_up(table: Tensor, rows: Tensor) -> Tensor:
    """(R, H), (..., T, S) int64 -> (..., H, T, S): a row for each pair."""
    found = table.t().index_select(1, rows.flatten()).unflatten(1, rows.shape)
    return found.movedim(0, -3)


def ahead(q: Tensor, k: Tensor) -> Tensor:
    """(..., T, 1), (..., S, 1) -> (..., T, S): how far each key lies ahead of each query."""
    if q.shape[-1] != 1:
        wants = "This kind of position takes tokens in a row, one axis"
        raise OptionError(f"{wants}; got {q.shape[-1]} axes", "position")
    return k[..., None, :, 0] - q[..., :, None, 0]


def offsets(kind: WindowTable | Continuous, q: Tensor, k: Tensor) -> Tensor:
    """(N, A), (N, A) -> (1, N, N) int64: the number of each offset; only for a window's own places
    in order."""
    places = math.prod(kind.window)
    if q.shape[-2] != places or k.shape[-2] != places:
        wants = f"windows of {'x'.join(map(str, kind.window))}, {places} places"
        got = f"{q.shape[-2]} queries and {k.shape[-2]} keys"
        raise OptionError(f"The position kind {kind.kind} takes {wants}; got {got}", "position")
    return relative_index(kind.window, q.device)[None]
