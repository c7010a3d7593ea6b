"""The rows of tables that `zoo predict` asks about."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from zoo.cli.answers import OF_A_BOX
from zoo.data.columns import firsts, input_of
from zoo.data.splits import Column
from zoo.data.table import place_of, read_tables
from zoo.errors import UserError, seen
from zoo.inputs.names import listed

ANSWERS = (
    "label", "labels", "probability", "probabilities", "numbers", "times", "mask", "shares",
    "boxes", "error",
)  # fmt: skip


class Input(NamedTuple):
    """The column of a table's samples: as asked for, else the run's own where a table has that."""

    asked: str | None = None
    of_run: str | None = None
    boxes: bool = False
    """Whether boxes are told, so that a picture may have a row for each of them."""

    def among(self, names: Sequence[str]) -> str | None:
        """The one for a table with these columns; None where it is to be recognised."""
        return self.of_run if self.asked is None and self.of_run in names else self.asked


class Sample(NamedTuple):
    """What stands in front of an answer in its row, and what is asked about."""

    row: dict[str, Any]
    source: Any
    name: str = ""
    """Of a picture that is written of it."""


def many(kind: str) -> str:
    """ "picture" -> "pictures"; "series" is both."""
    return kind if kind.endswith("s") else f"{kind}s"


def table_samples(path: Path, kind: str, column: Input) -> Iterable[Sample]:
    """The rows of all splits of a source, with the sample in one column; for series, the whole
    table is one. Files that cells name lie where training looks for them.

    The column is that of the run, or recognised as in training. All columns stand in front of the
    answer, the samples' own too where it is text; a name that answers have themselves gets
    `given_` in front. A picture that has a row for each of its boxes is asked about once, and the
    columns that differ between its rows are left out.
    """
    tables: Any = read_tables(path, "zoo predict")
    if kind == "series":
        return [Sample({"file": str(path)}, next(iter(tables.values())))]
    notes, rows, counts = [], [], []
    for split, table in tables.items():
        name, note = input_of(table, kind, column.among(table.column_names), path, "--input")
        cells = Column.of(table, name, None if kind == "text" else place_of(path, split))
        notes += [note] if note else []
        kept = table.column_names
        first = firsts(table, name) if column.boxes else []
        if len({*first}) < len(first):
            cells = cells.pick(dict.fromkeys(first))
            kept = [n for n in kept if n == name or same_within(table, n, first)]
            lost = [n for n in table.column_names if n not in kept]
            more = f"; left out {listed(lost, 8)}, which differ" if lost else ""
            notes.append(
                f"{len(first)} rows are of {len(cells)} pictures, each answered once{more}"
            )
        taken = (*ANSWERS, *OF_A_BOX) if column.boxes else ANSWERS
        names = {n: f"given_{n}" if n in taken else n for n in kept}
        rows.append(rows_of(table, cells, names))
        counts.append(f"{split} ({len(cells)})")
    if len(rows) > 1:
        notes.append(f"{many(kind)} of {', then of '.join(counts)}")
    for note in dict.fromkeys(notes):
        print(seen(f"{path}: {note}"), file=sys.stderr)
    return chain.from_iterable(rows)


def same_within(table: Any, column: str, first: Sequence[int]) -> bool:
    """Whether a column says the same in each row as in the `first` one of the same sample."""
    known: dict[int, Any] = {}
    cells = (record[column] for record in table.select_columns([column]))
    return all(known.setdefault(i, cell) == cell for i, cell in zip(first, cells, strict=True))


def rows_of(table: Any, cells: Column, names: Mapping[str, str]) -> Iterator[Sample]:
    """The rows of a table whose cells are asked about, with the columns that have `names`, and the
    sample of each, one after the other; what is written of one is named after its file, else by
    its number."""
    for i, sample in zip(cells.order, cells, strict=True):
        given: dict[str, Any] = table[i]
        cell = given[cells.name]
        file = cell.get("path") if isinstance(cell, dict) else cell
        name = Path(file).stem if isinstance(file, str) else ""
        shown = [n for n in names if n != cells.name or isinstance(cell, str | None)]
        if sample is None and cells.folder is not None:
            sample = UserError(f"row {i + 1}: its cell in the column {cells.name!r} is empty")
        yield Sample({names[n]: given[n] for n in shown}, sample, name or f"row_{i + 1}")
