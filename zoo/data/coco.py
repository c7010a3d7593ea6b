"""COCO's files of boxes (Lin et al. 2014, arXiv:1405.0312), and its folders of such files."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.data.box_cells import Box, Told, corners_of
from zoo.data.folder import share_or_path
from zoo.data.layout import SPLIT_NAMES, is_kind, sub_folders
from zoo.data.pairs import ORDER, Pairs, Source
from zoo.errors import UserError
from zoo.inputs.names import listed

LISTS = ("images", "annotations", "categories")
FOLDER, FIRST = "annotations", "instances_"  # as in annotations/instances_train2017.json


def coco_file(file: Path) -> Mapping[str, Any] | None:
    """What a JSON file holds if it is one of COCO's, with lists of `LISTS`; else None."""

    def slim(value: dict[str, Any]) -> dict[str, Any]:
        value.pop("segmentation", None)  # outlines are most of a file, and not used
        return value

    try:
        data = json.loads(file.read_bytes(), object_hook=slim)
    except (ValueError, OSError, RecursionError):
        return None
    lists = [data.get(name) for name in LISTS] if isinstance(data, dict) else [None]
    good = all(isinstance(x, list) and all(isinstance(one, dict) for one in x) for x in lists)
    return data if good else None


def official(root: Path) -> list[Path]:
    """The files of COCO's own layout, ROOT/annotations/instances_NAME.json, sorted; [] where a
    folder is of another."""
    return sorted(f for f in (root / FOLDER).glob(f"{FIRST}*.json") if f.is_file())


def split_of(file: Path) -> str:
    """instances_train2017.json -> "train"; "" where its name begins as that of no split."""
    letters = re.match("[a-z]*", file.stem.removeprefix(FIRST).lower())
    return SPLIT_NAMES.get(letters[0] if letters else "", "")


def official_sources(root: Path, key: str, config: Any, notes: list[str]) -> dict[str, Source]:
    """A folder of COCO's own layout -> its splits: all that `config` gives no other source for, or
    the one that `data.val` and `data.test` take. UserError where it is in doubt which file is
    meant."""
    each: dict[str, list[Path]] = {}
    for file in official(root):
        each.setdefault(split_of(file), []).append(file)
    strange, place = each.pop("", []), root / FOLDER
    wanted = [s for s in ORDER if s in each and not (s != "train" and has_source(config, s))]
    if key != "data.train":
        wanted = [s for s in (key.removeprefix("data."), "val", "test", "train") if s in each][:1]
    if not wanted or (key == "data.train" and "train" not in each):
        has = listed(f.name for f in official(root))
        wants = f"{key} takes a folder with {FOLDER}/{FIRST}train*.json"
        raise UserError(f"{wants}; {place} has {has}: give one of them, --{key} FILE")
    sources = {}
    for split in wanted:
        file, *more = each[split]
        if more:
            flag = key if split == "train" or key != "data.train" else f"data.{split}"
            wants = f"{key} takes one file of COCO's for {split}"
            got = f"{place} has {listed(f.name for f in each[split])}"
            raise UserError(f"{wants}; {got}: say which with --{flag} FILE")
        data = coco_file(file)
        if data is None:
            raise UserError(f"{key} takes COCO's files, with lists of {listed(LISTS)}; {file} "
                            "cannot be read as such")  # fmt: skip
        sources[split] = coco_in(file, data, config.on_bad, notes)
    if strange:
        names = listed(f.name for f in strange)
        notes.append(f"{place}: left out {names}, whose name begins as that of no split")
    known = {f.stem.removeprefix(FIRST) for files in (*each.values(), strange) for f in files}
    others = [f.name for f in sub_folders(root) if f.name not in (FOLDER, "images", *known)]
    if others:
        notes.append(f"{root}: left out {listed(others)}, of which {FOLDER} tells no boxes")
    return sources


