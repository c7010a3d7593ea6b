"""A table of numbers over time -> Splits of sliding windows, strictly in the order of time."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data.columns import LOOKED_AT, check_column, holds
from zoo.data.splits import Rows, Splits, Spread, check_spread
from zoo.data.table import read_tables
from zoo.errors import UserError
from zoo.inputs.names import listed, user_path
from zoo.inputs.series import Window, numbers_of
from zoo.inputs.times import CLOCK, EitherWayError, check_steps, local, moments_of, shown, zone_of

TIMES = ("date", "datetime", "time", "timestamp", "ds", "day", "week", "month", "quarter", "year")


@dataclass(frozen=True)
class Windows(Sequence[Window]):
    """Windows of `past` rows, each one row after the other; all are views of one array."""

    values: np.ndarray
    """(N, C) float64: every row of the table, in the order of time."""
    columns: tuple[str, ...]
    target: str
    time: str
    past: int
    ahead: int
    first: int
    """The row that the first window is followed by."""
    size: int
    """How many windows."""

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, row: Any) -> Any:
        at = self.first + range(self.size)[row]
        return Window(self.columns, self.values[at - self.past : at])

    @property
    def rows(self) -> np.ndarray:
        """(rows, C): all rows that they reach, targets included."""
        return self.values[self.first - self.past : self.first + self.size - 1 + self.ahead]


@dataclass(frozen=True)
class Ahead(Sequence[tuple[float, ...]]):
    """What follows each window: the next `ahead` values of the target."""

    windows: Windows

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, row: Any) -> Any:
        return tuple(self.table()[range(len(self))[row]].tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.table(), dtype) if copy else self.table()

    def table(self) -> np.ndarray:
        """(windows, ahead), a view."""
        w = self.windows
        column = w.values[w.first :, w.columns.index(w.target)]
        return np.lib.stride_tricks.sliding_window_view(column, w.ahead)[: w.size]


@dataclass(frozen=True)
class Series:
    """A table in the order of time."""

    path: Path
    values: np.ndarray
    moments: np.ndarray
    columns: tuple[str, ...]
    target: str
    time: str
    notes: tuple[str, ...]
    zone: str
    """The offset that times are written with, see `zone_of`; moments are in UTC."""


def series_splits(config: Any) -> Splits:
    """`config.train`, a table with a column of times and columns of numbers.

    `config.label` is the column that is told `ahead` rows ahead from `past` rows of all of them;
    rows from `config.until` on are left out. `config.test`, then `config.val`, are a share of the
    rows, the latest, or the date at which they begin. A window belongs to the split that all its
    targets lie in; the rows before them may lie in the split before. UserError for times that are
    unreadable, doubled or have gaps, for missing numbers, and for too few rows.
    """
    series = read_series(config.train, "data.train", config)
    stop = len(series.moments)
    starts = {"train": config.past}
    for split in ("test", "val"):
        given = getattr(config, split)
        starts[split] = stop if given is None else start_of(given, split, series, stop)
        stop = starts[split]
    ends = {"train": starts["val"], "val": starts["test"], "test": len(series.moments)}
    windows = {
        split: windows_of(series, config, split, max(starts[split], config.past), ends[split])
        for split in ("train", "val", "test")
        if split == "train" or getattr(config, split) is not None
    }
    return finish(series, windows, config)


def series_held_out(config: Any, labels: Sequence[str]) -> Splits:
    """The table `config.test` alone, all of its windows, under the labels of a model."""
    config = replace(config, until=None)  # which is about the table of train
    series = read_series(config.test, "data.test", config, labels[0].rpartition("+")[0])
    stop = len(series.moments)
    return finish(series, {"test": windows_of(series, config, "test", config.past, stop)}, config)


def read_series(path: Any, key: str, config: Any, target: str | None = None) -> Series:
    """A table, sorted by time and cut at `config.until`."""
    tables = read_tables(path, key)
    table: Any = next(iter(tables.values()))
    where, names, notes = user_path(str(path)), table.column_names, []
    if len(tables) > 1:
        raise UserError(f"{key} of a series takes one table; {where} has {listed(tables)}")
    time, why = time_of(table, config.time)
    target = config.label or target
    for name in config.columns or ():
        check_column(names, name, where, "data.columns")
    numbers = config.columns or tuple(n for n in names if n != time and holds(table, n) == "number")
    if target is None and len(numbers) == 1:
        target = numbers[0]
    for flag, name, what in (("time", time, "dates"), ("label", target, "the numbers to forecast")):
        if name is None:
            has = f"{where} has {listed(names)}"
            raise UserError(f"data takes a column of {what}; {has}: give --data.{flag} COLUMN")
        check_column(names, name, where, f"data.{flag}")
    time, target = str(time), str(target)
    if config.columns and (target not in numbers or time in numbers):
        wants = f"data.columns takes the one that is forecast, {target!r}, and not that of times"
        raise UserError(f"{wants}; got {listed(numbers)}: give --data.label or --data.columns")
    notes += [f"times are in the column {time!r}, {why} (--data.time)"] if why else []
    columns = numbers if target in numbers else (*numbers, target)
    notes.append(f"{target!r} is forecast from the columns {listed(columns)}")
    left = [n for n in names if n not in (*columns, time)]
    if left:
        what = "that are not asked for" if config.columns else "without numbers"
        notes.append(f"columns {what} are left out: {listed(left)}")
    cells = list(table[time])
    moments, zone = moments_of(cells, f"{time!r} of {where.name}"), zone_of(cells)
    if str(cells[0])[:10] != (first := shown(moments[0], zone))[:10]:
        notes.append(f"times are read so that {cells[0]} is {first}")
    if zone:
        notes.append(f"times, and dates such as --data.test, are those of {zone}")
    order = np.argsort(moments, kind="stable")
    if (order[1:] < order[:-1]).any():
        notes.append(f"rows are sorted by {time!r}")
    check_steps(moments[order], order, where.name, zone)
    moments = moments[order]
    if config.until is not None:
        stop = int(np.searchsorted(moments, date_of(config.until, "until", moments, zone)))
        if not stop:
            begins = f"{where} begins at {shown(moments[0], zone)}"
            raise UserError(f"data.until takes a date that leaves rows; {config.until} leaves none "
                            f"({begins})")  # fmt: skip
        notes.append(f"{len(moments) - stop} rows from {config.until} on are left out")
        moments, order = moments[:stop], order[:stop]
    values = numbers_of(table, columns, order.tolist(), where.name)
    return Series(where, values, moments, columns, target, time, tuple(notes), zone)


def time_of(table: Any, given: str | None) -> tuple[str | None, str]:
    """The column of times, as given or recognised by its name or as the only one of dates, and
    why."""
    names = table.column_names
    if given is not None:
        return given, ""
    usual = [name for name in names if name.lower().strip() in TIMES]
    alike = [name for name in usual if name.lower().strip() == usual[0].lower().strip()]
    if len(alike) > 1:
        wants = f"data takes one column of times; it has {listed(alike)}"
        raise UserError(f"{wants}: say which with --data.time COLUMN")
    if usual:
        return usual[0], "by its name"
    dates = [name for name in names if holds(table, name) != "number" and are_dates(table, name)]
    return (dates[0], "the only one of dates") if len(dates) == 1 else (None, "")


def are_dates(table: Any, name: str) -> bool:
    """Whether the first cells of a column are dates."""
    try:
        moments_of(list(table[:LOOKED_AT][name]), name)
    except EitherWayError:  # later ones may tell which
        return True
    except UserError:
        return False
    return True


def date_of(given: str, key: str, moments: np.ndarray, zone: str = "") -> Any:
    """A date of the config as the series has its own, in their zone where it names none."""
    import pandas

    if moments.dtype.kind != "M":
        raise UserError(f"data.{key} takes a date where times are dates; got {given!r} where they "
                        "are numbers")  # fmt: skip
    try:
        if CLOCK.match(given):  # pandas would take it for today's
            raise ValueError
        date = pandas.Timestamp(given)
        east = local(np.datetime64(0, "s"), zone) - np.datetime64(0, "s")
        return date.to_datetime64() - (east if date.tzinfo is None else np.timedelta64(0, "s"))
    except ValueError as error:
        takes = "a date such as 2017-07-01" + ("" if key == "until" else ", or a share of the rows")
        raise UserError(f"data.{key} takes {takes}; got {given!r}") from error


def start_of(given: float | str, split: str, series: Series, stop: int) -> int:
    """The first row of a split that ends before the row `stop`."""
    if isinstance(given, str):
        start = int(
            np.searchsorted(series.moments, date_of(given, split, series.moments, series.zone))
        )
    else:
        start = stop - round(given * stop)
    if not 0 < start < stop:
        first, last = (shown(series.moments[i], series.zone) for i in (0, stop - 1))
        raise UserError(
            f"data.{split} takes a share, or a date, that leaves rows on both sides; got {given} "
            f"for {stop} rows from {first} to {last}"
        )
    return start


def windows_of(series: Series, config: Any, split: str, first: int, stop: int) -> Windows:
    """All windows whose targets lie in the rows from `first` to before `stop`."""
    count = stop - first - config.ahead + 1
    if count < 1:
        raise UserError(
            f"data takes at least data.ahead {config.ahead} rows in {split}, behind data.past "
            f"{config.past}; {series.path} leaves it {max(stop - first, 0)}: make them smaller, or "
            "divide otherwise with --data.val and --data.test"
        )
    return Windows(
        series.values, series.columns, series.target, series.time,
        config.past, config.ahead, first, count,
    )  # fmt: skip


def finish(series: Series, windows: dict[str, Windows], config: Any) -> Splits:
    """With the notes on what each split holds, and what answers without a model would reach.
    UserError as in `check_spread`."""
    zone = series.zone
    labels = tuple(f"{series.target}+{i + 1}" for i in range(config.ahead))
    notes, scale = list(series.notes), None
    if "train" in windows:
        for i, name in enumerate(series.columns):
            spreads = {split: Spread.of(w.rows[:, i]) for split, w in windows.items()}
            check_spread(name, spreads, moves=name == series.target)
        column = windows["train"].rows[:, series.columns.index(series.target)]
        scale = ((float(column.mean()), float(column.std())),) * config.ahead
    rows, digest = {}, hashlib.sha256(repr((series.columns, labels)).encode())
    digest.update(series.values.tobytes())
    for split, w in windows.items():
        rows[split] = Rows(
            series.path, w, Ahead(w), len(labels), (), (len(series.columns),) * len(w)
        )
        last = w.first + w.size + w.ahead - 2
        spans = f"{shown(series.moments[w.first], zone)} to {shown(series.moments[last], zone)}"
        notes.append(f"{split}: {len(w)} windows of {series.path}, targets from {spans}")
        digest.update(f"{split}\t{w.past}\t{w.first}\t{w.size}\n".encode())
    known = {
        split: baselines(w, config.season, scale[0][1])
        for split, w in windows.items()
        if split != "train" and scale
    }
    return Splits(
        labels, rows.get("train"), rows.get("val"), rows.get("test"), digest.hexdigest(),
        "numbers", tuple(notes), (), scale, known,
    )  # fmt: skip


def baselines(windows: Windows, season: int, deviation: float) -> dict[str, dict[str, float]]:
    """The metrics of two answers that take no model: the last value again, and for each row the
    value that is whole seasons before it, as few as lie before the window's end."""
    column, truth = windows.values[:, windows.columns.index(windows.target)], Ahead(windows).table()

    def measure(back: Sequence[int]) -> dict[str, float]:
        squares, sizes, explained = 0.0, 0.0, 0.0
        for i, rows in enumerate(back):  # a column at a time, so that memory stays flat
            y, start = truth[:, i], windows.first + i - rows
            error = column[start : start + len(y)] - y
            square, spread = float(np.square(error).mean()), float(y.var())
            squares, sizes = squares + square, sizes + float(np.abs(error).mean())
            explained += 1 - square / spread if spread else float(square == 0)
        mse, mae, r2 = (total / len(back) for total in (squares, sizes, explained))
        values = {"loss": mse / deviation**2, "mse": mse, "mae": mae, "r2": r2}
        return {name: round(value, 6) for name, value in values.items()}

    steps = range(1, windows.ahead + 1)
    known = {"the last value again": measure(list(steps))}
    if season <= windows.first:
        name = f"the value {season} rows before"
        known[name] = measure([-(-step // season) * season for step in steps])
    return known
