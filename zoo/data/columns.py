"""Which column is what: recognised by name and content, said with the reason, and overridable."""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.data.layout import ENDINGS, SPLIT_NAMES
from zoo.errors import UserError, suggest
from zoo.inputs.names import listed

NAMES = {  # what columns are usually called, the surest first
    "text": ("text", "sentence", "message", "content", "review", "body", "document", "tweet"),
    "picture": ("image", "picture", "img", "file_name", "image_path", "path", "file", "filename"),
    "sound": ("audio", "sound", "file_name", "audio_path", "path", "file", "filename", "clip"),
    "mask": ("mask", "masks", "mask_path", "segmentation", "annotation", "label"),
    "boxes": ("boxes", "objects", "bboxes", "annotations"),
    "label": ("label_name", "label", "labels", "target", "class", "category", "y", "classes"),
    "split": ("split", "subset", "partition"),
}
PLURAL = {"mask": "masks", "boxes": "boxes", "label": "labels"}
SURE = {"image", "audio", "file_name", "label_name"}  # whatever other usual names there are
MISSING = ("nan", "na", "n/a", "none", "null")  # how a column of numbers says that there is none
LOOKED_AT = 200  # cells that tell what a column holds


@dataclass(frozen=True)
class Columns:
    """The columns that are used."""

    input: str
    label: str
    notes: tuple[str, ...]
    """Each choice, with its reason."""


def recognise(table: Any, kind: str, config: Any, where: Any) -> Columns:
    """A table, "text", "picture" or "sound", the data section of a config -> Columns.

    `config.input` and `config.label` name columns; None lets their names and contents decide.
    UserError where that is in doubt, or where there is no such column.
    """
    names, notes = table.column_names, []
    label = config.label
    if label is None:
        usual = usual_in(names, "label")
        others = [n for n in names if n != config.input and n not in usual_in(names, kind)]
        if not usual and len(names) == 2 and len(others) == 1:
            label = others[0]
            notes.append(f"labels are in the column {label!r}, the only other one (--data.label)")
        elif not usual:
            more = config.input is None and not usual_in(names, kind)
            also = f" and --data.input COLUMN (the {kind}s)" if more else ""
            raise UserError(
                f"data takes a column of labels; {where} has {listed(names)}, none of a usual "
                f"name ({', '.join(NAMES['label'])}): give --data.label COLUMN{also}"
            )
        else:
            label = surest(usual, "labels", where, "--data.label")
            notes.append(f"labels are in the column {label!r}, by its name (--data.label)")
    check_column(names, label, where, "data.label")
    if label == config.input:
        wants = "data.input and data.label take two columns"
        raise UserError(f"{wants}; both are {label!r}: give another --data.label or --data.input")
    if is_time(table, label):
        wants = f"--data.label takes a column of texts or numbers; {label!r} of {where} was read as"
        raise UserError(f"{wants} times: write the table as a CSV, where cells stay texts")
    given, note = input_of(table, kind, config.input, where, "--data.input", label)
    return Columns(given, label, (*notes, *([note] if note else [])))


def told_of(
    names: Sequence[str], kind: str, given: str | None, where: Path, wants: str
) -> tuple[str, list[str]]:
    """The column of what is told of pictures, masks, boxes or labels: the one that is given, or the
    one of a usual name, and the note on that. UserError, which begins with `wants`, for none."""
    if given is not None:
        check_column(names, given, where, "data.label")
        return given, []
    usual, what = usual_in(names, kind), PLURAL[kind]
    if not usual:
        raise UserError(f"{wants}; {where} has {listed(names)}: give --data.label COLUMN")
    name = surest(usual, what, where, "--data.label")
    return name, [f"{what} are in the column {name!r}, by its name (--data.label)"]


