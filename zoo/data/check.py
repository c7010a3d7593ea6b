"""Every sample is decoded once before anything is trained."""

import hashlib
import logging
import math
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from zoo.data.splits import Column, Rows
from zoo.errors import SampleError, UserError
from zoo.inputs.image import WHITES, Marks, decode_marked
from zoo.inputs.names import LISTED, is_text, listed, printable
from zoo.inputs.sound import HOP, read_sound

T = TypeVar("T")
EVERY = 5.0  # seconds between two lines on how far the check is
TWELVE = 4095  # the most in 12 bits, which scanners and cameras put into files of 16
log = logging.getLogger("zoo")


class Seen(NamedTuple):
    """What one look at a file told."""

    length: int = 0
    """Of the file, in bytes; of a cell, its checksum."""
    values: int = 0
    """How many there are once it is loaded: pixels, characters, moments."""
    digest: bytes = b""
    """Of the decoded sample, so the same picture in another file has the same."""
    reason: str = ""
    """Why it cannot be read; "" if it can."""
    marks: Marks = Marks()
    """Of a picture: what its file was."""


def cores() -> int:
    """Processor cores that this process may use."""
    can_ask = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if can_ask else os.cpu_count() or 1


def look_all(items: Sequence[Any], look: Callable[[Any], T], what: str) -> list[T]:
    """Look at each sample once, on all cores (decoders work outside of Python's lock).

    A sample is read by the thread that looks at it, so that few are in memory at a time. Logs how
    far it is every `EVERY` seconds, so that a short check says nothing.
    """
    seen: list[T] = []
    due = monotonic() + EVERY
    with ThreadPoolExecutor(cores()) as pool:
        for found in pool.map(lambda i: look(items[i]), range(len(items))):
            seen.append(found)
            if monotonic() >= due:
                due = monotonic() + EVERY
                # a warning, since that is shown even where nobody has set logging up
                log.warning("checked %d of %d %s", len(seen), len(items), what)
    return seen


def look_at(kind: str) -> Callable[[Any], Seen]:
    """What looks at one sample: a text, or a picture or sound by its path or its bytes."""
    return {"text": _look_at_text, "picture": _look_at_picture, "sound": _look_at_sound}[kind]


def _look_at_text(text: str | None) -> Seen:
    if text is not None and not isinstance(text, str):
        return Seen(reason=f"{text!r} is no text")
    data = (text or "").encode("utf-8", "surrogatepass")
    read = (text or "").strip().encode("utf-8", "surrogatepass")  # blanks around it do not count
    digest = hashlib.blake2b(read, digest_size=16).digest()
    return Seen(zlib.crc32(data), len(data), digest)


def report_unreadable(
    seen: Mapping[Any, Seen], on_bad: str, what: str = "pictures"
) -> tuple[str, ...]:
    """A line for each unreadable sample, which `on_bad` "skip" allows; else a UserError of them."""
    lines = tuple(
        f"{printable(name)}: {found.reason}" for name, found in seen.items() if found.reason
    )
    if lines and on_bad != "skip":
        raise UserError(
            f"data takes readable {what}; {len(lines)} of {len(seen)} cannot be read "
            f"({listed(lines)}): replace or delete them, or leave them out with --data.on_bad skip"
        )
    return lines


def duplicate_notes(
    splits: Mapping[str, Rows], what: str = "pictures", grouped: bool = False
) -> list[str]:
    """A note for each pair of splits that share samples, and one for samples of two targets.
    `grouped`: whether `data.group` is given already, which else is what to do."""
    same = {"pictures": "pixel for pixel", "sounds": "sample for sample"}.get(what, "equal")
    table = any(isinstance(rows.items, Column) for rows in splits.values())
    hint = "; --data.group COLUMN keeps what belongs together on one side" * (table and not grouped)
    notes: list[str] = []
    first: dict[bytes, tuple[str, int]] = {}  # digest -> where it was seen first
    for split, rows in splits.items():
        shared: dict[str, list[tuple[int, str]]] = {}
        clashes: list[tuple[int, str]] = []
        for row, digest in enumerate(rows.digests):
            other, twin = first.setdefault(digest, (split, row))
            name = splits[other].name(twin)
            if other != split:
                shared.setdefault(other, []).append((row, name))
            elif rows.targets[twin] != rows.targets[row]:
                clashes.append((row, name))
        for other, pairs in shared.items():
            row, name = pairs[0]
            notes.append(
                f"{len(pairs)} of {len(rows)} {what} of {split} are also in {other}, {same} "
                f"({rows.name(row)} = {name}){hint}"
            )
        if clashes:
            row, name = clashes[0]
            kinds = "classes" if isinstance(rows.targets[row], int) else "targets"
            notes.append(
                f"{len(clashes)} {what} of {split} are there under two {kinds}, {same} "
                f"({rows.name(row)} = {name})"
            )
    return notes


