"""Series of numbers: windows of the rows before, from which the rows ahead are told."""

import re
import warnings
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

LEAST = 0.05  # deviations of train, added to a window's own: one that stands still has none
CLOCK = re.compile(r"\s*T?\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([ap]\.?m\.?)?\s*$", re.IGNORECASE)
OFFSET = re.compile(
    r"(T\d{2}(:?\d{2}){0,2}| \d{1,2}:\d{2}(:\d{2})?)([.,]\d+)?\s*"
    r"(?P<zone>Z|UTC|GMT|[+-][01]\d(:?\d{2})?)$",
    re.IGNORECASE,
)
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
            raise UserError(
                f"a series takes a number in each row; {name!r} of {where} has none in "
                f"{len(bad)} ({told}): fill them, or cut the table before or after them"
            )
        found.append(values)
    return np.stack(found, axis=1)


def floats(cells: Any) -> np.ndarray:
    """A pandas series -> (T,) float64, NaN for what is no number."""
    import pandas

    numbers: Any = pandas.to_numeric(cells, errors="coerce")
    return numbers.to_numpy(dtype=np.float64)


def moments_of(cells: Sequence[Any], where: str) -> np.ndarray:
    """A column of dates (days as 20200131 too) -> (T,) datetime64, UTC; of numbers -> (T,) float64.

    Dates are ISO 8601, else as the first is written. UserError that names the rows of others, of
    times without a day, and where month and day may be either.
    """
    import pandas

    series = pandas.Series(list(cells), dtype=object)
    numbers = floats(series)
    compact = ((numbers > 1800_01_00) & (numbers < 2200_12_32)).all()  # as 20200131
    if np.isfinite(numbers).all() and not hasattr(series.iloc[0], "year"):
        if not compact:
            return numbers
        days = pandas.to_datetime(series.astype(str), format="%Y%m%d", errors="coerce")
        return numbers if days.isna().any() else days.to_numpy()
    clocks = [i for i, cell in enumerate(cells) if isinstance(cell, str) and CLOCK.match(cell)]
    if clocks:  # pandas would take them for today's
        told = f"row {clocks[0] + 1}: {cells[clocks[0]]!r}"
        raise UserError(f"data.time takes dates; {where} has times of a day alone in {len(clocks)} "
                        f"({told}): write the day before each")  # fmt: skip
    hows: tuple[dict[str, Any], ...] = ({"format": "ISO8601"}, {}, {"dayfirst": True})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that each is parsed by itself
        iso, *others = (
            pandas.to_datetime(series, utc=True, errors="coerce", **how)  # type: ignore[call-overload]  # one of three
            for how in hows
        )
    best: Any = min((iso, *others), key=lambda read: int(read.isna().sum()))
    both = not any(int(read.isna().sum()) for read in others)
    if int(iso.isna().sum()) and both and not others[0].equals(others[1]):
        i = int(np.flatnonzero(others[0] != others[1])[0])
        raise UserError(
            f"data.time takes dates that say which is the month; {where} has row {i + 1}: "
            f"{series.iloc[i]!r}, and others that may be read in two ways: write year-month-day"
        )
    bad = np.flatnonzero(best.isna())
    if len(bad):
        told = listed(f"row {i + 1}: {series.iloc[i]!r}" for i in bad)
        raise UserError(
            f"data.time takes a column of dates, a date in each row; {where} has none in "
            f"{len(bad)} ({told}): correct them, or give --data.time COLUMN"
        )
    return best.dt.tz_localize(None).to_numpy()


def zone_of(cells: Sequence[Any]) -> str:
    """The one offset from UTC that all dates of a column are written with, such as "+05:30"; "" for
    none, and "+00:00" for several, as a country has them in summer and winter."""

    def offset(cell: Any) -> str:
        if isinstance(cell, str):
            found = OFFSET.search(cell.strip())
            text = "" if found is None else found["zone"].replace(":", "")
            text = "+0000" if text.isalpha() else text
            return text and f"{text[:3]}:{text[3:] or '00'}"
        if getattr(cell, "tzinfo", None) is None:
            return ""
        minutes = round(cell.utcoffset().total_seconds() / 60)
        return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"

    found = set(map(offset, cells))
    return "+00:00" if len(found) > 1 else "".join(found)


