"""Folders of pictures or sounds -> Splits. All that can be wrong is said here, before training."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.data.check import (
    Seen,
    duplicate_notes,
    look_all,
    look_at,
    picture_notes,
    report_unreadable,
)
from zoo.data.layout import existing_folder, find_files, find_splits, sub_folders, takes
from zoo.data.splits import Rows, Splits, draw, fingerprint, histogram, lacks
from zoo.errors import UserError
from zoo.inputs import label_index, order_labels
from zoo.inputs.names import listed, printable

ORDER = ("train", "val", "test")
IMAGES = ("images", "image", "imgs", "img", "pictures")  # folders of what other recipes take
MASKS = ("masks", "mask", "segmentations", "segmentation", "annotations", "labels", "gt")
TOLD = dict.fromkeys(MASKS, ("masks", "image_segment")) | {
    "instances": ("instances", "image_detect")
}


def class_folders(config: Any, seed: int, kind: str = "picture") -> Splits:
    """`config.train`, a folder of class folders or of train, val and test folders -> Splits.

    `config.val` and `config.test` are a folder, a share of train (stratified, drawn with `seed`,
    test before val) or, for test, None. A folder given goes before a sub-folder, a sub-folder
    before a share. `config.on_bad`: an unreadable file raises ("raise") or is left out ("skip").
    UserError for whatever cannot be trained on: no folder, no class folders, one class, a class
    that train lacks, an unreadable file.
    """
    root = existing_folder(config.train, "data.train", kind)
    folders, notes = find_splits(root, "data.train", kind)
    if "train" not in folders:
        raise UserError(
            f"data.train takes class folders, or splits with a train folder among them; {root} has "
            f"only {listed(f.name for f in folders.values())}"
        )
    shares: dict[str, float] = {}
    for split in ("test", "val"):
        given = share_or_path(getattr(config, split), f"data.{split}")
        if isinstance(given, Path):
            folders[split] = existing_folder(given, f"data.{split}", kind)
        elif split == "test" and split in folders and not sub_folders(folders[split]):
            notes.append(f"{folders.pop(split)} is not used, since it has no class folders")
        if isinstance(given, float) and split not in folders:
            shares[split] = given
    data = _read(folders, None, config.on_bad, kind)
    data.notes[:0] = notes
    for split, share in shares.items():
        train = data.rows["train"]
        drawn = draw(train.targets, share, seed, split)
        if not drawn:
            raise UserError(
                f"data.{split} takes a share of train, but no class in {train.root} has a "
                f"{kind} to spare: add {kind}s, or give a folder"
            )
        how = f"{len(drawn)} of the {len(train)} {kind}s of train ({share:g})"
        data.rows[split] = train.pick(drawn)
        data.rows["train"] = train.pick(sorted({*range(len(train))} - {*drawn}))
        data.notes.append(f"{split} is {how}, stratified, drawn with seed {seed}")
    return data.splits()


def held_out_folder(
    path: str | os.PathLike[str],
    labels: Sequence[str],
    on_bad: str = "raise",
    kind: str = "picture",
) -> Splits:
    """A folder of class folders -> Splits with `test` alone, under the given labels.

    Of a folder with split sub-folders, test is taken, else val. UserError as in `class_folders`.
    """
    root = existing_folder(path, "data", kind)
    folders, notes = find_splits(root, "data", kind)
    folder = folders.get("test") or folders.get("val") or folders["train"]
    data = _read({"test": folder}, tuple(labels), on_bad, kind)
    data.notes[:0] = notes
    return data.splits()


def share_or_path(value: str | float | Path | None, key: str) -> float | Path | None:
    """0.1 or "0.1" -> 0.1; other text -> a path. UserError for a share out of 0 to 1."""
    if value is None:
        return None
    try:
        share = float(str(value))
    except ValueError:
        return Path(str(value))
    if isinstance(value, (str, Path)) and Path(value).exists():
        return Path(value)
    if 0 < share < 1:
        return share
    raise UserError(f"{key} takes a share of train above 0 and below 1, or a folder; got {value}")


@dataclass
class _Data:
    """What was read, before it is divided."""

    kind: str
    labels: tuple[str, ...]
    rows: dict[str, Rows]
    skipped: tuple[str, ...]
    notes: list[str]

    def splits(self) -> Splits:
        """With the notes on what each split holds."""
        rows = {split: self.rows[split] for split in ORDER if split in self.rows}
        for split, part in rows.items():
            self.notes.append(
                f"{split}: {len(part)} {self.kind}s of {sum(map(bool, part.counts()))} classes in "
                f"{part.root}"
            )
            absent = [n for n, count in zip(self.labels, part.counts(), strict=True) if not count]
            if absent:
                self.notes.append(lacks(split, self.kind, absent))
        self.notes += histogram(self.labels, rows.get("train"))
        return Splits(
            self.labels,
            rows.get("train"),
            rows.get("val"),
            rows.get("test"),
            fingerprint(self.labels, rows),
            "label",
            (*self.notes, *duplicate_notes(rows, f"{self.kind}s")),
            self.skipped,
        )


def _read(
    folders: Mapping[str, Path], labels: tuple[str, ...] | None, on_bad: str, kind: str
) -> _Data:
    """Find, number and decode the files of each split; `labels` None: those of train."""
    notes: list[str] = []
    files: dict[str, dict[str, list[Path]]] = {}
    for split in (s for s in ORDER if s in folders):
        files[split], more = find_files(folders[split], "data" if labels else f"data.{split}", kind)
        notes += more
    labels = labels or _labels(folders["train"], files["train"], kind)
    numbered = {split: _number(classes, labels, folders[split]) for split, classes in files.items()}
    paths = [path for pairs in numbered.values() for path, _ in pairs]
    seen = dict(zip(paths, look_all(paths, look_at(kind), f"{kind}s"), strict=True))
    skipped = report_unreadable(seen, on_bad, f"{kind}s")
    if skipped:
        notes.append(f"left out {len(skipped)} unreadable {kind}s: {listed(skipped)}")
    good = [path for path in paths if not seen[path].reason]
    notes += picture_notes([seen[path].marks for path in good], lambda i: printable(good[i]))
    rows = {
        split: _rows(folders[split], pairs, len(labels), seen) for split, pairs in numbered.items()
    }
    for split, part in rows.items():
        lost = {*(target for _, target in numbered[split])} - {*part.targets}
        if lost:
            names = listed(labels[target] for target in sorted(lost))
            raise UserError(
                f"data.on_bad skip leaves {kind}s of each class; all those of {names} in "
                f"{part.root} are unreadable: replace them, or delete the class"
            )
    return _Data(kind, labels, rows, skipped, notes)


def _number(
    classes: Mapping[str, list[Path]], labels: Sequence[str], root: Path
) -> list[tuple[Path, int]]:
    numbers = {name: label_index(name, labels, str(root)) for name in classes}
    ordered = sorted(classes, key=numbers.__getitem__)
    return [(path, numbers[name]) for name in ordered for path in classes[name]]


def _rows(
    root: Path, pairs: list[tuple[Path, int]], classes: int, seen: Mapping[Path, Seen]
) -> Rows:
    good = [(path, target) for path, target in pairs if not seen[path].reason]
    paths = tuple(path for path, _ in good)
    targets = tuple(target for _, target in good)
    looks = [seen[path] for path in paths]
    sizes = tuple(look.length for look in looks)
    values = tuple(look.values for look in looks)
    return Rows(root, paths, targets, classes, sizes, values, tuple(look.digest for look in looks))


def _labels(root: Path, files: Mapping[str, list[Path]], kind: str) -> tuple[str, ...]:
    """The labels of train, two at least. UserError too for what looks like pictures and what is
    told of each, since it would be learned which folder a file lies in."""
    labels = order_labels(files)
    low = {label.lower(): label for label in labels}
    pictures, told = (next((low[n] for n in names if n in low), "") for names in (IMAGES, TOLD))
    if kind == "picture" and pictures and told:
        what, recipe = TOLD[told.lower()]
        raise UserError(
            f"data.train takes {takes(kind)}; {root} holds {pictures} and {told}, which look like "
            f"pictures with {what}: give it to {recipe}, or rename the folders if they are classes"
        )
    if len(labels) != 1:  # find_files has seen to one at least
        return labels
    inner = next((f for f in sub_folders(root) if len(sub_folders(f)) > 1), None)
    inner_names = listed(f.name for f in sub_folders(inner)) if inner else ""
    hint = f"give {inner}, which holds {inner_names}" if inner else "add a folder for another class"
    raise UserError(
        f"data.train takes folders of two classes or more; {root} holds one, {labels[0]!r}: {hint}"
    )
