"""Positions that are relations: rotations of queries and keys, or biases of their scores.

A kind is a frozen config under a name. It says either what turns q and k (`rotation`, no
parameters) or which module makes a bias of the scores (`bias`). What is *added* to tokens belongs
to the adapters.
"""

import math
from dataclasses import dataclass

import torch
from einops import rearrange
from torch import Tensor, nn

from zoo.errors import OptionError
from zoo.nn.config import Choice
from zoo.ops import alibi_slopes, bucket, grid_positions, relative_index, rope_table


@dataclass(frozen=True)
class Position(Choice):
    """Base of the kinds. Both methods answer None where the kind does not do that."""

    def rotation(self, positions: Tensor, width: int) -> Tensor | None:
        """(..., T, A) int64, head width K -> (..., T, 2, R): cosines and sines for `ops.rotate`."""
        return None

    def bias(self, heads: int) -> nn.Module | None:
        """-> a module (..., T, A), (..., S, A) positions -> (..., H, T, S) float, added to the
        scores."""
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
            raise OptionError(
                f"Rope takes one even width per axis, {width} channels together at most; got "
                f"widths {widths} for {axes} axes",
                "widths",
            )
        bases = self.base if isinstance(self.base, tuple) else (self.base,) * axes
        parts = zip(widths, bases, strict=True)
        tables = [rope_table(positions[..., i, None], (w,), b) for i, (w, b) in enumerate(parts)]
        return torch.cat(tables, -1)


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
        """-> BucketBias."""
        return BucketBias(heads, self.buckets, self.furthest, self.both)


@dataclass(frozen=True)
class WindowTable(Position, kind="table"):
    """Swin's learned bias per offset within a window (Liu et al. 2021, arXiv:2103.14030), 1-3
    axes."""

    window: tuple[int, ...] = (7, 7)
    """The window's sides; offsets beyond them have no row."""

    def bias(self, heads: int) -> nn.Module:
        """-> TableBias."""
        return TableBias(heads, self.window)


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
        return ContinuousBias(heads, self.window, self.trained or self.window, self.hidden)


class AlibiBias(nn.Module):
    """(..., T, 1), (..., S, 1) positions -> (..., H, T, S): -slope |q - k|."""

    def __init__(self, heads: int):
        super().__init__()
        self.slopes = alibi_slopes(heads)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """(..., T, 1), (..., S, 1) -> (..., H, T, S) fp32."""
        distance = ahead(q, k).abs()
        slopes = torch.tensor(self.slopes, device=q.device)
        return -slopes[:, None, None] * distance[..., None, :, :]


class BucketBias(nn.Module):
    """(..., T, 1), (..., S, 1) positions -> (..., H, T, S): a row of the table per bucketed
    distance."""

    def __init__(self, heads: int, buckets: int, furthest: int, both: bool):
        super().__init__()
        self.buckets, self.furthest, self.both = buckets, furthest, both
        self.table = nn.Parameter(torch.empty(buckets, heads))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """(..., T, 1), (..., S, 1) -> (..., H, T, S)."""
        rows = bucket(ahead(q, k), self.buckets, self.furthest, self.both)
        return rearrange(self.table[rows], "... t s h -> ... h t s")


def ahead(q: Tensor, k: Tensor) -> Tensor:
    """(..., T, 1), (..., S, 1) -> (..., T, S): how far each key lies ahead of each query."""
    if q.shape[-1] != 1:
        wants = "alibi and buckets take tokens in a row"
        raise OptionError(f"{wants}; got {q.shape[-1]} axes", "position")
    return k[..., None, :, 0] - q[..., :, None, 0]


class TableBias(nn.Module):
    """A row of the table per offset between two places of a window -> (1, H, N, N)."""

    def __init__(self, heads: int, window: tuple[int, ...]):
        super().__init__()
        self.window = window
        self.table = nn.Parameter(torch.empty(math.prod(2 * w - 1 for w in window), heads))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """(N, A), (N, A) -> (1, H, N, N); only for the window's own places in order."""
        places = math.prod(self.window)
        if q.shape[-2] != places or k.shape[-2] != places:
            raise OptionError(
                f"The position kind table takes windows of {'x'.join(map(str, self.window))}, "
                f"{places} places; got {q.shape[-2]} queries and {k.shape[-2]} keys",
                "position",
            )
        rows = relative_index(self.window, self.table.device).flatten()
        table = self.table.index_select(0, rows)
        return rearrange(table, "(t s) h -> 1 h t s", t=places)


class ContinuousBias(nn.Module):
    """16 sigmoid(MLP(log-spaced offset)) -> (1, H, N, N)."""

    def __init__(self, heads: int, window: tuple[int, ...], trained: tuple[int, ...], hidden: int):
        super().__init__()
        self.window, self.trained = window, trained
        self.up = nn.Linear(len(window), hidden)
        self.down = nn.Linear(hidden, heads, bias=False)

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """(N, A), (N, A) -> (1, H, N, N); only for the window's own places in order."""
        device = self.up.weight.device
        # An fp32 island: bf16 has too few digits for the coordinates.
        with torch.autocast(device.type, enabled=False):
            sides = torch.tensor([2 * w - 1 for w in self.window])
            offsets = grid_positions(tuple(sides.tolist()), device) - (sides // 2).to(device)
            scale = torch.tensor([max(w - 1, 1) for w in self.trained], device=device)
            spaced = 8.0 * offsets / scale
            spaced = spaced.sign() * (spaced.abs() + 1).log2() / math.log2(8)
            up = nn.functional.linear(spaced, self.up.weight.float(), self.up.bias.float())
            table = nn.functional.linear(up.relu(), self.down.weight.float())
        table = 16 * table.sigmoid()
        rows = relative_index(self.window, device)
        return rearrange(table[rows], "t s h -> 1 h t s")
