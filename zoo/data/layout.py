"""What lies in a folder: splits, classes, pictures or sounds. Nothing is opened here."""

import os
import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from zoo.errors import UserError, suggest
from zoo.inputs import clean_label
from zoo.inputs.image import SUFFIXES as PICTURES
from zoo.inputs.names import is_text, listed, printable, user_path
from zoo.inputs.sound import SUFFIXES as SOUNDS

ENDINGS = {"picture": PICTURES, "sound": SOUNDS}

SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "eval": "val",
    "test": "test",
    "testing": "test",
}
NEARLY = {**SPLIT_NAMES, "trn": "train", "tst": "test", "holdout": "test", "heldout": "test"}
MACHINE_MADE = frozenset(  # by systems, file servers and archivers; compared in small letters
    {
        "#recycle", "#snapshot", "$recycle.bin", "@eadir", "@recently-snapshot", "@recycle", "@tmp",
        "__macosx", "__pycache__", "desktop.ini", "ehthumbs.db", "lost+found", "recycler",
        "system volume information", "thumbs.db",
    }
)  # fmt: skip


def takes(kind: str) -> str:
    """What a folder of classes, or of pictures and masks, is in words."""
    if kind == "scene":
        return "a folder with images and masks folders"
    if kind == "boxes":
        return (
            "a folder with images and instances folders, with images and a file of COCO's, or of "
            "COCO's own layout (annotations/instances_train*.json)"
        )
    if kind == "unlabelled":
        return "a folder of pictures"
    return f"a folder with one sub-folder of {kind}s per class"


def is_kind(path: Path, kind: str) -> bool:
    """Whether a file is a "picture" or a "sound" by its name alone: not hidden, with its ending."""
    return not _hidden(path.name) and path.suffix.lower() in ENDINGS[kind]


def is_hidden(path: Path, root: Path) -> bool:
    """Whether a path below `root`, or a folder on the way to it, starts with a dot or is made by a
    machine (`MACHINE_MADE`). How `root` itself is named does not matter.

    ValueError if the path is not below `root`.
    """
    return any(map(_hidden, path.relative_to(root).parts))


def existing_folder(path: str | os.PathLike[str], key: str, kind: str = "picture") -> Path:
    """The path of a folder that is there. UserError that names the key it was given for."""
    folder = user_path(path)
    if not is_text(folder):
        raise UserError(
            f"{key} takes a folder with a UTF-8 path; {printable(folder)} is none: rename it"
        )
    if folder.is_dir():
        return folder
    if folder.exists():
        raise UserError(f"{key} takes {takes(kind)}; {folder} is a file")
    near = sub_folders(folder.parent) if folder.parent.is_dir() else []
    hint = suggest(folder.name, [f.name for f in near])
    raise UserError(f"{key} takes {takes(kind)}; there is no {folder}{hint}")


def sub_folders(folder: Path) -> list[Path]:
    """Folders in a folder, sorted by name, without hidden ones (see `is_hidden`)."""
    return sorted(f for f in folder.iterdir() if f.is_dir() and not _hidden(f.name))


