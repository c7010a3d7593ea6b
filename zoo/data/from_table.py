"""A table of texts, pictures or sounds -> Splits. All that can be wrong is said here."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zoo.data.check import duplicate_notes, look_all, look_at, picture_notes, report_unreadable
from zoo.data.columns import (
    Columns,
    cells_of,
    check_beside,
    check_column,
    is_missing,
    is_number,
    lists,
    number_in,
    recognise,
    split_here,
    splits_told,
)
from zoo.data.divide import check_sides, divide
from zoo.data.folder import share_or_path
from zoo.data.splits import (
    Column,
    Rows,
    Splits,
    check_spread,
    fingerprint,
    histogram,
    lacks,
    scale_of,
)
from zoo.data.table import doubtful, place_of, read_tables
from zoo.errors import UserError, suggest
from zoo.inputs import clean_label, label_index, order_labels
from zoo.inputs.names import listed
from zoo.inputs.times import COMMA, with_point

# Whole numbers may be classes or amounts (ages, prices): it is asked which where there are more
# than MANY kinds; more than FEW that do not count from 0 or 1 without a gap, as numbers of classes
# do, or have fewer than ROWS rows each; or fewer that do not and hardly come twice.
MANY, FEW, ROWS = 100, 20, 5


def table_splits(config: Any, seed: int, kind: str) -> Splits:
    """`config.train`, a table or several by split, whose samples are "text", "picture" or "sound".

    `config.val` and `config.test` are a table of their own, a share of train (test drawn before
    val), with `config.time` a date from which on rows are theirs, or None. A share is stratified by
    label; with `config.group`, no value of that column is on two sides; with `config.time`, the
    latest rows are test, those before them val, and no moment is on two sides. Tables of their own
    must keep to both.
    `config.task`: see `Splits.target`; None lets the labels decide. UserError for whatever cannot
    be trained on.
    """
    tables = read_tables(config.train, "data.train")
    if "train" not in tables:
        raise UserError(f"data.train takes a source with a train split; {config.train} has none")
    roots = {split: place_of(config.train, split) for split in tables}
    sides, told = [], []
    if len(tables) == 1:
        sides, told = splits_told(tables["train"], roots["train"], config.split)
    shares: dict[str, float | str] = {}
    for split in ("test", "val"):
        given = share_or_path(getattr(config, split), f"data.{split}")
        if isinstance(given, Path) and config.time is not None and not given.exists():
            shares[split] = str(given)
        elif isinstance(given, Path):
            check_beside(split, sides, roots["train"])
            tables[split] = first_of(given, split, f"data.{split}")
            roots[split] = place_of(given, split)
        elif given is not None and split not in (*tables, *sides):
            shares[split] = given
    columns = recognise(tables["train"], kind, config, roots["train"])
    cells = cells_of(tables["train"], columns.label)
    task, why = task_of(cells, config.task or lists(tables["train"], columns.label), roots["train"])
    if sides:
        cells = [cell for cell, side in zip(cells, sides, strict=True) if side == "train"]
    labels = labels_in(cells, task, columns.label, roots["train"])
    notes = [*columns.notes, why, *told]
    blank = sum(cell != clean_label(cell) for cell in cells)
    if blank and task != "numbers":
        what = "blanks around labels do not count, nor do characters that nobody sees"
        notes.append(f"{what}: {blank} of train have some")
    if task != "numbers" and (words := [label for label in labels if is_missing(label)]):
        hint = "empty the cells where that stands for no label"
        notes.append(f"{listed(words)} is taken for a class: {hint}")
    data, skipped = {}, []
    for split in (s for s in ("train", "val", "test") if s in tables):
        data[split], bad, more = rows_of(
            tables[split], roots[split], columns, labels, task, kind, config.on_bad
        )
        skipped += bad
        notes += more
        notes += doubtful(tables[split], roots[split], split)
    if sides:
        data = apart(data.pop("train"), sides) | data
    for key in ("group", "time"):
        if getattr(config, key) is not None:
            names, name = tables["train"].column_names, getattr(config, key)
            check_column(names, name, roots["train"], f"data.{key}")
    for split, share in shares.items():
        data[split], data["train"], note = divide(
            data["train"], share, seed, split, config, f"{kind}s"
        )
        notes.append(note)
    notes += check_sides(data, config)
    return finish(labels, data, task, notes, skipped, kind, config.group is not None)


def table_held_out(config: Any, labels: Sequence[str], kind: str) -> Splits:
    """The table `config.test` alone, under the labels of a model -> Splits with `test`."""
    table = first_of(config.test, "test", "data.test")
    given = place_of(config.test, "test")
    sides, told = splits_told(table, given, split_here(config.split, table.column_names))
    columns = recognise(table, kind, config, given)
    task, _ = task_of(
        cells_of(table, columns.label), config.task or lists(table, columns.label), given
    )
    rows, bad, more = rows_of(table, given, columns, tuple(labels), task, kind, config.on_bad)
    if sides:
        each = apart(rows, sides)
        rows = each.get("test") or each["val"]
    return finish(tuple(labels), {"test": rows}, task, [*columns.notes, *told, *more], bad, kind)


def apart(rows: Rows, sides: Sequence[str]) -> dict[str, Rows]:
    """The rows of a table, the split of each row of that table -> the rows of each split. UserError
    for one of which all rows were left out."""
    order = rows.items.order  # type: ignore[attr-defined]  # they are a Column
    found = {
        split: rows.pick(i for i, row in enumerate(order) if sides[row] == split)
        for split in ("train", "val", "test")
    }
    if lost := [split for split, part in found.items() if split in sides and not part]:
        wants = "data takes rows that can be read in each split"
        raise UserError(f"{wants}; those of {listed(lost)} in {rows.root} are all left out")
    return {split: part for split, part in found.items() if split in sides}


def first_of(path: Any, split: str, key: str) -> Any:
    """The table of a split in a source, or its only one."""
    tables = read_tables(path, key)
    return tables.get(split) or next(iter(tables.values()))


def task_of(cells: Sequence[str], given: str | None, where: Any) -> tuple[str, str]:
    """Labels as they are written, what the config says -> a task, and the note on it."""
    some = [cell for cell in cells if cell]
    if given is not None:
        return given, f"task: {given} (--data.task)"
    if any("|" in cell for cell in some):
        return "labels", "task: several labels each, since there are | among them (--data.task)"
    if some and all(is_number(cell) for cell in some):
        whole = all(float(cell).is_integer() for cell in some)
        if not whole:
            return "numbers", "task: numbers, since labels are fractions (--data.task)"
        values = {float(cell) for cell in some}
        kinds, least, most = len(values), min(values), max(values)
        if amounts(kinds, least, most, len(some)):
            raise UserError(
                "data takes labels that are classes or numbers; the whole numbers in "
                f"{where}, {kinds} different ones from {least:.15g} to {most:.15g} in {len(some)} "
                "rows, may be both: give --data.task label or numbers"
            )
        why = f"since there are {kinds} whole numbers, from {least:.15g} to {most:.15g}"
        return "label", f"task: one label each, {why} (--data.task)"
    if (hint := with_point(some)) and all(is_number(c) or COMMA.fullmatch(c) for c in some):
        raise UserError(
            f"data takes labels that are classes or numbers; those in {where} are numbers with a "
            f"decimal comma: {hint}, or give --data.task label if they are names of classes"
        )
    return "label", "task: one label each, since they are words (--data.task)"


def amounts(kinds: int, least: float, most: float, rows: int) -> bool:
    """Whether so many whole numbers, the least, the most, in so many rows may be amounts as well as
    classes, see `MANY`."""
    in_turn = least in (0, 1) and most - least == kinds - 1
    if kinds <= FEW:
        return kinds > 2 and not in_turn and rows < 2 * kinds
    return kinds > MANY or not in_turn or rows < ROWS * kinds


def labels_in(cells: Sequence[str], task: str, column: str, where: Any) -> tuple[str, ...]:
    """The labels of train, in the order of their numbers; for numbers, the column's name."""
    if task == "numbers":
        return (column,)
    words = (word for cell in cells for word in (cell.split("|") if task == "labels" else [cell]))
    labels = order_labels(word for word in words if clean_label(word))
    if len(labels) < 2 and (task == "label" or not labels or all(map(clean_label, cells))):
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
) -> tuple[Rows, list[str], list[str]]:
    """A split's table -> its rows, a line for each that was left out, and notes on what the files
    of pictures were."""
    for name in (columns.input, columns.label):
        if name not in table.column_names:
            hint = suggest(name, table.column_names)
            raise UserError(f"data takes the columns of train; {root} has no {name!r}{hint}")
    cells = cells_of(table, columns.label)
    what = "number" if task == "numbers" else "label"
    raw = [c if isinstance(c, str) and c.strip() else "" for c in table[columns.label][:]]
    empty = {
        i: f"row {i + 1}{f': {raw[i]!r}' if raw[i] else ''}"
        for i, cell in enumerate(cells)
        if task != "labels"
        and not (math.isfinite(number_in(cell)) if what == "number" else clean_label(cell))
    }
    if empty and on_bad != "skip":
        told = listed(empty.values())
        hint = (what == "number" and with_point([raw[i] for i in empty])) or "fill or delete them"
        raise UserError(
            f"data takes a {what} for each row; {len(empty)} of {root} have none ({told}): "
            f"{hint}, or leave them out with --data.on_bad skip"
        )
    every = Column.of(table, columns.input, None if kind == "text" else root)
    looks = look_all(every, look_at(kind), f"{kind}s")
    seen = {f"{root.name} {every.name_of(i)}": look for i, look in enumerate(looks)}
    bad = list(report_unreadable(seen, on_bad, f"{kind}s"))
    good = [i for i, look in enumerate(looks) if not look.reason and i not in empty]
    if not good:
        raise UserError(f"data takes rows that can be read; all of {root} are left out")
    numbers = numbered(labels, task, str(root))
    rows = Rows(
        root,
        every.pick(good),
        tuple(numbers(cells[i]) for i in good),
        len(labels),
        tuple(looks[i].length for i in good),
        tuple(looks[i].values for i in good),
        tuple(looks[i].digest for i in good),
    )
    notes = picture_notes([looks[i].marks for i in good], rows.name) if kind == "picture" else []
    return rows, [*bad, *empty.values()], notes


