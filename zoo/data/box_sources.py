"""Where boxes are told: pictures of numbers, COCO's files, tables -> pictures and what is told."""

from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.box_cells import Box, Told, corners_of, four_in, holds_fours, objects_in
from zoo.data.coco import beside, coco_file, coco_in, official, official_sources
from zoo.data.columns import LOOKED_AT, cells_of, firsts, input_of, told_of, usual_in
from zoo.data.layout import existing_folder, find_splits
from zoo.data.pairs import Pairs, Source, pairs_in
from zoo.data.splits import Column
from zoo.data.table import is_table, place_of, read_tables
from zoo.errors import UserError
from zoo.inputs.names import listed, user_path

CORNERS = (("x0", "y0", "x1", "y1"), ("xmin", "ymin", "xmax", "ymax"), ("x1", "y1", "x2", "y2"))
SIDES = (("x", "left"), ("y", "top"), ("w", "width"), ("h", "height"))
WAYS = (
    'a column of boxes, [{"label": NAME, "box": [x0, y0, x1, y1]}, ...] in each cell, or a row for '
    "each box, with four columns (x0, y0, x1, y1, or x, y, width, height) or one (bbox: x, y, "
    "width, height in a cell) and one of labels"
)


class Sides(NamedTuple):
    """Where the four numbers of a row's box are."""

    columns: tuple[str, ...]
    """Of each number, or one that has all four in a cell."""
    kind: str
    """What they are: "box" for corners, "bbox" for a corner and sides."""

    def told(self) -> str:
        """In a note."""
        names = ", ".join(map(repr, self.columns))
        what = "x0, y0, x1, y1" if self.kind == "box" else "x, y, width, height"
        corner = "" if self.kind == "box" else ", x and y those of the upper left corner"
        are = "are the columns" if len(self.columns) > 1 else "are in the column"
        return f"{what} of boxes {are} {names}, by name{corner}"


def sources_in(path: Any, key: str, config: Any) -> tuple[dict[str, Source], list[str]]:
    """A folder, or train, val and test folders, of images/ with instances/ (pictures of numbers) or
    with a file of COCO's; such a file; a folder of COCO's own layout; or a table with boxes -> the
    pictures of each split with what is told of them, and notes."""
    notes: list[str] = []
    file = user_path(str(path))
    alone = coco_file(file) if file.suffix.lower() == ".json" and file.is_file() else None
    if alone is None and is_table(path):
        return table_sources(path, key, config)
    for name in ("group", "time"):
        if getattr(config, name) is not None:
            raise UserError(f"data.{name} takes a column of a table; {path} is none")
    if alone is not None:
        if not file.parent.name:  # it tells where pictures lie
            file = file.absolute()
        notes += beside(file, config) if key == "data.train" else []
        return {"train": coco_in(file, alone, config.on_bad, notes)}, notes
    root = existing_folder(path, key, "boxes")
    if official(root):
        return official_sources(root, key, config, notes), notes
    folders, notes = find_splits(root, key, "boxes")
    return {
        s: folder_source(folder, key, config.on_bad, notes) for s, folder in folders.items()
    }, notes


def folder_source(root: Path, key: str, on_bad: str, notes: list[str]) -> Source:
    """A folder of pictures -> those with what is told of them."""
    files = [f for f in sorted(root.iterdir()) if f.suffix.lower() == ".json" and f.is_file()]
    found = {f: data for f in files if (data := coco_file(f)) is not None}
    wants = f"{key} takes a folder of images with instances, or with one file of COCO's annotations"
    if len(found) + (root / "instances").is_dir() != 1:
        has = listed(f.name for f in sorted(root.iterdir())) or "nothing"
        raise UserError(f"{wants}; {root} has {has}")
    if found:
        return coco_in(*found.popitem(), on_bad, notes)
    return pairs_in(root, key, notes, "instances")


