"""A table of texts, pictures or sounds -> Splits. All that can be wrong is said here."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data.check import duplicate_notes, look_all, look_at, report_unreadable
from zoo.data.columns import LOOKED_AT, Columns, check_column, is_number, recognise
from zoo.data.folder import share_or_path
from zoo.data.splits import Column, Rows, Splits, draw, draw_groups, fingerprint, scale_of
from zoo.data.table import doubtful, place_of, read_tables
from zoo.errors import UserError, suggest
from zoo.inputs import clean_label, label_index, order_labels
from zoo.inputs.names import listed
from zoo.inputs.series import moments_of

MANY = 100  # whole numbers of more kinds than this may be amounts: it is asked which


def table_splits(config: Any, seed: int, kind: str) -> Splits:
    """`config.train`, a table or several by split, whose samples are "text", "picture" or "sound".

    `config.val` and `config.test` are a table of their own, a share of train (test drawn before
    val), or None. A share is stratified by label; with `config.group`, no value of that column is
    on two sides; with `config.time`, the latest rows are test, those before them val, and no moment
    is on two sides. Tables of their own must keep to both.
    `config.task`: see `Splits.target`; None lets the labels decide. UserError for whatever cannot
    be trained on.
    """
    tables = read_tables(config.train, "data.train")
    if "train" not in tables:
        raise UserError(f"data.train takes a source with a train split; {config.train} has none")
    roots = {split: place_of(config.train, split) for split in tables}
    shares: dict[str, float] = {}
    for split in ("test", "val"):
        given = share_or_path(getattr(config, split), f"data.{split}")
        if isinstance(given, Path):
            tables[split] = first_of(given, split, f"data.{split}")
            roots[split] = place_of(given, split)
        elif given is not None and split not in tables:
            shares[split] = given
    columns = recognise(tables["train"], kind, config, roots["train"])
    cells = _cells(tables["train"], columns.label)
    task, why = task_of(cells, config.task or lists(tables["train"], columns.label), roots["train"])
    labels = labels_in(cells, task, columns.label, roots["train"])
    notes = [*columns.notes, why]
    blank = sum(cell != cell.strip() for cell in cells)
    if blank and task != "numbers":
        notes.append(f"blanks around labels do not count: {blank} of train have some")
    data, skipped = {}, []
    for split in (s for s in ("train", "val", "test") if s in tables):
        data[split], bad = rows_of(
            tables[split], roots[split], columns, labels, task, kind, config.on_bad
        )
        skipped += bad
        notes += doubtful(tables[split], roots[split], split)
    if config.group is not None and config.time is not None:
        raise UserError("data takes a column of groups or of dates, not both: drop --data.group "
                        "or --data.time")  # fmt: skip
    for split, share in shares.items():
        data[split], data["train"], note = divide(data["train"], share, seed, split, config)
        notes.append(note)
    check_sides(data, config)
    return finish(labels, data, task, notes, skipped, kind)


def table_held_out(config: Any, labels: Sequence[str], kind: str) -> Splits:
    """The table `config.test` alone, under the labels of a model -> Splits with `test`."""
    table = first_of(config.test, "test", "data.test")
    given = place_of(config.test, "test")
    columns = recognise(table, kind, config, given)
    task, _ = task_of(
        _cells(table, columns.label), config.task or lists(table, columns.label), given
    )
    rows, bad = rows_of(table, given, columns, tuple(labels), task, kind, config.on_bad)
    return finish(tuple(labels), {"test": rows}, task, list(columns.notes), bad, kind)


def first_of(path: Any, split: str, key: str) -> Any:
    """The table of a split in a source, or its only one."""
    tables = read_tables(path, key)
    return tables.get(split) or next(iter(tables.values()))


def task_of(cells: Sequence[str], given: str | None, where: Any) -> tuple[str, str]:
    """Labels as they are written, what the config says -> a task, and the note on it."""
    some = [cell for cell in cells if cell]
    if given is not None:
        return given, f"task: {given}, as asked for, or since each has a list (--data.task)"
    if any("|" in cell for cell in some):
        return "labels", "task: several labels each, since there are | among them (--data.task)"
    if some and all(is_number(cell) for cell in some):
        whole = all(float(cell).is_integer() for cell in some)
        if not whole:
            return "numbers", "task: numbers, since labels are fractions (--data.task)"
        if len({*some}) > MANY:
            raise UserError(
                f"data takes labels that are classes or numbers; the whole numbers in {where}, "
                f"{len({*some})} different, may be both: give --data.task label or numbers"
            )
    return "label", "task: one label each (--data.task)"


def labels_in(cells: Sequence[str], task: str, column: str, where: Any) -> tuple[str, ...]:
    """The labels of train, in the order of their numbers; for numbers, the column's name."""
    if task == "numbers":
        return (column,)
    words = (word for cell in cells for word in (cell.split("|") if task == "labels" else [cell]))
    labels = order_labels(word for word in words if clean_label(word))
    if len(labels) < 2 and task == "label":
        only = f"all are {labels[0]!r}" if labels else "all are empty"
        raise UserError(f"data.train takes labels of two classes or more; in {where} {only}")
    return labels