def input_of(
    table: Any, kind: str, given: str | None, where: Any, flag: str, label: str | None = None
) -> tuple[str, str]:
    """The column of samples, as given or recognised among all but that of labels, and why.

    `flag` is what gives it. UserError as in `recognise`.
    """
    names = table.column_names
    if given is None:
        fitting = [n for n in names if n != label and holds(table, n) == kind]
        usual = usual_in(fitting, kind)
        if kind == "text" and not usual:  # numbers that are written out, as in messages
            written = [n for n in names if n != label and holds(table, n) == "number"]
            usual = [n for n in usual_in(written, kind) if is_string(table, n)]
        if not usual and len(fitting) != 1:
            has = listed(fitting) if fitting else f"{listed(names)}, none of it {kind}s"
            times = [n for n in names if n != label and kind == "text" and is_time(table, n)]
            has += f" ({listed(times)} was read as times: in a CSV cells stay texts)" * bool(times)
            raise UserError(
                f"data takes a column of {kind}s; {where} has {has}: give {flag} COLUMN"
            )
        name = surest(usual, f"{kind}s", where, flag) if usual else fitting[0]
        why = "by its name" if usual else f"the only one of {kind}s"
        return name, f"{kind}s are in the column {name!r}, {why} ({flag})"
    check_column(names, given, where, flag.removeprefix("--"))
    if kind == "text" and is_time(table, given):
        wants = f"{flag} takes a column of texts; {given!r} of {where} was read as times"
        raise UserError(f"{wants}: write the table as a CSV, where cells stay texts")
    return given, ""


def is_string(table: Any, name: str) -> bool:
    """Whether the cells of a column are texts, as all of a CSV are."""
    return getattr(table.features[name], "dtype", "") == "string"


def is_time(table: Any, name: str) -> bool:
    """Whether a column was read as moments, as JSON's texts are where all of them look like it."""
    return getattr(table.features[name], "dtype", "").startswith(("timestamp", "date", "time"))


def surest(usual: Sequence[str], what: str, where: Any, flag: str) -> str:
    """The first of columns with usual names. UserError where another may be meant as well."""
    alike = len({name.lower().strip() for name in usual[:2]}) < len(usual[:2])
    if len(usual) > 1 and (alike or usual[0].lower().strip() not in SURE):
        wants = f"data takes one column of {what}; {where} has {listed(usual)}"
        raise UserError(f"{wants}: say which with {flag} COLUMN")
    return usual[0]


def check_column(names: Sequence[str], name: str, where: Any, key: str) -> None:
    """UserError for a column that is not there."""
    if name not in names:
        hint = suggest(name, names) or f"; there are {listed(names)}"
        raise UserError(f"{key} takes a column of {where}; got {name!r}{hint}")


def holds(table: Any, name: str) -> str:
    """What the first cells of a column are, most of them: "text", "picture", "sound", "number" or
    "". The few that are not will be told by their rows."""
    cells: Any = [c for c in table[:LOOKED_AT][name] if c not in (None, "")]
    if cells and all(isinstance(c, dict) and {"bytes", "path"} & c.keys() for c in cells):
        names = [str(c.get("path") or "") for c in cells]
        data = [c.get("bytes") for c in cells]
        cells = (
            names
            if all(Path(n).suffix for n in names)
            else [d or n for d, n in zip(data, names, strict=True)]
        )
    if cells and all(isinstance(c, (int, float)) for c in cells):
        return "number"
    data = [c for c in cells if isinstance(c, bytes)]
    if 2 * len(data) > len(cells):
        return "sound" if 2 * sum(map(is_sound, data)) > len(data) else "picture"
    cells = [c for c in cells if isinstance(c, str)] if any(cells) else []
    if not cells:
        return ""
    endings = [Path(c).suffix.lower() for c in cells]
    for kind, known in ENDINGS.items():
        if 2 * sum(ending in known for ending in endings) > len(endings):
            return kind
    cells = [c for c in cells if not is_missing(c)]
    return "number" if cells and all(is_number(c) for c in cells) else "text"


def is_sound(data: bytes) -> bool:
    """Whether a file begins as sounds do: WAV, FLAC, Ogg, AIFF, AU, CAF, MP3."""
    if data[:4] in (b"RIFF", b"FORM"):  # which hold other things too, such as WebP
        return data[8:12] in (b"WAVE", b"AIFF", b"AIFC")
    mp3 = data[:3] == b"ID3" or (data[:1] == b"\xff" and data[1:2] >= b"\xe0")
    return mp3 or data[:4] in (b"fLaC", b"OggS", b".snd", b"caff", b"riff", b"RF64")


def number_in(cell: str) -> float:
    """The number that a cell is written as, NaN where it is none."""
    try:
        return float(cell)
    except ValueError:
        return math.nan


def is_number(cell: str) -> bool:
    """Whether a cell is written as a number, be it an infinite one."""
    return not math.isnan(number_in(cell))


def is_missing(cell: str) -> bool:
    """Whether a cell holds a word that stands for no number."""
    return cell.strip().lower() in MISSING


