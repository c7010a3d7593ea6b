"""Which rows of a table are train, val and test: by label, by group or by time."""

from typing import Any

import numpy as np

from zoo.data.columns import cells_of, check_column
from zoo.data.series import date_of
from zoo.data.splits import Rows, draw, draw_groups
from zoo.errors import UserError
from zoo.inputs import clean_label
from zoo.inputs.names import listed
from zoo.inputs.times import moments_of, shown, zone_of

NONE = "(rows without a group)"


def divide(
    train: Rows, share: float | str, seed: int, split: str, config: Any, what: str
) -> tuple[Rows, Rows, str]:
    """Rows of train, a share or a date -> (rows of the split, those that stay, the note on how).
    `what` they are in words, such as pictures."""
    if config.time is not None:
        moments, zone = moments_in(train, config.time)
        if isinstance(share, str):
            drawn = np.flatnonzero(moments >= date_of(share, split, moments, zone)).tolist()
        else:
            drawn = latest(moments, share)
        from_ = shown(moments[drawn].min(), zone) if drawn else "nowhere"
        how = f"what is from {from_} on, by {config.time}"
    elif isinstance(share, str):
        raise UserError(f"data.{split} takes a date with --data.time COLUMN; got {share}")
    elif config.group is not None:
        groups = groups_in(train, config.group)
        drawn = draw_groups(groups, share, seed, split)
        names = sorted({groups[i] for i in drawn})
        how = f"whole groups by {config.group}: {listed(names)}, drawn with seed {seed}"
    elif isinstance(train.targets[0], tuple) or train.classes < 2:  # no label to keep shares of
        drawn, how = draw([0] * len(train), share, seed, split), f"drawn with seed {seed}"
    else:
        drawn = draw(train.targets, share, seed, split)
        how = f"stratified, drawn with seed {seed}"
    if not drawn or len(drawn) == len(train):
        raise UserError(f"data.{split} takes a share of train; {share} of {len(train)} {what} "
                        f"leaves one side empty: {why_empty(train, config, what)}")  # fmt: skip
    rest = sorted({*range(len(train))} - {*drawn})
    if isinstance(share, float) and round(share * len(train)) in (0, len(train)):
        how += ", which is as near as it gets with both sides filled"
    said = f"{split} is {len(drawn)} of the {len(train)} {what} of train ({share}), {how}"
    return train.pick(drawn), train.pick(rest), said


def why_empty(train: Rows, config: Any, what: str) -> str:
    """What to do where a share of train cannot be drawn."""
    if config.time is not None:
        moments, zone = moments_in(train, config.time)
        first, last = shown(moments.min(), zone), shown(moments.max(), zone)
        return f"dates run from {first} to {last}: give another date, or a table"
    if config.group is not None:
        return "give --data.group a column of several groups, or a table of its own"
    own = isinstance(train.targets[0], int) and train.classes > 1
    if own and len({*train.targets}) == len(train):
        return ("each has a label of its own, so give --data.task numbers if they are numbers, "
                "or --data.label COLUMN for another column")  # fmt: skip
    return f"add {what}, or give a source of its own"


def groups_in(rows: Rows, column: str) -> list[str]:
    """The group of each row, as labels are written; rows without one, of which nothing is known,
    are one group together. UserError where the table has no such column."""
    return [clean_label(cell) or NONE for cell in group_cells(rows, column)]


def group_cells(rows: Rows, column: str) -> list[str]:
    """The same as they stand in the table."""
    items = with_table(rows, column, "data.group")
    cells = cells_of(items.table, column)
    return [cells[i] for i in items.order]


def with_table(rows: Rows, column: str, key: str) -> Any:
    """The samples of a table that has the column. UserError where it has none, and for a folder."""
    items: Any = rows.items
    if not hasattr(items, "table"):
        raise UserError(f"{key} takes a column of a table; {rows.root} is a folder: drop it")
    check_column(items.table.column_names, column, rows.root, key)
    return items


def moments_in(rows: Rows, column: str) -> tuple[Any, str]:
    """The moment of each row, an array in UTC, and the zone that they are written in. UserError
    where the table has no such column."""
    items = with_table(rows, column, "data.time")
    # all of them at once: few may not say which is the month
    cells = items.table[column][:]
    moments = moments_of(cells, f"{column!r} of {rows.root}")[list(items.order)]
    return moments, zone_of(cells)


def latest(moments: Any, share: float) -> list[int]:
    """About a share of the rows, the latest: all those of a moment, or none; and never all."""
    found, starts = np.unique(np.sort(moments), return_index=True)
    wanted = (1 - share) * len(moments)
    first = min(range(1, len(found)), key=lambda i: abs(starts[i] - wanted), default=len(found))
    return np.flatnonzero(moments >= found[first]).tolist() if first < len(found) else []


def check_sides(data: dict[str, Rows], config: Any) -> list[str]:
    """UserError where a group is in two splits, or a split begins before the one before has
    ended, since what a model was chosen or tested by would then be known to it.

    -> notes on groups that are not written alike, or not at all.
    """
    given = [(split, data[split]) for split in ("train", "val", "test") if split in data]
    for i, (split, rows) in enumerate(given):
        for before, earlier in given[:i]:
            if config.group is not None:
                shared = {*groups_in(rows, config.group)} & {*groups_in(earlier, config.group)}
                if shared:
                    wants = "data.group takes groups that are on one side"
                    got = f"{split} and {before} share {listed(sorted(shared))}"
                    raise UserError(f"{wants}; {got}: move them, or let --data.{split} be a share")
            if config.time is not None:
                (ends, there), (starts, here) = (
                    moments_in(part, config.time) for part in (earlier, rows)
                )
                end, start = ends.max(), starts.min()
                if start.dtype.kind != end.dtype.kind:
                    wants = "data.time takes dates in each split, or numbers in each"
                    got = f"{config.time!r} has {end} in {before} and {start} in {split}"
                    raise UserError(f"{wants}; {got}")
                if start <= end:
                    wants = f"data.time takes a {split} that begins after {before} has ended"
                    got = f"{shown(start, here)} is not after {shown(end, there)}"
                    raise UserError(f"{wants}; {got}: divide anew")
    if config.group is None:
        return []
    cells = [cell for rows in data.values() for cell in group_cells(rows, config.group)]
    blank = sum(cell != clean_label(cell) for cell in cells if cell.strip())
    empty = sum(not cell.strip() for cell in cells)
    notes = [f"blanks around groups do not count: {blank} have some"] if blank else []
    more = "they stay on one side together"
    return notes + ([f"{empty} rows have no {config.group}: {more}"] if empty else [])
