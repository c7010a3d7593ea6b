"""Pictures with boxes -> Splits. All that can be wrong is said here."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.data.box_cells import Told
from zoo.data.box_sources import sources_in
from zoo.data.check import look_all
from zoo.data.pairs import (
    ORDER,
    Pairs,
    Source,
    divided,
    gather,
    held_out_source,
    seen_notes,
    splits_of,
    usable,
)
from zoo.data.splits import Rows, Splits, nearly_alike
from zoo.errors import UserError
from zoo.inputs import Boxed, order_labels
from zoo.inputs.boxes import boxes_of, check_bounds
from zoo.inputs.image import Marks, decode_image, decode_marked
from zoo.inputs.names import is_text, listed
from zoo.inputs.scene import Pair, decode_mask, same_size

THING = "object"  # the class of what pictures of numbers tell apart
BEYOND = 1.0  # pixels that a box may reach outside, as rounding makes it; it is cut there


class Look(NamedTuple):
    """What one look at a picture and its boxes told."""

    labels: tuple[str, ...] = ()
    """Of each box."""
    boxes: np.ndarray = np.empty((0, 4))
    """(n, 4): x0, y0, x1, y1 in pixels, within the picture."""
    pixels: int = 0
    length: int = 0
    """Of the file, in bytes, or the cell's checksum; and the checksum of what is told."""
    digest: bytes = b""
    reason: str = ""
    """Why it cannot be used; "" if it can."""
    marks: Marks = Marks()
    """What the picture's file was."""


def box_splits(config: Any, seed: int) -> Splits:
    """`config.train`, a folder or a table, such as `sources_in` takes -> Splits of Boxed.

    Each label of train's boxes is a class. `config.val` and `config.test` are a source of their
    own, a share of train, or None. A picture with a bad box is left out whole (`config.on_bad`
    "skip"), since without the box it would teach that there is nothing. UserError for whatever
    cannot be trained on: a box without an area or outside of its picture, a class that train lacks.
    """
    check_bounds(config.shorter, config.longer)  # before the time that looking takes
    sources, shares, notes = gather(config, sources_in)
    looks = {split: look(sources[split], split) for split in ORDER if split in sources}
    good, bad = usable(sources, looks, config.on_bad, "boxes")
    notes += seen_notes(sources, looks, good)
    labels = order_labels(label for i in good["train"] for label in looks["train"][i].labels)
    if not labels:
        got = f"those of {sources['train'].root} have none"
        raise UserError(f"data.train takes pictures with boxes; {got}")
    rows = {split: rows_of(sources[split], looks[split], good[split], labels) for split in looks}
    notes += divided(rows, shares, seed, config)
    return finish(rows, labels, notes, bad)


def box_held_out(config: Any, labels: Sequence[str]) -> Splits:
    """What `config.test` holds alone, under the labels of a model -> Splits with `test`."""
    source, notes = held_out_source(config, sources_in)
    looks = look(source, "test")
    good, bad = usable({"test": source}, {"test": looks}, config.on_bad, "boxes")
    notes += seen_notes({"test": source}, {"test": looks}, good)
    rows = {"test": rows_of(source, looks, good["test"], tuple(labels))}
    return finish(rows, tuple(labels), notes, bad)


def look(source: Source, split: str) -> list[Look]:
    """Look at each picture once. UserError for boxes that are shares of pictures."""
    check_pixels(source, split)
    return look_all(source.pairs, look_at_boxes, f"pictures with boxes of {split}")


def check_pixels(source: Source, split: str) -> None:
    """UserError where all boxes of a source are of a pixel or less, within a picture's first ones:
    they are shares of its sides then, and would be trained on as boxes that nobody sees."""
    told = [one.boxes for one in source.pairs.told if isinstance(one, Told)]
    boxes = np.concatenate(told) if told else np.empty((0, 4))
    # sides too, since a corner that was added to a side may be up to 2
    if not len(boxes) or np.abs(boxes[:, :2]).max() > 1 or np.abs(np.diff(
        boxes.reshape(-1, 2, 2), axis=1)).max() > 1:  # fmt: skip
        return
    for i in (i for i, each in enumerate(told) if len(each)):
        try:
            sides = decode_image(source.pairs[i].picture).size
        except (UserError, TypeError, AttributeError):
            continue  # it is told of as any picture that cannot be read
        if max(sides) > 1:
            raise UserError(
                f"boxes are pixels; all {len(boxes)} of {split} in {source.root} lie within 0 and "
                "1, shares of the picture: multiply x by its width and y by its height"
            )


