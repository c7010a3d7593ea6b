"""What a cell tells of the boxes of one picture."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zoo.errors import cut
from zoo.inputs import clean_label

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


def objects_in(cell: Any, feature: Any = None) -> Told:
    """A cell of [{"label", "box": [x0, y0, x1, y1]}], or of lists side by side, {"category": [...],
    "bbox": [[x, y, width, height], ...]}, or such as JSON text -> what it tells. `feature` is what
    `datasets` knows of the column, the names of numbered classes among it."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell) if cell.strip() else []
        except ValueError as error:
            return Told(reason=f"its cell holds no JSON ({error})")
    if isinstance(cell, dict):
        keys = [k for k in (*BOX, *LABEL) if isinstance(cell.get(k), (list, tuple))]
        both = {*BOX} & {*keys} and {*LABEL} & {*keys}
        if not both or len({len(cell[k]) for k in keys}) > 1:
            return Told(reason=f"its cell holds {shown(cell)}, no lists of one length")
        cell = [
            dict(zip(keys, row, strict=True)) for row in zip(*(cell[k] for k in keys), strict=True)
        ]
    if not isinstance(cell, (list, tuple, type(None))):
        return Told(reason=f"its cell holds {shown(cell)}, no boxes")
    found: list[Box] = []
    for one in cell or ():
        box = next((k for k in BOX if isinstance(one, dict) and one.get(k) is not None), None)
        label = next((k for k in LABEL if isinstance(one, dict) and one.get(k) is not None), None)
        corners = None if box is None else corners_of(one[box], box)
        if label is None or box is None or corners is None:
            return Told(reason=f"its cell holds {shown(one)}, no box with a label")
        name, names = one[label], class_names(feature, label)
        numbered = isinstance(name, int) and 0 <= name < len(names)
        found.append((names[name] if numbered else str(name), corners))
    return Told.of(found)


def shown(cell: Any) -> str:
    """What a cell holds, as far as it fits a sentence."""
    return cut(repr(cell))


def four_in(cell: Any) -> list[str]:
    """A cell of [x, y, width, height], a list or its text, with commas or blanks between and
    brackets of any kind -> what is in it, [] for an empty one, the cell itself for what is none."""
    if isinstance(cell, str):
        inner = re.fullmatch(r"[\[(]([^\[\]()]*)[\])]", cell.strip())
        return inner[1].replace(",", " ").split() if inner else [cell] if cell.strip() else []
    return [str(side) for side in cell] if isinstance(cell, (list, tuple)) else []


def holds_fours(cells: Sequence[Any]) -> bool:
    """Whether most of the cells that are not empty are four numbers."""
    some = [four for cell in cells if (four := four_in(cell))]
    return 2 * sum(corners_of(four, "bbox") is not None for four in some) > len(some)


def class_names(feature: Any, key: str) -> Sequence[str]:
    """The names of numbered classes of a key of `datasets`' features, none where it has no such."""
    inner = getattr(feature, "feature", feature)  # of what a list holds
    field = inner.get(key) if isinstance(inner, Mapping) else None
    return getattr(getattr(field, "feature", field), "names", None) or ()


def corners_of(box: Any, kind: str) -> tuple[float, ...] | None:
    """Four numbers, a "box" of corners or a "bbox" of corner and sides -> x0, y0, x1, y1; None for
    what is not four finite numbers."""
    try:
        a, b, c, d = (float(side) for side in (() if isinstance(box, str) else box))
    except (TypeError, ValueError):
        return None
    four = (a, b, c, d) if kind == "box" else (a, b, a + c, b + d)
    return four if all(map(math.isfinite, four)) else None