def table_sources(path: Any, key: str, config: Any) -> tuple[dict[str, Source], list[str]]:
    """A table with a column of pictures and one of all their boxes, or with a row for each box,
    such as `sides_among` finds, and a column of labels -> the pictures of each split, and notes.
    UserError for cells that hold no boxes."""
    sources, notes = {}, []
    for split, table in read_tables(path, key).items():
        root, names = place_of(path, split), table.column_names
        sides = sides_among(table, root)
        kind, given = ("boxes" if sides is None else "label"), config.label
        if sides is not None:
            given = None if (given,) == sides.columns else given  # which tells of boxes, rightly
            names = [name for name in names if name not in sides.columns]
        label, more = told_of(names, kind, given, root, f"{key} takes {WAYS}")
        picture, note = input_of(table, "picture", config.input, root, "--data.input", label)
        notes += [*more, note] if note else more
        if sides is None:
            feature, order = table.features.get(label), [*range(len(table))]
            told = [objects_in(cell, feature) for cell in table[label][:]]
            bad = [f"row {i + 1}: {one.reason}" for i, one in enumerate(told) if one.reason]
            if bad and config.on_bad != "skip":
                got = f"{len(bad)} of {len(told)} cells of {label!r} in {root} hold none"
                raise UserError(f"{key} takes {WAYS}; {got} ({listed(bad, 2)}): write them so, or "
                                "leave them out with --data.on_bad skip")  # fmt: skip
        else:
            order, told, bare = by_picture(table, picture, sides, label)
            notes += [sides.told(), *bare]
        pictures = Column.of(table, picture, root, order)
        sources[split] = Source(root, Pairs(pictures, tuple(told)))
    return sources, list(dict.fromkeys(notes))


def sides_among(table: Any, where: Path) -> Sides | None:
    """The columns of a table with a row for each box, by their names: four of corners, else, where
    none has all boxes of a picture, those of a corner and sides, or `bbox` with four numbers in a
    cell, as COCO has it. None for any other table. UserError where others may be meant as well."""
    names, kind, most = table.column_names, "box", 4
    low = {name.lower().strip(): name for name in names}
    found = [four for four in CORNERS if low.keys() >= {*four}]
    usual = [name for name in names if any(name.lower().strip() in four for four in found)]
    if not found and not usual_in(names, "boxes"):
        each = [[name for name in names if name.lower().strip() in two] for two in SIDES]
        usual, kind = [name for two in each for name in two] if all(each) else [], "bbox"
        most = 4 if usual else 1
        usual += [
            n for n in names if n.lower().strip() == "bbox" and holds_fours(table[:LOOKED_AT][n])
        ]
    if len(usual) > most:
        wants = f"data takes one column for each side of a box; {where} has {listed(usual, 8)}"
        raise UserError(f"{wants}: rename those that are not meant")
    columns = [low[corner] for corner in found[0]] if found else usual
    return Sides(tuple(columns), kind) if columns else None


def by_picture(
    table: Any, picture: str, sides: Sides, label: str
) -> tuple[list[int], list[Told], list[str]]:
    """Rows of a box each -> the first row of each picture, what is told of it, and notes. A row
    without corners is of a picture that has none, and a label in it is said to be no box's."""
    each: dict[int, list[Box]] = {}
    reasons: dict[int, str] = {}
    bare: list[str] = []
    labels, alone = cells_of(table, label), len(sides.columns) == 1
    cells = [table[sides.columns[0]][:]] if alone else [cells_of(table, n) for n in sides.columns]
    for row, first in enumerate(firsts(table, picture)):
        boxes = each.setdefault(first, [])
        four = four_in(cells[0][row]) if alone else [column[row] for column in cells]
        if not any(four):
            bare += [f"row {row + 1}"] if labels[row].strip() else []
            continue
        found = corners_of(four, sides.kind)
        if found is None:
            what = "corners" if sides.kind == "box" else "corner and sides"
            reasons[first] = f"row {row + 1} has the {what} {', '.join(four)}, no four numbers"
        else:
            boxes.append((labels[row], found))
    told = [Told.of(boxes, reasons.get(first, "")) for first, boxes in each.items()]
    said = f"{len(bare)} rows have a label and no corners, so no box ({listed(bare)})"
    return [*each], told, [said] if bare else []