def numbered(labels: tuple[str, ...], task: str, where: str) -> Callable[[str], Any]:
    """-> what makes a target of a cell: a class, a tuple of 0 and 1, or of numbers."""

    def target(cell: str) -> Any:
        if task == "label":
            return known[cell] if cell in known else label_index(cell, labels, where)
        if task == "labels":
            words = [word for word in cell.split("|") if clean_label(word)]
            have = {label_index(word, labels, where) for word in words}
            return tuple(int(i in have) for i in range(len(labels)))
        return (float(cell),)

    known = {label: i for i, label in enumerate(labels)}
    return target


def finish(
    labels: tuple[str, ...],
    rows: dict[str, Rows],
    task: str,
    notes: list[str],
    skipped: list[str],
    kind: str,
    grouped: bool = False,
) -> Splits:
    """With the notes on what each split holds. UserError for numbers as in `check_spread`."""
    if task == "numbers" and "train" in rows:
        check_spread(labels[0], {split: part.spreads()[0] for split, part in rows.items()})
    data = {split: rows[split] for split in ("train", "val", "test") if split in rows}
    for split, part in data.items():
        notes.append(f"{split}: {len(part)} {kind}s in {part.root}")
        counts = part.counts()
        absent = [name for name, count in zip(labels, counts, strict=True) if not count]
        if absent and task != "numbers":
            notes.append(lacks(split, kind, absent))
    notes += histogram(labels, data.get("train"))
    if skipped:
        notes.append(f"left out {len(skipped)} rows: {listed(skipped)}")
    return Splits(
        labels,
        data.get("train"),
        data.get("val"),
        data.get("test"),
        fingerprint(labels, data),
        task,
        (*notes, *duplicate_notes(data, f"{kind}s", grouped)),
        tuple(skipped),
        scale_of(data.get("train")) if task == "numbers" else None,
    )