def local(moments: Any, zone: str) -> Any:
    """Moments in UTC, one or an array -> what the clock of a zone shows then."""
    if not zone:
        return moments
    minutes = 60 * int(zone[1:3]) + int(zone[4:])
    return moments + np.timedelta64(-minutes if zone[0] == "-" else minutes, "m")


def check_steps(moments: np.ndarray, rows: np.ndarray, where: str, zone: str = "") -> None:
    """UserError unless sorted times follow each other in one step, or in months or years of their
    zone.

    `rows` are the numbers of their rows, for the message.
    """
    steps = np.diff(moments)
    if not len(steps):
        return
    told = lambda i: f"{shown(moments[i], zone)} (row {rows[i] + 1})"  # noqa: E731
    doubled = np.flatnonzero(steps == steps.dtype.type(0))
    if len(doubled):
        pairs = listed(f"{told(i)} and row {rows[i + 1] + 1}" for i in doubled)
        raise UserError(f"a series takes each time once; {where} has {len(doubled)} again "
                        f"({pairs}): delete one of each")  # fmt: skip
    kinds, counts = np.unique(steps, return_counts=True)
    usual = kinds[counts.argmax()]
    gaps = np.flatnonzero(
        np.abs(steps - usual) > 1e-6 * usual if steps.dtype.kind == "f" else steps != usual
    )
    if not len(gaps) or by_calendar(local(moments, zone)):
        return
    pairs = listed(f"from {told(i)} to {told(i + 1)}" for i in gaps)
    raise UserError(
        f"a series takes times in equal steps; {where} has {len(gaps)} of another length than "
        f"{step_in_words(usual)} ({pairs}): fill them, or cut the table before or after them"
    )


def by_calendar(moments: np.ndarray) -> bool:
    """Whether each time lies in the month, quarter or year after the one before."""
    if moments.dtype.kind != "M":
        return False
    months = moments.astype("datetime64[M]").astype(np.int64)
    return any((np.diff(months // unit) == 1).all() for unit in (1, 3, 12))


def following(moments: np.ndarray, count: int) -> list[Any]:
    """The next times after sorted ones, in their last step, or in its months (at the end of each
    where the last lies at one's end); none after a single time."""
    if len(moments) < 2:
        return []
    last, step, ahead = moments[-1], moments[-1] - moments[-2], np.arange(1, count + 1)
    if not by_calendar(moments) or step < np.timedelta64(28, "D"):
        return list(last + step * ahead)
    day, months = np.timedelta64(1, "D"), moments.astype("datetime64[M]")
    starts = months[-1] + (months[-1] - months[-2]) * ahead
    final = ((starts + 1).astype("datetime64[D]") - day).astype(moments.dtype)  # day of each month
    at_end = (last + day).astype("datetime64[M]") != months[-1]
    usual = starts.astype(moments.dtype) + (last - months[-1])
    clock = last - last.astype("datetime64[D]")
    return list(final + clock if at_end else np.minimum(usual, final + clock))


def step_in_words(step: Any) -> str:
    """The usual step between two times."""
    if isinstance(step, np.timedelta64):
        seconds = step / np.timedelta64(1, "s")
        for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
            if seconds % size == 0:
                return f"{seconds / size:g} {unit}{'s' if seconds != size else ''}"
        return f"{seconds:g} seconds"
    return f"{step:g}"


def shown(moment: Any, zone: str = "") -> str:
    """A time as messages and answers show it, in the zone that its table is written in; in as many
    digits as it takes to tell it from its neighbours."""
    if not isinstance(moment, np.datetime64):
        return (
            f"{moment:.0f}" if abs(moment) < 1e19 and moment == round(moment) else f"{moment:.15g}"
        )
    moment = local(moment, zone)
    whole = moment.astype("datetime64[s]")
    text = str(whole).replace("T", " ").removesuffix(":00")
    if moment != whole:
        text = str(moment).replace("T", " ").rstrip("0")
    return text + zone


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
