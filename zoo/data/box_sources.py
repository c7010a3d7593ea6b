"""Where boxes are told: pictures of numbers, COCO's files, tables -> pictures and what is told."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.data.columns import cells_of, input_of, told_of
from zoo.data.layout import existing_folder, files_below, find_splits, is_kind
from zoo.data.pairs import Pairs, Source, pairs_in
from zoo.data.splits import Column
from zoo.data.table import is_table, place_of, read_tables
from zoo.errors import UserError
from zoo.inputs import clean_label
from zoo.inputs.names import listed

CORNERS = (("x0", "y0", "x1", "y1"), ("xmin", "ymin", "xmax", "ymax"), ("x1", "y1", "x2", "y2"))
COCO = ("images", "annotations", "categories")
BOX = ("box", "bbox")  # x0, y0, x1, y1; and as COCO has it: x, y, width, height
LABEL = ("label", "category", "class", "labels", "categories")

Box = tuple[str, Sequence[float]]  # its label, and x0, y0, x1, y1


class Told(NamedTuple):
    """What is told of one picture."""

    labels: tuple[str, ...] = ()
    boxes: np.ndarray = np.empty((0, 4))
    """(n, 4) float64: x0, y0, x1, y1 in pixels."""
    reason: str = ""
    """Why it cannot be used; "" if it can."""
    size: tuple[Any, Any] | None = None
    """(width, height) of the picture that the boxes were drawn in, where that is known."""

    @classmethod
    def of(cls, each: Iterable[Box], reason: str = "", size: Any = None) -> "Told":
        """The label and the corners of each box."""
        pairs = list(each)
        boxes = np.array([box for _, box in pairs], np.float64).reshape(-1, 4)
        return cls(tuple(clean_label(label) for label, _ in pairs), boxes, reason, size)


def sources_in(path: Any, key: str, config: Any) -> tuple[dict[str, Source], list[str]]:
    """A folder, or train, val and test folders, of images/ with instances/ (pictures of numbers) or
    with a file of COCO's; such a file; or a table with boxes -> the pictures of each split with
    what is told of them, and notes."""
    notes: list[str] = []
    file = Path(str(path)).expanduser()
    alone = coco_file(file) if file.suffix.lower() == ".json" and file.is_file() else None
    if alone is None and is_table(path):
        return table_sources(path, key, config)
    for name in ("group", "time"):
        if getattr(config, name) is not None:
            raise UserError(f"data.{name} takes a column of a table; {path} is none")
    if alone is not None:
        return {"train": coco_in(file, alone, config.on_bad, notes)}, notes
    folders, notes = find_splits(existing_folder(path, key, "boxes"), key, "boxes")
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


def coco_file(file: Path) -> Mapping[str, Any] | None:
    """What a JSON file holds if it is one of COCO's, with lists of `COCO`; else None."""
    try:
        data = json.loads(file.read_bytes())
    except (ValueError, OSError):
        return None
    lists = [data.get(name) for name in COCO] if isinstance(data, dict) else [None]
    good = all(isinstance(x, list) and all(isinstance(one, dict) for one in x) for x in lists)
    return data if good else None