def has_source(config: Any, split: str) -> bool:
    """Whether a split is a source of its own, and no share of train."""
    return isinstance(share_or_path(getattr(config, split), f"data.{split}"), Path)


def beside(file: Path, config: Any) -> list[str]:
    """A note on the files of other splits next to a file of COCO's own layout, which it alone does
    not bring along."""
    root = file.parent.parent
    files = official(root) if file.parent.name == FOLDER else []
    others = [f for f in files if split_of(f) in ("val", "test")] if file in files else []
    near = [f.name for f in others if f != file and not has_source(config, split_of(f))]
    return [f"{listed(near)} beside {file} is not used; give {root}"] if near else []


def pictures_of(file: Path, first: str) -> Path:
    """Where the pictures of a file lie: in images/ beside it, or beside it; those of
    ROOT/annotations/instances_NAME.json in ROOT/NAME, ROOT/images/NAME, ROOT/images or ROOT. It is
    the first of these folders that holds the picture `first`, or that there is."""
    root, stem = file.parent.parent, file.stem
    places = [file.parent / "images"]
    if file.parent.name == FOLDER:
        for name in (stem.removeprefix(FIRST), stem.rpartition("_")[2]):  # of other files too
            places += [root / name, root / "images" / name]
        places += [root / "images", root]
    there = [place for place in (*places, file.parent) if place.is_dir()]
    return next((place for place in there if os.path.isfile(place / first)), there[0])


def coco_in(file: Path, data: Mapping[str, Any], on_bad: str, notes: list[str]) -> Source:
    """What a file of COCO's holds -> its pictures. Boxes of crowds are left out. UserError for an
    annotation of no picture."""
    images: Sequence[Mapping[str, Any]] = data["images"]
    if not images:
        raise UserError(f"data takes pictures with boxes; {file} names no pictures")
    root = pictures_of(file, str(images[0].get("file_name")))
    named = {(number(one, "id"), str(one.get("name") or "")) for one in data["categories"]}
    names = dict(named)
    if len(names) != len(named):
        twice = listed(sorted(f"{i}: {name}" for i, name in named))
        raise UserError(f"data takes one name for each category; {file} has {twice}")
    each: dict[Any, list[Box]] = {number(one, "id"): [] for one in images}
    pictures = tuple(root / str(one.get("file_name")) for one in images)
    if len(each) != len(pictures):
        got = f"{file} has {len(pictures)} pictures of {len(each)} ids"
        raise UserError(f"data takes pictures with an id of their own; {got}")
    reasons: dict[Any, str] = {}
    crowds, lost = 0, []
    for one in data["annotations"]:
        image, category = number(one, "image_id"), number(one, "category_id")
        box, which = one.get("bbox"), f"annotation {one.get('id')}"
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
    near = {f for place in {p.parent for p in pictures} if place.is_dir() for f in place.iterdir()}
    extra = sorted(f for f in near - {*pictures} if is_kind(f, "picture"))
    for count, what in (
        (len(lost), f"annotations of no picture: {listed(lost)}"),
        (crowds, "boxes of crowds"),
        (len(extra), f"pictures that it does not name: {listed(extra)}"),
    ):
        notes += [f"{file}: left out {count} {what}"] if count else []
    told = tuple(
        Told.of(boxes, reasons.get(image, ""), size_of(one))
        for (image, boxes), one in zip(each.items(), images, strict=True)
    )
    return Source(file.parent if root.is_relative_to(file.parent) else root, Pairs(pictures, told))


def number(one: Mapping[str, Any], key: str) -> Any:
    """What a picture, a category or an annotation calls itself or another; as text where that is
    no plain value."""
    value = one.get(key)
    return value if isinstance(value, int | float | str | None) else repr(value)


def size_of(image: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """(width, height) in pixels that a file tells of a picture; None where it does not."""
    size = image.get("width"), image.get("height")
    known = all(isinstance(side, int | float) and side > 0 for side in size)
    return size if known else None
