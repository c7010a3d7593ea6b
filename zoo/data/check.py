"""Every picture is decoded once before anything is trained."""

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from zoo.data.splits import Rows
from zoo.errors import UserError
from zoo.inputs.image import PictureError, decode_image
from zoo.inputs.names import is_text, listed, printable

EVERY = 5.0  # seconds between two lines on how far the check is
log = logging.getLogger("zoo")


class Seen(NamedTuple):
    """What one look at a file told."""

    length: int = 0
    """Of the file, in bytes."""
    pixels: int = 0
    digest: bytes = b""
    """Of the decoded picture, so the same picture in another file has the same."""
    reason: str = ""
    """Why it cannot be read; "" if it can."""


def cores() -> int:
    """Processor cores that this process may use."""
    can_ask = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if can_ask else os.cpu_count() or 1


def look_at(paths: Sequence[Path]) -> dict[Path, Seen]:
    """Decode each file once, on all cores (Pillow decodes outside of Python's lock).

    Logs how far it is every `EVERY` seconds, so that a short check says nothing.
    """
    seen: dict[Path, Seen] = {}
    due = monotonic() + EVERY
    with ThreadPoolExecutor(cores()) as pool:
        for path, found in zip(paths, pool.map(_look, paths), strict=True):
            seen[path] = found
            if monotonic() >= due:
                due = monotonic() + EVERY
                # a warning, since that is shown even where nobody has set logging up
                log.warning("checked %d of %d pictures", len(seen), len(paths))
    return seen


def report_unreadable(seen: Mapping[Path, Seen], on_bad: str) -> tuple[str, ...]:
    """A line for each unreadable file, which `on_bad` "skip" allows; else a UserError of them."""
    lines = tuple(
        f"{printable(path)}: {found.reason}" for path, found in seen.items() if found.reason
    )
    if lines and on_bad != "skip":
        raise UserError(
            f"data takes readable pictures; {len(lines)} of {len(seen)} cannot be read "
            f"({listed(lines)}): replace or delete them, or leave them out with --data.on_bad skip"
        )
    return lines


def duplicate_notes(splits: Mapping[str, Rows], seen: Mapping[Path, Seen]) -> list[str]:
    """A note for each pair of splits that share pictures, and one for pictures of two classes."""
    notes: list[str] = []
    first: dict[bytes, tuple[str, int]] = {}  # digest -> where it was seen first
    for split, rows in splits.items():
        shared: dict[str, list[tuple[int, str]]] = {}
        clashes: list[tuple[int, str]] = []
        for row, path in enumerate(rows.paths):
            other, twin = first.setdefault(seen[path].digest, (split, row))
            name = splits[other].name(twin)
            if other != split:
                shared.setdefault(other, []).append((row, name))
            elif rows.targets[twin] != rows.targets[row]:
                clashes.append((row, name))
        for other, pairs in shared.items():
            row, name = pairs[0]
            notes.append(
                f"{len(pairs)} of {len(rows)} pictures of {split} are also in {other}, pixel for "
                f"pixel ({rows.name(row)} = {name})"
            )
        if clashes:
            row, name = clashes[0]
            notes.append(
                f"{len(clashes)} pictures of {split} are there under two classes, pixel for pixel "
                f"({rows.name(row)} = {name})"
            )
    return notes


def _look(path: Path) -> Seen:
    if not is_text(path):
        return Seen(reason="its path is not UTF-8: rename it")
    try:
        picture = decode_image(path)
        digest = hashlib.blake2b(picture.tobytes(), digest_size=16, key=b"%dx%d" % picture.size)
        size = path.stat().st_size
    except PictureError as error:
        return Seen(reason=error.reason)
    return Seen(size, picture.width * picture.height, digest.digest())