def coco_in(file: Path, data: Mapping[str, Any], on_bad: str, notes: list[str]) -> Source:
    """A file of COCO's (Lin et al. 2014, arXiv:1405.0312) -> its pictures, which lie in images/
    beside it, or beside it. Boxes of crowds are left out. UserError for an annotation of no
    picture."""
    root = file.parent / "images" if (file.parent / "images").is_dir() else file.parent
    names = {one.get("id"): str(one.get("name") or "") for one in data["categories"]}
    each: dict[Any, list[Box]] = {one.get("id"): [] for one in data["images"]}
    sizes = [(one.get("width"), one.get("height")) for one in data["images"]]
    pictures = tuple(root / str(one.get("file_name")) for one in data["images"])
    if len(each) != len(pictures) or not pictures:
        got = f"{file} has {len(pictures)} pictures of {len(each)} ids"
        raise UserError(f"data takes pictures with an id of their own; {got}")
    reasons: dict[Any, str] = {}
    crowds, lost = 0, []
    for one in data["annotations"]:
        image, category, box = one.get("image_id"), one.get("category_id"), one.get("bbox")
        which = f"annotation {one.get('id')}"
        if one.get("iscrowd"):
            crowds += 1
        elif image not in each:
            lost.append(f"{which} of picture {image}")
        elif category not in names:
            reasons[image] = f"{which} has the category {category}, which {file.name} does not name"
        elif (corners := corners_of(box, "bbox")) is None:
            reasons[image] = f"{which} has the bbox {box}, no x, y, width and height"
        else:
            each[image].append((names[category], corners))
    if lost and on_bad != "skip":
        wants = f"data takes annotations of the pictures that {file} names"
        got = f"{len(lost)} are of none ({listed(lost)})"
        raise UserError(f"{wants}; {got}: correct them, or leave them out with --data.on_bad skip")
    extra = sorted({f for f in files_below(root, []) if is_kind(f, "picture")} - {*pictures})
    for count, what in (
        (len(lost), f"annotations of no picture: {listed(lost)}"),
        (crowds, "boxes of crowds"),
        (len(extra), f"pictures that it does not name: {listed(extra)}"),
    ):
        notes += [f"{file}: left out {count} {what}"] if count else []
    every = zip(each.items(), sizes, strict=True)
    told = tuple(
        Told.of(boxes, reasons.get(image, ""), None if None in size else size)
        for (image, boxes), size in every
    )
    return Source(file.parent, Pairs(pictures, told))


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
            order, told = by_picture(table, picture, corners, label)
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
) -> tuple[list[int], list[Told]]:
    """Rows of a box each -> the first row of each picture, and what is told of it. A row without
    corners is of a picture that has none."""
    first: dict[Any, int] = {}
    each: dict[Any, list[Box]] = {}
    reasons: dict[Any, str] = {}
    columns = [cells_of(table, name) for name in (*corners, label)]
    for row, cell in enumerate(table[picture][:]):
        name = cell.get("path") or cell.get("bytes") if isinstance(cell, dict) else cell
        first.setdefault(name, row)
        boxes = each.setdefault(name, [])
        *four, its_label = (column[row] for column in columns)
        if not any(four):
            continue
        found = corners_of(four, "box")
        if found is None:
            reasons[name] = f"row {row + 1} has the corners {', '.join(four)}, no four numbers"
        else:
            boxes.append((its_label, found))
    return [*first.values()], [Told.of(boxes, reasons.get(n, "")) for n, boxes in each.items()]


def objects_in(cell: Any, feature: Any = None) -> Told:
    """A cell of [{"label", "box": [x0, y0, x1, y1]}], or of lists side by side, {"category": [...],
    "bbox": [[x, y, width, height], ...]}, or such as JSON text -> what it tells. `feature` is what
    `datasets` knows of the column, the names of numbered classes among it."""
    wants = 'a cell of boxes holds [{"label": NAME, "box": [x0, y0, x1, y1]}, ...]'
    if isinstance(cell, str):
        try:
            cell = json.loads(cell) if cell.strip() else []
        except ValueError as error:
            return Told(reason=f"{wants}, this one no JSON ({error})")
    if isinstance(cell, dict):
        keys = [k for k in (*BOX, *LABEL) if isinstance(cell.get(k), (list, tuple))]
        both = {*BOX} & {*keys} and {*LABEL} & {*keys}
        if not both or len({len(cell[k]) for k in keys}) > 1:
            return Told(reason=f"{wants}, or lists of one length of the same, this one {cell!r}")
        cell = [
            dict(zip(keys, row, strict=True)) for row in zip(*(cell[k] for k in keys), strict=True)
        ]
    if not isinstance(cell, (list, tuple, type(None))):
        return Told(reason=f"{wants}, this one {cell!r}")
    found: list[Box] = []
    for one in cell or ():
        box = next((k for k in BOX if isinstance(one, dict) and one.get(k) is not None), None)
        label = next((k for k in LABEL if isinstance(one, dict) and one.get(k) is not None), None)
        corners = None if box is None else corners_of(one[box], box)
        if label is None or box is None or corners is None:
            return Told(reason=f"{wants}, this one {one!r}")
        name, names = one[label], class_names(feature, label)
        numbered = isinstance(name, int) and 0 <= name < len(names)
        found.append((names[name] if numbered else str(name), corners))
    return Told.of(found)


def class_names(feature: Any, key: str) -> Sequence[str]:
    """The names of numbered classes of a key of `datasets`' features, none where it has no such."""
    inner = getattr(feature, "feature", feature)  # of what a list holds
    field = inner.get(key) if isinstance(inner, Mapping) else None
    return getattr(getattr(field, "feature", field), "names", None) or ()


def corners_of(box: Any, kind: str) -> tuple[float, ...] | None:
    """Four numbers, a "box" of corners or a "bbox" of corner and sides -> x0, y0, x1, y1; None for
    what is not four finite numbers."""
    try:
        a, b, c, d = (float(side) for side in box)
    except (TypeError, ValueError):
        return None
    four = (a, b, c, d) if kind == "box" else (a, b, a + c, b + d)
    return four if all(map(math.isfinite, four)) else None
