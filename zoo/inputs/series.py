"""Series of numbers: windows of the rows before, from which the rows ahead are told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.errors import UserError
from zoo.inputs.names import listed
from zoo.inputs.predict import columns_of
from zoo.inputs.prepare import Prepare
from zoo.inputs.times import (
    check_steps,
    floats,
    following,
    local,
    moments_of,
    shown,
    with_point,
    zone_of,
)

LEAST = 0.05  # deviations of train, added to a window's own: one that stands still has none
NOISE = {"none": 0.0, "light": 0.05, "strong": 0.2}  # deviations of what is added while training


class Window(NamedTuple):
    """Rows of a table in the order of their times, and what its columns are called."""

    columns: tuple[str, ...]
    values: np.ndarray
    """(T, C) float64; a view, where it is one of many windows."""


@dataclass(frozen=True)
class PrepareSeries(Prepare, kind="series"):
    """`prepare(rows)` gives the last `past` of them, (past, C) float32, standardised.

    Rows are an array (T, C), or a table or data frame, whose columns are taken by name and, where
    it has the column `time`, in the order of their times. If `relative`, each window of a batch is
    counted from its own last row, in its own deviations, and so are the answers, from the target's
    last value: where a series wanders off, or swings wider, what follows is told better from where
    it is than from the mean of train (Kim et al. 2022, "Reversible Instance Normalization"; the
    last row instead of the mean: Zeng et al. 2022, arXiv:2205.13504).
    """

    from_files: ClassVar[bool] = False
    from_tables: ClassVar[bool] = True
    input: ClassVar[str] = "frames"

    columns: tuple[str, ...]
    """What is seen, C columns of numbers."""
    past: int
    """Rows of a window."""
    mean: tuple[float, ...]
    """Of each column in train."""
    std: tuple[float, ...]
    """The deviation of each column in train."""
    target: str
    """The column that is told ahead."""
    ahead: int
    """For how many rows after the last."""
    time: str | None = None
    """The column of times, by which rows of a table are sorted; it is not seen."""
    relative: bool = True
    """Whether windows and answers are measured by the window itself, else by all of train."""

    def __post_init__(self) -> None:
        if self.past < 1 or self.ahead < 1:
            got = f"past {self.past} and ahead {self.ahead}"
            raise UserError(f"PrepareSeries takes at least 1 row before and ahead; got {got}")
        if not len(self.columns) == len(self.mean) == len(self.std) or min(self.std) <= 0:
            got = f"{len(self.columns)} columns, {len(self.mean)} means, deviations {self.std}"
            raise UserError(f"PrepareSeries takes a mean and a deviation per column; got {got}")
        if self.target not in self.columns:
            takes = f"PrepareSeries takes a target among {listed(self.columns)}"
            raise UserError(f"{takes}; got {self.target!r}")

    def load(self, source: Any) -> Tensor:
        """An array (T, C), a table, a data frame or a Window -> (past, C) float64.

        A window's memory is shared. UserError for too few rows, for what is no number, and for a
        table whose last `past` rows have gaps or doubled times.
        """
        if columns_of(source) is not None and not isinstance(source, Window):
            source = self.read(source)
        if isinstance(source, Window):
            lacks = [name for name in self.columns if name not in source.columns]
            if lacks:
                takes = f"this model takes the columns {listed(self.columns)}"
                raise UserError(f"{takes}; got {listed(source.columns)}")
            values = source.values
            if source.columns != self.columns:
                values = values[:, [source.columns.index(name) for name in self.columns]]
        else:
            try:
                if np.iscomplexobj(source):
                    raise TypeError("of two parts each")
                values = np.asarray(source, dtype=np.float64)
            except (TypeError, ValueError) as error:
                takes = "a series model takes an array of numbers, a table or a data frame"
                raise UserError(f"{takes}; got {type(source).__name__}: read it first") from error
            values = values[:, None] if values.ndim == 1 and len(self.columns) == 1 else values
        wants = f"a series model takes at least {self.past} rows of {len(self.columns)} columns"
        if values.ndim != 2 or values.shape[1] != len(self.columns) or len(values) < self.past:
            raise UserError(f"{wants}; got {' x '.join(map(str, values.shape)) or 'one number'}")
        values = values[-self.past :]
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            where = f"{self.columns[column]!r}, {self.past - row} rows before the end"
            raise UserError(f"{wants}, all numbers; got {values[row, column]} in {where}")
        return torch.from_numpy(values if values.flags.writeable else values.copy())

    def read(self, table: Any) -> Window:
        """The last `past` rows of a table, in the order of their times where it has them."""
        names = columns_of(table) or []
        lacks = [name for name in self.columns if name not in names]
        if lacks:
            takes = f"this model takes a table with the columns {listed(self.columns)}"
            raise UserError(f"{takes}; this one lacks {listed(lacks)}")
        rows: Sequence[int] = range(len(table))
        if self.time in names:
            cells = list(table[self.time])
            moments = moments_of(cells, "the table")
            order = np.argsort(moments, kind="stable")[-self.past :]
            check_steps(moments[order], order, "the table", zone_of(cells))
            rows = order.tolist()
        rows = rows[-self.past :]
        return Window(self.columns, numbers_of(table, self.columns, rows, "the table"))

    def beside(self, source: Any) -> dict[str, Any]:
        """A table with the column `time` -> {"times": the `ahead` next ones}, in the zone that its
        own have; else nothing."""
        if self.time is None or self.time not in (columns_of(source) or []):
            return {}
        cells = list(source[self.time])
        moments, zone = np.sort(moments_of(cells, "the table")), zone_of(cells)
        there = following(local(moments, zone), self.ahead)
        return {"times": [f"{shown(moment)}{zone}" for moment in there]}

    def finish(self, loaded: Tensor) -> Tensor:
        """(past, C) float64 -> (past, C) float32, standardised."""
        mean, std = torch.tensor((self.mean, self.std), dtype=torch.float64)
        return ((loaded - mean) / std).float()

    def augment(self, config: Any) -> Callable[[Tensor], Tensor]:
        """`config.augment`: none, or noise on all rows but the last: light, strong."""
        level = NOISE[config.augment]
        return Noisy(self, level) if level else self.finish

    def batch(self, samples: Sequence[Tensor]) -> dict[str, Tensor]:
        """[(past, C)] -> {"frames": (B, past, C)}, each by its own measure if `relative`."""
        frames = torch.stack(list(samples))
        if self.relative:
            frames = (frames - frames[:, -1:]) / (frames.std(1, correction=0)[:, None] + LEAST)
        return {"frames": frames}

    def measure(self, samples: Sequence[Tensor]) -> tuple[Tensor, Tensor] | None:
        """[(past, C)] -> (B, 1), (B, 1): the target's last value and deviation in each window."""
        if not self.relative:
            return None
        at = self.columns.index(self.target)
        told = torch.stack([sample[:, at] for sample in samples]).double()
        unit = told.std(1, correction=0)[:, None] + LEAST
        return self.mean[at] + self.std[at] * told[:, -1:], self.std[at] * unit

    def adapter(self) -> dict[str, Any]:
        """The features of a frame, and the rows of a table of positions."""
        return {"channels": len(self.columns), "length": self.past}