def find_splits(root: Path, key: str, kind: str = "picture") -> tuple[dict[str, Path], list[str]]:
    """{"train": ..., and "val", "test" where there are such sub-folders}, and notes.

    A split's name is never taken for a class, with one exception: a folder `train` of files
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
    alike = nearly_splits(others, splits)
    if not splits and not alike:
        return {"train": root}, _beside(root)
    nested = "train" in splits and bool(sub_folders(splits["train"]))
    if not others or (nested and len(splits) > 1):
        notes: list[str] = []
        _note_hidden(notes, root, [f for f in root.iterdir() if _hidden(f.name)])
        if others:
            notes.append(f"{root}: left out {listed(f.name for f in others)}, which is no split")
        return splits, notes
    if alike:
        raise UserError(
            f"{key} takes {takes(kind)}, or train, val and test folders of such; {root} has "
            f"folders that may be such ({listed(f.name for f in (*named, *alike))}): name them "
            "train, val and test, or as the classes that they are"
        )
    if list(splits) == ["train"] and not nested:
        return {"train": root}, [
            f"{root}: {splits['train'].name} is taken for a class, not a split"
        ]
    raise UserError(
        f"{key} takes {takes(kind)}, or train, val and test folders of such; {root} mixes "
        f"{listed(f.name for f in named)} with {listed(f.name for f in others)}: keep one kind"
    )


def nearly_splits(folders: Sequence[Path], known: Collection[str] = ()) -> list[Path]:
    """The folders that have a split's name as one of their words (train_images, val2017), if
    several splits are there, or one beside those that are `known`."""
    found: dict[Path, str] = {}
    for folder in folders:
        words = re.split(r"[^a-z]+", folder.name.lower().replace("set", " "))
        for split in (NEARLY[word] for word in words if word in NEARLY):
            found[folder] = split
    return [*found] if len({*found.values(), *known}) > 1 else []


def find_files(
    root: Path, key: str, kind: str = "picture"
) -> tuple[dict[str, list[Path]], list[str]]:
    """{class: its files of a kind, sorted}, and notes. A class folder is searched to any depth.

    Hidden files and folders, and files without an ending of the kind, are left out and noted;
    so are class folders without one. UserError if there is none in any class folder, and
    for a class folder whose name is blank or not UTF-8.
    """
    found: dict[str, list[Path]] = {}
    named: dict[str, str] = {}  # class -> the first folder of that name
    others: list[Path] = []
    hidden = [f for f in root.iterdir() if _hidden(f.name)]
    notes: list[str] = []
    for folder in sub_folders(root):
        label = _label(folder, key)
        files = files_below(folder, hidden)
        found.setdefault(label, []).extend(f for f in files if is_kind(f, kind))
        others += [f for f in files if not is_kind(f, kind)]
        first = named.setdefault(label, folder.name)
        if first != folder.name:
            why = _why_same(first, folder.name)
            notes.append(f"{root}: two folders are class {label!r}, since {why}")
    loose = [f for f in root.iterdir() if f.is_file() and is_kind(f, kind)]
    if not any(found.values()):
        raise UserError(
            f"{key} takes {takes(kind)}; {_instead(root, loose, list(found), others, kind)}"
        )
    _note(notes, f"{root}: no {kind} in class folders", [n for n, f in found.items() if not f])
    _note(notes, f"{root}: left out, not {kind}s by their ending", others, _below(root))
    _note(notes, f"{root}: left out, in no class folder", sorted(loose), _below(root))
    _note_hidden(notes, root, hidden)
    return {label: files for label, files in found.items() if files}, notes


def _hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in MACHINE_MADE


def _label(folder: Path, key: str) -> str:
    """The class that a folder stands for."""
    if not is_text(folder.name):
        raise UserError(
            f"{key} takes folders named by their class in UTF-8; {printable(folder)} is not: "
            "rename it"
        )
    label = clean_label(folder.name)
    if not label:
        raise UserError(f"{key} takes folders named by their class; {folder}{os.sep} is blank")
    return label


def _why_same(one: str, other: str) -> str:
    """Why two folder names are one class."""
    blanks = "blanks around a name do not count"
    accents = "their names look alike and differ only in how Unicode writes the characters"
    if one.strip() == other.strip():
        return blanks
    composed = (unicodedata.normalize("NFC", name) for name in (one, other))
    return accents if len({*composed}) == 1 else f"{accents}, and {blanks}"


def files_below(folder: Path, hidden: list[Path]) -> list[Path]:
    """All that is no folder below a folder, sorted; links are followed, once each. `hidden` gets
    what is hidden. OSError for a folder that may not be read."""
    files: list[Path] = []
    seen: set[str] = set()
    for at, folders, names in os.walk(folder, onerror=_refuse, followlinks=True):
        real = os.path.realpath(at)
        if real in seen:
            folders[:] = []
            continue
        seen.add(real)
        hidden += [Path(at, name) for name in (*folders, *names) if _hidden(name)]
        files += [Path(at, name) for name in names if not _hidden(name)]
        folders[:] = [name for name in folders if not _hidden(name)]
    return sorted(files, key=lambda f: f.as_posix())


def _refuse(error: OSError) -> None:
    raise error


def _beside(root: Path) -> list[str]:
    """A note on split folders next to a folder that is itself named like one."""
    parent = root.absolute().parent
    if SPLIT_NAMES.get(root.absolute().name.lower()) != "train":
        return []
    near = [
        f.name for f in sub_folders(parent) if SPLIT_NAMES.get(f.name.lower()) in ("val", "test")
    ]
    return [f"{listed(near)} beside {root} is not used; give {root.parent}"] if near else []


def _instead(root: Path, loose: list[Path], empty: list[str], others: list[Path], kind: str) -> str:
    """The end of the sentence about a folder without files of the kind in class folders."""
    if loose and not empty:
        return (
            f"{root} holds {len(loose)} {kind}s but no class folders: move each {kind} into a "
            "folder named by its class"
        )
    if empty:
        kinds = sorted({f.suffix or f.name for f in others})
        what = f", only {listed(kinds)} files" if kinds else ""
        return f"the folders in {root} ({listed(empty)}) hold no {kind}s{what}"
    return f"{root} holds no class folders" if any(root.iterdir()) else f"{root} is empty"


def _below(root: Path) -> Callable[[Path], str]:
    return lambda path: path.relative_to(root).as_posix()


def _note(notes: list[str], text: str, items: list, name: Callable = str) -> None:
    if items:
        notes.append(f"{text}: {len(items)} ({listed(map(name, items))})")


def _note_hidden(notes: list[str], root: Path, hidden: list[Path]) -> None:
    _note(notes, f"{root}: left out, hidden or made by a machine", sorted(hidden), _below(root))
