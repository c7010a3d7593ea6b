"""Times of a table: read, checked, shown and carried on, whatever they are written as."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from zoo.errors import UserError
from zoo.inputs.names import listed

CLOCK = re.compile(r"\s*T?\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([ap]\.?m\.?)?\s*$", re.IGNORECASE)
OFFSET = re.compile(
    r"(T\d{2}(:?\d{2}){0,2}| \d{1,2}:\d{2}(:\d{2})?)([.,]\d+)?\s*"
    r"(?P<zone>Z|UTC|GMT|[+-][01]\d(:?\d{2})?)$",
    re.IGNORECASE,
)

COMMA = re.compile(r"\s*[+-]?\d[\d.]*,\d+([eE][+-]?\d+)?\s*")  # 1,51 and 1.234,5

OFTEN = 10  # one time in so many that is there again is no slip


class EitherWayError(UserError):
    """Dates of which each may be read with the day first or the month first."""


def floats(cells: Any) -> np.ndarray:
    """A pandas series -> (T,) float64, NaN for what is no number."""
    import pandas

    numbers: Any = pandas.to_numeric(cells, errors="coerce")
    return numbers.to_numpy(dtype=np.float64)


def with_point(cells: Sequence[Any]) -> str:
    """How to write the first cell that is a number with a decimal comma, in a sentence; "" where
    none is."""
    first = next((c.strip() for c in cells if isinstance(c, str) and COMMA.fullmatch(c)), "")
    return first and f"write {first.replace('.', '').replace(',', '.')}, not {first}"


def moments_of(cells: Sequence[Any], where: str) -> np.ndarray:
    """A column of dates (days as 20200131 too) -> (T,) datetime64, UTC; of numbers -> (T,) float64.

    Dates are ISO 8601, else as the first is written. UserError that names the rows of others, of
    times without a day, and (EitherWayError) where month and day may be either.
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
        raise EitherWayError(
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
        one = "delete one of each"
        if OFTEN * len(doubled) >= len(moments):  # more than a slip: of two shops, say
            one = "if it holds several series, give each a table of its own, else " + one
        raise UserError(f"a series takes each time once; {where} has {len(doubled)} again "
                        f"({pairs}): {one}")  # fmt: skip
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