def cells_of(table: Any, column: str) -> list[str]:
    """A column as it is written: whole floats without their .0, missing ones empty (among numbers
    such words as nan too), numbers that stand for names (`datasets.ClassLabel`) as those, lists
    with | between."""
    names = getattr(table.features.get(column), "names", None)
    names = names or getattr(getattr(table.features.get(column), "feature", None), "names", None)

    def written(cell: Any) -> str:
        if isinstance(cell, (list, tuple)):
            return "|".join(map(written, cell))
        if cell is None or (isinstance(cell, float) and math.isnan(cell)):
            return ""
        if isinstance(cell, (dict, bytes)):
            got = f"{column!r} holds {type(cell).__name__}"
            raise UserError(f"data takes labels that are text, numbers or lists of text; {got}")
        if names is not None and isinstance(cell, int):
            return names[cell] if cell >= 0 else ""  # -1 where a set hides its labels
        return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)

    cells = [written(cell) for cell in table[column][:]]
    words = [cell for cell in cells if cell and not is_number(cell)]
    among_numbers = len(words) < sum(map(bool, cells)) and all(map(is_missing, words))
    return [cell if is_number(cell) else "" for cell in cells] if among_numbers else cells


def firsts(table: Any, column: str) -> list[int]:
    """For each row the first one that has the same sample in a column of them: the same path, or
    the same bytes. A row without one is alone."""
    seen: dict[Any, int] = {}

    def name(cell: Any, row: int) -> Any:
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        if isinstance(data, bytes):  # whose names may be those of several folders
            return hashlib.blake2b(data, digest_size=16).digest()
        path = cell.get("path") if isinstance(cell, dict) else cell
        return path if isinstance(path, str) and path else row

    cells = (record[column] for record in table.select_columns([column]))
    return [seen.setdefault(name(cell, row), row) for row, cell in enumerate(cells)]


def lists(table: Any, column: str) -> str | None:
    """The task "labels" where a column holds lists, else None. UserError for lists of as many
    numbers each, which say of each label whether it holds, or how surely."""
    cells = [cell for cell in table[column][:LOOKED_AT] if cell is not None]
    if not cells or not isinstance(cells[0], (list, tuple)):
        return None
    named = getattr(getattr(table.features[column], "feature", None), "names", None)
    every = [number for cell in cells for number in cell] if len({*map(len, cells)}) == 1 else []
    scores = bool(every) and all(isinstance(n, (int, float)) and 0 <= n <= 1 for n in every)
    if scores and len(cells[0]) > 1 and named is None:
        wants = f"data takes lists of the labels that hold; {column!r} has {len(cells[0])} numbers"
        raise UserError(f"{wants} from 0 to 1 in each, such as {list(cells[0])[:8]}: write names")
    return "labels"


def splits_told(table: Any, where: Any, given: str) -> tuple[list[str], list[str]]:
    """The split of each row, where the `given` column says it, with "auto" one of a usual name that
    does so for all rows, some of which are train, and the note on it; nothing for any other table,
    and with "none". UserError for a given column that does not."""
    names = table.column_names
    if given not in ("auto", "none"):
        check_column(names, given, where, "data.split")
    for name in usual_in(names, "split") if given == "auto" else [given] * (given != "none"):
        cells = cells_of(table, name)
        found = [SPLIT_NAMES.get(cell.strip().lower(), "") for cell in cells]
        if all(found) and "train" in found and len({*found}) > 1:
            counts = ", ".join(f"{found.count(side)} {side}" for side in dict.fromkeys(found))
            what = f"the column {name!r} of {where} says which split each row is in"
            return found, [f"{what}: {counts} (--data.split)"]
        if name == given:
            wants = "data.split takes a column that says train, val or test of each row, not of all"
            said = listed(dict.fromkeys(cell or "nothing" for cell in cells))
            raise UserError(f"{wants} the same; {name!r} of {where} says {said}")
    return [], []


def split_here(given: str, names: Sequence[str]) -> str:
    """`data.split` as it holds for a table to test on, which may lack the column that train has."""
    return given if given in ("auto", "none", *names) else "auto"


def check_beside(split: str, sides: Iterable[str], where: Any) -> None:
    """UserError for a source of a split beside a table whose column tells its rows."""
    if split in sides:
        wants = f"data.{split} takes a source where data.train has no {split} itself"
        raise UserError(
            f"{wants}; a column of {where} says it: drop one, or give --data.split none"
        )


def usual_in(names: Sequence[str], what: str) -> list[str]:
    """Those of the columns that have a usual name, the surest first."""
    return [name for usual in NAMES[what] for name in names if name.lower().strip() == usual]