def rows_of(
    table: Any,
    root: Path,
    columns: Columns,
    labels: tuple[str, ...],
    task: str,
    kind: str,
    on_bad: str,
) -> tuple[Rows, list[str]]:
    """A split's table -> its rows, and a line for each that was left out."""
    for name in (columns.input, columns.label):
        if name not in table.column_names:
            hint = suggest(name, table.column_names)
            raise UserError(f"data takes the columns of train; {root} has no {name!r}{hint}")
    cells = _cells(table, columns.label)
    empty = [f"row {i + 1}" for i, cell in enumerate(cells) if not clean_label(cell)]
    if empty and on_bad != "skip" and task != "labels":
        raise UserError(
            f"data takes a label for each row; {len(empty)} of {root} have none ({listed(empty)}): "
            "fill or delete them, or leave them out with --data.on_bad skip"
        )
    folder = None if kind == "text" else (root if root.is_dir() else root.parent)
    every = Column(table, columns.input, tuple(range(len(table))), folder)
    looks = look_all(every, look_at(kind), f"{kind}s")
    seen = {f"{root.name} {every.name_of(i)}": look for i, look in enumerate(looks)}
    bad = list(report_unreadable(seen, on_bad, f"{kind}s"))
    good = [
        i
        for i, look in enumerate(looks)
        if not look.reason and (task == "labels" or clean_label(cells[i]))
    ]
    if not good:
        raise UserError(f"data takes rows that can be read; all of {root} are left out")
    numbers = numbered(labels, task, str(root))
    return Rows(
        root,
        every.pick(good),
        tuple(numbers(cells[i], i) for i in good),
        len(labels),
        tuple(looks[i].length for i in good),
        tuple(looks[i].values for i in good),
        tuple(looks[i].digest for i in good),
    ), bad + (empty if task != "labels" else [])


def numbered(labels: tuple[str, ...], task: str, where: str) -> Callable[[str, int], Any]:
    """-> what makes a target of a cell and its row: a class, a tuple of 0 and 1, or of numbers."""

    def target(cell: str, row: int) -> Any:
        if task == "label":
            return known[cell] if cell in known else label_index(cell, labels, where)
        if task == "labels":
            words = [word for word in cell.split("|") if clean_label(word)]
            have = {label_index(word, labels, where) for word in words}
            return tuple(int(i in have) for i in range(len(labels)))
        if not is_number(cell) or not math.isfinite(float(cell)):
            raise UserError(f"data takes numbers; row {row + 1} of {where} has {cell!r}")
        return (float(cell),)

    known = {label: i for i, label in enumerate(labels)}
    return target


def divide(train: Rows, share: float, seed: int, split: str, config: Any) -> tuple[Rows, Rows, str]:
    """Rows of train -> (those of the split, those that stay, the note on how)."""
    how = f"{split} is {share:g} of train, "
    if config.time is not None:
        drawn, how = latest(moments_in(train, config.time), share), how + "the latest by time"
    elif config.group is not None:
        groups = groups_in(train, config.group)
        drawn = draw_groups(groups, share, seed, split)
        names = sorted({groups[i] for i in drawn})
        how += f"whole groups by {config.group}: {listed(names)}, drawn with seed {seed}"
    elif isinstance(train.targets[0], tuple):
        drawn, how = draw([0] * len(train), share, seed, split), how + f"drawn with seed {seed}"
    else:
        drawn = draw(train.targets, share, seed, split)
        how += f"stratified, drawn with seed {seed}"
    if not drawn or len(drawn) == len(train):
        raise UserError(f"data.{split} takes a share of train; {share:g} of {len(train)} rows "
                        "leaves one side empty: add rows, or give a table")  # fmt: skip
    rest = sorted({*range(len(train))} - {*drawn})
    return train.pick(drawn), train.pick(rest), how


