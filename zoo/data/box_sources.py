"""Where boxes are told: pictures of numbers, COCO's files, tables -> pictures and what is told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo.data.box_cells import Box, Told, corners_of, objects_in
from zoo.data.coco import beside, coco_file, coco_in, official, official_sources
from zoo.data.columns import cells_of, firsts, input_of, told_of
from zoo.data.layout import existing_folder, find_splits
from zoo.data.pairs import Pairs, Source, pairs_in
from zoo.data.splits import Column
from zoo.data.table import is_table, place_of, read_tables
from zoo.errors import UserError
from zoo.inputs.names import listed, user_path

CORNERS = (("x0", "y0", "x1", "y1"), ("xmin", "ymin", "xmax", "ymax"), ("x1", "y1", "x2", "y2"))


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
    """A table with a column of pictures and one of all their boxes, or with four columns of corners
    and one of labels, a row for each box -> the pictures of each split, and notes."""
    sources, notes = {}, []
    for split, table in read_tables(path, key).items():
        root, names = place_of(path, split), table.column_names
        corners = corners_among(names, root)
        wants = f"{key} takes a column of boxes, or four of corners and one of labels"
        kind = "boxes" if corners is None else "label"
        label, more = told_of(names, kind, config.label, root, wants)
        picture, note = input_of(table, "picture", config.input, root, "--data.input", label)
        notes += [*more, note] if note else more
        if corners is None:
            feature, order = table.features.get(label), [*range(len(table))]
            told = [objects_in(cell, feature) for cell in table[label][:]]
        else:
            order, told, bare = by_picture(table, picture, corners, label)
            four = f"{', '.join(map(repr, corners))}, by their names"
            notes += [f"x0, y0, x1, y1 of boxes are the columns {four}", *bare]
        pictures = Column.of(table, picture, root, order)
        sources[split] = Source(root, Pairs(pictures, tuple(told)))
    return sources, list(dict.fromkeys(notes))


def corners_among(names: Sequence[str], where: Path) -> list[str] | None:
    """The four columns of corners, in their order; None where there are none. UserError where
    others may be meant as well."""
    low = {name.lower().strip(): name for name in names}
    found = [four for four in CORNERS if low.keys() >= {*four}]
    usual = [name for name in names if any(name.lower().strip() in four for four in found)]
    if len(usual) > 4:
        wants = f"data takes one column for each side of a box; {where} has {listed(usual, 8)}"
        raise UserError(f"{wants}: rename those that are not meant")
    return [low[corner] for corner in found[0]] if found else None


def by_picture(
    table: Any, picture: str, corners: Sequence[str], label: str
) -> tuple[list[int], list[Told], list[str]]:
    """Rows of a box each -> the first row of each picture, what is told of it, and notes. A row
    without corners is of a picture that has none, and a label in it is said to be no box's."""
    each: dict[int, list[Box]] = {}
    reasons: dict[int, str] = {}
    bare: list[str] = []
    columns = [cells_of(table, name) for name in (*corners, label)]
    for row, first in enumerate(firsts(table, picture)):
        boxes = each.setdefault(first, [])
        *four, its_label = (column[row] for column in columns)
        if not any(four):
            bare += [f"row {row + 1}"] if its_label.strip() else []
            continue
        found = corners_of(four, "box")
        if found is None:
            reasons[first] = f"row {row + 1} has the corners {', '.join(four)}, no four numbers"
        else:
            boxes.append((its_label, found))
    told = [Told.of(boxes, reasons.get(first, "")) for first, boxes in each.items()]
    said = f"{len(bare)} rows have a label and no corners, so no box ({listed(bare)})"
    return [*each], told, [said] if bare else []