def look_at_boxes(pair: Pair) -> Look:
    """A picture, and a picture of numbers or what a file tells of it -> what is in it."""
    source, told = pair
    if not isinstance(source, (Path, bytes)) or (isinstance(source, Path) and not is_text(source)):
        return Look(reason=f"{source!r} is neither a file's path in UTF-8 nor its bytes")
    try:
        picture, marks = decode_marked(source)
        if isinstance(told, Path):
            ids = decode_mask(told)
            same_size(picture, ids, pair)
            boxes = boxes_of(ids)
            told = Told((THING,) * len(boxes), boxes)
    except UserError as error:
        return Look(reason=getattr(error, "reason", str(error)))
    reason = told.reason or fault_of(told, picture.size)
    if reason:
        return Look(reason=reason)
    boxes = told.boxes.clip(0, [*picture.size, *picture.size])
    digest = hashlib.blake2b(picture.tobytes(), digest_size=16, key=b"%dx%d" % picture.size)
    length = zlib.crc32(source) if isinstance(source, bytes) else source.stat().st_size
    length += zlib.crc32(boxes.tobytes() + "\n".join(told.labels).encode())
    count = picture.width * picture.height
    return Look(told.labels, boxes, count, length, digest.digest(), marks=marks)


def fault_of(told: Told, sides: tuple[int, int]) -> str:
    """What is wrong with the boxes of a picture of (width, height): the first that is none, counted
    from 1; "" if all are."""
    if told.size not in (None, sides):
        drawn, has = (" x ".join(map(str, two)) for two in (told.size, sides))
        turned = " once it is turned upright (EXIF)" if told.size == sides[::-1] else ""
        return f"its boxes were drawn in {drawn} pixels, the picture has {has}{turned}"
    for number, (label, box) in enumerate(zip(told.labels, told.boxes, strict=True), 1):
        shown = f"box {number}, {', '.join(f'{side:g}' for side in box)} (x0, y0, x1, y1),"
        if (box[2:] <= box[:2]).any():
            return f"{shown} has no area"
        cut = box.clip(0, [*sides, *sides])
        if np.abs(cut - box).max() > BEYOND or (cut[2:] <= cut[:2]).any():
            return f"{shown} is not within the picture's {sides[0]} x {sides[1]} pixels"
        if not label:
            return f"{shown} has no label"
    return ""


def rows_of(source: Source, looks: list[Look], good: list[int], labels: tuple[str, ...]) -> Rows:
    """A split's rows; the target of each is which classes are in it. UserError for a label that is
    no class."""
    number = {label: i for i, label in enumerate(labels)}
    other = {source.pairs.name(i, source.root): {*looks[i].labels} - {*labels} for i in good}
    wrong = [f"{name}: {listed(sorted(found))}" for name, found in other.items() if found]
    if wrong:
        raise UserError(
            f"data takes boxes of train's classes ({listed(labels)}); {len(wrong)} pictures in "
            f"{source.root} hold others ({listed(wrong)}): rename them, or add them to train"
        )
    seen = [looks[i] for i in good]
    told = tuple(
        np.column_stack((one.boxes, [number[label] for label in one.labels])).astype(np.float32)
        for one in seen
    )
    return Rows(
        source.root,
        Pairs(source.pairs.pick(good).pictures, told, Boxed),
        tuple(tuple(int(label in one.labels) for label in labels) for one in seen),
        len(labels),
        tuple(one.length for one in seen),
        tuple(one.pixels for one in seen),
        tuple(one.digest for one in seen),
    )


def finish(
    rows: Mapping[str, Rows], labels: tuple[str, ...], notes: list[str], bad: list[str]
) -> Splits:
    """With the notes on what each split holds."""
    data = {split: rows[split] for split in ORDER if split in rows}
    for split, part in data.items():
        held = zip(labels, part.counts(), strict=True)
        each = [len(boxes) for boxes in part.items.told]  # type: ignore[attr-defined]  # Pairs
        none = f", {each.count(0)} of them with none" if 0 in each else ""
        notes.append(
            f"{split}: {len(part)} pictures with {sum(each)} boxes in {part.root}{none}; "
            f"{listed((f'{label} is in {count}' for label, count in held), 8)}"
        )
        if not any(each) and split == "train":
            raise UserError("data.train takes pictures with boxes; those that are left have none")
        if not any(each):
            notes.append(f"{split} has no boxes: its ap is -1")
    notes += nearly_alike(labels)
    return splits_of(labels, data, "boxes", notes, bad)