def groups_in(rows: Rows, column: str) -> list[str]:
    """The group of each row. UserError where the table has no such column."""
    items: Any = rows.items
    check_column(items.table.column_names, column, rows.root, "data.group")
    cells = _cells(items.table, column)
    return [cells[i] for i in items.order]


def moments_in(rows: Rows, column: str) -> Any:
    """The moment of each row, an array. UserError where the table has no such column."""
    items: Any = rows.items
    check_column(items.table.column_names, column, rows.root, "data.time")
    # all of them at once: few may not say which is the month
    return moments_of(items.table[column][:], f"{column!r} of {rows.root}")[list(items.order)]


def latest(moments: Any, share: float) -> list[int]:
    """About a share of the rows, the latest: all those of a moment, or none; and never all."""
    found, starts = np.unique(np.sort(moments), return_index=True)
    wanted = (1 - share) * len(moments)
    first = min(range(1, len(found)), key=lambda i: abs(starts[i] - wanted), default=len(found))
    return np.flatnonzero(moments >= found[first]).tolist() if first < len(found) else []


def check_sides(data: dict[str, Rows], config: Any) -> None:
    """UserError where a group is in two splits, or a split begins before the one before has
    ended, since what a model was chosen or tested by would then be known to it."""
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
                end, start = (
                    moments_in(earlier, config.time).max(),
                    moments_in(rows, config.time).min(),
                )
                if start.dtype.kind != end.dtype.kind:
                    wants = (
                        f"data.time takes dates in each split, or numbers in each; {config.time!r}"
                    )
                    raise UserError(f"{wants} has {end} in {before} and {start} in {split}")
                if start <= end:
                    wants = f"data.time takes a {split} that begins after {before} has ended"
                    raise UserError(f"{wants}; {start} is not after {end}: divide anew")


def finish(
    labels: tuple[str, ...],
    rows: dict[str, Rows],
    task: str,
    notes: list[str],
    skipped: list[str],
    kind: str,
) -> Splits:
    """With the notes on what each split holds. UserError where train has one number alone."""
    if task == "numbers" and "train" in rows and len({*rows["train"].targets}) == 1:
        only = rows["train"].targets[0][0]
        raise UserError(f"data.train takes numbers that differ; those of {labels[0]} are {only:g}")
    data = {split: rows[split] for split in ("train", "val", "test") if split in rows}
    for split, part in data.items():
        notes.append(f"{split}: {len(part)} {kind}s in {part.root}")
        counts = part.counts()
        absent = [name for name, count in zip(labels, counts, strict=True) if not count]
        if absent and task != "numbers":
            notes.append(f"{split} has no {kind} of {listed(absent)}")
    if skipped:
        notes.append(f"left out {len(skipped)} rows: {listed(skipped)}")
    return Splits(
        labels,
        data.get("train"),
        data.get("val"),
        data.get("test"),
        fingerprint(labels, data),
        task,
        (*notes, *duplicate_notes(data, f"{kind}s")),
        tuple(skipped),
        scale_of(data.get("train")) if task == "numbers" else None,
    )


def _cells(table: Any, column: str) -> list[str]:
    """A column as it is written: whole floats without their .0, missing ones empty, numbers that
    stand for names (`datasets.ClassLabel`) as those, lists with | between."""
    names = getattr(table.features.get(column), "names", None)
    names = names or getattr(getattr(table.features.get(column), "feature", None), "names", None)

    def written(cell: Any) -> str:
        if isinstance(cell, (list, tuple)):
            return "|".join(map(written, cell))
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            return ""
        if names is not None:
            return names[cell] if cell >= 0 else ""  # -1 where a set hides its labels
        return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)

    return [written(cell) for cell in table[column][:]]


def lists(table: Any, column: str) -> str | None:
    """The task "labels" where a column holds lists, else None."""
    cells = (cell for cell in table[column][:LOOKED_AT] if cell is not None)
    return "labels" if isinstance(next(cells, None), (list, tuple)) else None
