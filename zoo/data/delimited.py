"""CSV and TSV files as text: their header, and which row is wrong and why."""

import contextlib
import csv
import itertools
import json
from pathlib import Path

from zoo.errors import UserError
from zoo.inputs.names import listed

AS_UTF8 = 'save it as such, which Excel calls "CSV UTF-8"'


def head_of(file: Path) -> tuple[str, list[str]]:
    """A CSV or TSV file -> what stands between its cells (`,`, or `;` or a tab where the header has
    no comma), and its columns, "" for those without a name that have no cell, as spreadsheets leave
    them, or a number of its own in each row, as data frames write their index. UserError for
    columns that cannot be told apart, for a first row that is longer than the header, and for what
    is no UTF-8."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as text:
            start, line = 0, text.readline()
            while line and not line.strip(" \r\n"):  # no row
                start, line = text.tell(), text.readline()
            others = [mark for mark in "\t;" if mark in line] if "," not in line else []
            separator = "\t" if file.suffix.lower() == ".tsv" else [*others, ","][0]
            text.seek(start)
            rows = csv.reader(text, delimiter=separator)
            header, first = next(rows, []), next(rows, [])
            bare = {i for i, name in enumerate(header) if not name.strip()}
            bare = bare if len(bare) < len(header) else set()
            numbers: dict[int, set[str]] = {i: set() for i in bare}
            for row in itertools.chain([first], rows) if bare else ():
                for i in bare if row else ():
                    cell = "".join(row[i : i + 1]).strip()
                    index = cell.isdecimal() and cell not in numbers[i]
                    bare = bare if index or not cell else bare - {i}
                    numbers[i].add(cell)
    except UnicodeDecodeError as error:
        raise UserError(f"a table is UTF-8 text; {file} is not: {AS_UTF8}") from error
    except csv.Error as error:
        raise UserError(f"a table is text in rows; {file} is not: {error}") from error
    if len(first) > len(header):
        got = f"{file} has {len(header)} in the header and {len(first)} in row 1"
        raise UserError(f"a table has as many cells in each row; {got}: name each column")
    header = ["" if i in bare else name for i, name in enumerate(header)]
    odd = sorted({name if name.strip() else "a column without a name"
                  for i, name in enumerate(header)
                  if i not in bare and (not name.strip() or header.count(name) > 1)})  # fmt: skip
    if odd:
        raise UserError(f"a table has each column once; {file} has {listed(odd)}: rename columns")
    return separator, header


def short_rows(file: Path) -> list[str]:
    """The rows of a CSV or TSV file that have fewer cells than its header, as "row 3 has 1 of 2";
    lines of blanks alone are no rows."""
    (separator, header), short, row = head_of(file), [], -1
    least = max(i for i, name in enumerate(header, 1) if name)
    with file.open(newline="", encoding="utf-8-sig") as text, contextlib.suppress(csv.Error):
        for cells in csv.reader(text, delimiter=separator):
            if not cells or (len(cells) == 1 and cells[0].isspace()):
                continue
            row += 1
            if len(cells) < least:
                short.append(f"row {row} has {len(cells)} of {len(header)}")
    return short


def fault_in_json(file: Path) -> str:
    """The first line of a file of JSON lines that is no JSON, and why; "" where that is not found,
    as for JSON of several lines."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                json.loads(line or b"null") if line.strip() else None
            except UnicodeDecodeError:
                return f"line {number} is no UTF-8: save it as such"
            except ValueError as error:
                return f"line {number} is no JSON ({error}): complete or delete it"
    return ""


def fault_in(file: Path) -> str:
    """What keeps a CSV or TSV file from being read, with its row; "" where that is not found."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return f"line {number} is no UTF-8: {AS_UTF8}"
    (separator, header), row = head_of(file), 0
    with file.open(newline="", encoding="utf-8-sig") as text:
        try:
            for cells in csv.reader(text, delimiter=separator, strict=True):
                if len(cells) > len(header):
                    got = f"row {row} has {len(cells)} cells, the header {len(header)}"
                    return f"{got}: put quotation marks around a cell that holds {separator!r}"
                row += 1
        except csv.Error as error:
            if "end of data" not in str(error):
                return f"row {row}: {error}"
            return f"a quotation mark opens a cell in row {row} and none closes it: double it"
    return ""