def picture_notes(marks: Sequence[Marks], name: Callable[[int], str]) -> list[str]:
    """What the files of a data set's pictures were, and the name of each by its place -> notes: how
    many were turned, had transparency or more than 8 bits, and on scales that may be wrong."""
    deep = [i for i, one in enumerate(marks) if one.white]
    counts = {
        "are turned upright (EXIF)": sum(one.turned for one in marks),
        "have transparent pixels and lie on white, or the model's own background":
            sum(one.clear for one in marks),
        "have more than 8 bits, which are scaled to 8": len(deep),
    }  # fmt: skip
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    notes = [f"of {len(marks)} pictures {told}"] if told else []
    ranges: dict[int, list[int]] = {}
    for i in deep:
        if not marks[i].stated and marks[i].high > 0:  # black is black on every scale
            ranges.setdefault(marks[i].white, []).append(i)
    if len(ranges) > 1:
        each = (f"{len(at)} as 0 to {top} ({name(at[0])})" for top, at in sorted(ranges.items()))
        notes.append(
            "pictures whose files do not say what white is are read on different scales, each by "
            f"its own largest value: {', '.join(each)}; if they were made alike, save them as PNG "
            "of 8 or 16 bits"
        )
    over = [i for i in deep if marks[i].over]
    if over:
        names = listed(map(name, over[:LISTED]))
        notes.append(
            f"{len(over)} pictures hold values a little outside of their scale, which are cut off "
            f"({names}{', ...' if len(over) > LISTED else ''})"
        )
    wide = [marks[i].high for i in deep if marks[i].white == WHITES[-1]]
    most = math.ceil(max(wide, default=0))
    if 0 < most <= TWELVE:
        bits = most.bit_length()
        notes.append(
            f"no value of the {len(wide)} pictures of 16 bits is above {most} of {WHITES[-1]}, so "
            f"they are dark and have at most {round(most / 257) + 1} of 256 levels: if they hold "
            f"{bits} bits, multiply their values by {2 ** (16 - bits)} and save them anew"
        )
    return notes


def _look_at_picture(source: Path | bytes) -> Seen:
    try:
        picture, marks = decode_marked(_named(source))
        digest = hashlib.blake2b(picture.tobytes(), digest_size=16, key=b"%dx%d" % picture.size)
        count = picture.width * picture.height
        return Seen(_size(source), count, digest.digest(), marks=marks)
    except SampleError as error:
        return Seen(reason=error.reason)


def _look_at_sound(source: Path | bytes) -> Seen:
    try:
        wave, rate = read_sound(_named(source))
        digest = hashlib.blake2b(wave.numpy().tobytes(), digest_size=16, key=b"%d" % rate)
        return Seen(_size(source), math.ceil(len(wave) / rate / HOP), digest.digest())
    except SampleError as error:
        return Seen(reason=error.reason)


def _named(source: Path | bytes) -> Path | bytes:
    """SampleError for what is no file, and for a path that no later file or log could name."""
    if source is None:
        raise SampleError("its cell is empty")
    if not isinstance(source, (Path, bytes)):
        raise SampleError(f"it is neither a file's path nor its bytes but {source!r}")
    if isinstance(source, Path) and not is_text(source):
        raise SampleError("its path is not UTF-8: rename it")
    return source


def _size(source: Path | bytes) -> int:
    return zlib.crc32(source) if isinstance(source, bytes) else source.stat().st_size