@dataclass(frozen=True)
class Noisy:
    """What stands for `prepare.finish`: normal noise is added to all rows but the last."""

    prepare: PrepareSeries
    level: float

    def __call__(self, loaded: Tensor) -> Tensor:
        """Draws from torch's global generator."""
        frames = self.prepare.finish(loaded)
        noise = self.level * torch.randn(frames.shape)
        noise[-1] = 0  # answers are counted from it
        return frames + noise


def numbers_of(
    table: Any, columns: Sequence[str], rows: Sequence[int] | None, where: str
) -> np.ndarray:
    """A table's columns, some rows of them in this order or all -> (T, C) float64.

    UserError for a cell that is missing or no number, with its rows.
    """
    import pandas

    found = []
    for name in columns:
        cells = pandas.Series(list(table[name]), dtype=object)
        cells = cells if rows is None else cells.iloc[list(rows)]
        values = floats(cells)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            told = listed(f"row {cells.index[i] + 1}: {cells.iloc[i]!r}" for i in bad.tolist())
            hint = with_point([cells.iloc[i] for i in bad.tolist()]) or "fill them"
            raise UserError(
                f"a series takes a number in each row; {name!r} of {where} has none in "
                f"{len(bad)} ({told}): {hint}, or cut the table before or after them"
            )
        found.append(values)
    return np.stack(found, axis=1)


def series(config: Any, splits: Any) -> Callable[[], PrepareSeries]:
    """The data section of a config, splits of windows -> what makes a new model's way to read them.

    Means and deviations are those of the rows of train.
    """

    def prepare() -> PrepareSeries:
        windows = splits.train.items
        rows = windows.rows
        return PrepareSeries(
            columns=windows.columns,
            past=windows.past,
            mean=tuple(rows.mean(0).tolist()),
            std=tuple((rows.std(0) + (rows.std(0) == 0)).tolist()),
            target=windows.target,
            ahead=windows.ahead,
            time=windows.time,
        )

    return prepare
