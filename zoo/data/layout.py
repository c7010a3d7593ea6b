"""What lies in a folder: splits, classes, pictures. Nothing is opened here."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from zoo.errors import UserError, suggest
from zoo.inputs import clean_label
from zoo.inputs.image import SUFFIXES

SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
TAKES = "a folder with one sub-folder of pictures per class"
_LISTED = 5  # so many names at most stand in a sentence


def listed(names: Iterable[object], most: int = _LISTED) -> str:
    """ "a, b, c", or "a, b and 7 more"."""
    texts = [str(name) for name in names]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def existing_folder(path: str | os.PathLike[str], key: str) -> Path:
    """The path of a folder that is there. UserError that names the key it was given for."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise UserError(f"{key} takes {TAKES}; {folder} is a file")
    near = sub_folders(folder.parent) if folder.parent.is_dir() else []
    hint = suggest(folder.name, [f.name for f in near])
    raise UserError(f"{key} takes {TAKES}; there is no {folder}{hint}")


def sub_folders(folder: Path) -> list[Path]:
    """Folders in a folder, without hidden ones, by name."""
    return sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))


def find_splits(root: Path, key: str) -> tuple[dict[str, Path], list[str]]:
    """{"train": ..., and "val", "test" where there are such sub-folders}, and notes.

    A split's name is never taken for a class, with one exception: a folder `train` of pictures
    among other class folders (the vehicle). UserError where it is in doubt which is meant.
    """
    folders = sub_folders(root)
    named = [f for f in folders if f.name.lower() in SPLIT_NAMES]
    others = [f for f in folders if f not in named]
    splits: dict[str, Path] = {}
    for folder in named:
        split = SPLIT_NAMES[folder.name.lower()]
        if split in splits:
            both = f"{splits[split].name} and {folder.name}"
            raise UserError(f"{key} takes one {split} folder; {root} has two, {both}: keep one")
        splits[split] = folder
    if not splits:
        return {"train": root}, _beside(root)
    if not others:
        return splits, []
    nested = "train" in splits and bool(sub_folders(splits["train"]))
    if nested and len(splits) > 1:
        return splits, [f"{root}: left out {listed(f.name for f in others)}, which is no split"]
    if list(splits) == ["train"] and not nested:
        return {"train": root}, [
            f"{root}: {splits['train'].name} is taken for a class, not a split"
        ]
    raise UserError(
        f"{key} takes {TAKES}, or train, val and test folders of such; {root} mixes "
        f"{listed(f.name for f in named)} with {listed(f.name for f in others)}: keep one kind"
    )


def find_pictures(root: Path, key: str) -> tuple[dict[str, list[Path]], list[str]]:
    """{class: its pictures, sorted}, and notes. A class folder is searched to any depth.

    Hidden files and folders, and files without the ending of a picture, are left out and noted;
    so are class folders without a picture. UserError if there is no picture in a class folder.
    """
    found: dict[str, list[Path]] = {}
    others: list[Path] = []
    notes: list[str] = []
    for folder in sub_folders(root):
        files = sorted(_files(folder), key=lambda f: f.as_posix())
        pictures = [f for f in files if is_picture(f)]
        others += [f for f in files if not is_picture(f)]
        label = clean_label(folder.name)
        if not label:
            raise UserError(f"{key} takes folders named by their class; {folder}{os.sep} is blank")
        if label in found:
            notes.append(
                f"{root}: two folders are class {label!r}, since blanks around a name do not count"
            )
        found.setdefault(label, []).extend(pictures)
    loose = [f for f in root.iterdir() if f.is_file() and is_picture(f)]
    if not any(found.values()):
        raise UserError(f"{key} takes {TAKES}; {_instead(root, loose, list(found), others)}")
    _note(notes, f"{root}: no picture in class folders", [n for n, f in found.items() if not f])
    _note(notes, f"{root}: left out, not pictures by their ending", others, _below(root))
    _note(notes, f"{root}: left out, in no class folder", sorted(loose), _below(root))
    return {label: files for label, files in found.items() if files}, notes


def is_picture(path: Path) -> bool:
    """By its name alone."""
    return not path.name.startswith(".") and path.suffix.lower() in SUFFIXES


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder but those in hidden folders; links are followed, once each."""
    seen: set[str] = set()
    for at, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(at)
        folders[:] = [] if real in seen else [f for f in folders if not f.startswith(".")]
        if real not in seen:
            yield from (Path(at, name) for name in names)
        seen.add(real)


def _beside(root: Path) -> list[str]:
    """A note on split folders next to a folder that is itself named like one."""
    parent = root.absolute().parent
    if SPLIT_NAMES.get(root.absolute().name.lower()) != "train":
        return []
    near = [
        f.name for f in sub_folders(parent) if SPLIT_NAMES.get(f.name.lower()) in ("val", "test")
    ]
    return [f"{listed(near)} beside {root} is not used; give {root.parent}"] if near else []


def _instead(root: Path, loose: list[Path], empty: list[str], others: list[Path]) -> str:
    """The end of the sentence about a folder without pictures in class folders."""
    if loose and not empty:
        return (
            f"{root} holds {len(loose)} pictures but no class folders: move each picture into a "
            "folder named by its class"
        )
    if empty:
        kinds = sorted({f.suffix or f.name for f in others if not f.name.startswith(".")})
        what = f", only {listed(kinds)} files" if kinds else ""
        return f"the folders in {root} ({listed(empty)}) hold no pictures{what}"
    return f"{root} is empty"


def _below(root: Path) -> Callable[[Path], str]:
    return lambda path: path.relative_to(root).as_posix()


def _note(notes: list[str], text: str, items: list, name: Callable = str) -> None:
    if items:
        notes.append(f"{text}: {len(items)} ({listed(map(name, items))})")
