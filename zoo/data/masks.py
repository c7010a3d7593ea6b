"""Pictures with masks, in folders or a table -> Splits. All that can be wrong is said here."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from zoo.data.check import look_all
from zoo.data.columns import input_of, told_of
from zoo.data.layout import existing_folder, find_splits
from zoo.data.pairs import (
    ORDER,
    Pairs,
    Source,
    divided,
    gather,
    held_out_source,
    pairs_in,
    seen_notes,
    splits_of,
    usable,
)
from zoo.data.splits import Column, Rows, Splits
from zoo.data.table import is_table, place_of, read_tables
from zoo.errors import UserError
from zoo.inputs.image import Marks, decode_marked
from zoo.inputs.names import is_text, listed
from zoo.inputs.scene import Pair, decode_mask, same_size, values_in


class Look(NamedTuple):
    """What one look at a pair told."""

    present: Mapping[int, int] = MappingProxyType({})
    """The values in its mask, and how many pixels have each."""
    pixels: int = 0
    length: int = 0
    """Of both files, in bytes; of cells, their checksum."""
    digest: bytes = b""
    reason: str = ""
    """Why it cannot be used; "" if it can."""
    marks: Marks = Marks()
    """What the picture's file was."""


def mask_splits(config: Any, seed: int) -> Splits:
    """`config.train`, a folder or a table, such as `sources_in` takes -> Splits of pairs.

    Each value in the masks of train is a class, and named after it; `config.ignore` is none, but
    where masks hold it and 0 alone. `config.val` and `config.test` are a source of their own, a
    share of train, or None. UserError for whatever cannot be trained on: a picture without a mask,
    a mask of another size, a value that train lacks.
    """
    sources, shares, notes = gather(config, sources_in)
    looks = {split: look(sources[split], split) for split in ORDER if split in sources}
    good, bad = usable(sources, looks, config.on_bad, "masks")
    notes += seen_notes(sources, looks, good)
    present = {v for i in good["train"] for v in looks["train"][i].present}
    values = values_in(sorted(present), config.ignore, sources["train"].root)
    rows = {s: rows_of(sources[s], looks[s], good[s], values, config.ignore) for s in looks}
    notes += divided(rows, shares, seed, config)
    return finish(rows, values, config, notes, bad)


def mask_held_out(config: Any, labels: Sequence[str]) -> Splits:
    """What `config.test` holds alone, under the labels of a model -> Splits with `test`."""
    source, notes = held_out_source(config, sources_in)
    looks, values = look(source, "test"), tuple(int(label) for label in labels)
    good, bad = usable({"test": source}, {"test": looks}, config.on_bad, "masks")
    notes += seen_notes({"test": source}, {"test": looks}, good)
    rows = {"test": rows_of(source, looks, good["test"], values, config.ignore)}
    return finish(rows, values, config, notes, bad)


def sources_in(path: Any, key: str, config: Any) -> tuple[dict[str, Source], list[str]]:
    """A folder with images/ and masks/, or with train, val and test folders of such; or a table
    with a column of pictures and one of masks -> the pairs of each split, and notes."""
    if not is_table(path):
        for name in ("group", "time"):
            if getattr(config, name) is not None:
                raise UserError(f"data.{name} takes a column of a table; {path} is a folder")
        folders, notes = find_splits(existing_folder(path, key, "scene"), key, "scene")
        return {split: pairs_in(folder, key, notes) for split, folder in folders.items()}, notes
    sources, notes = {}, []
    for split, table in read_tables(path, key).items():
        root = place_of(path, split)
        wants = f"{key} takes a column of masks"
        mask, more = told_of(table.column_names, "mask", config.label, root, wants)
        picture, note = input_of(table, "picture", config.input, root, "--data.input", mask)
        notes += [*more, note] if note else more
        both = (Column.of(table, name, root) for name in (picture, mask))
        sources[split] = Source(root, Pairs(*both))
    return sources, list(dict.fromkeys(notes))


def look(source: Source, split: str) -> list[Look]:
    """Look at each pair once."""
    return look_all(source.pairs, look_at_pair, f"pictures with masks of {split}")


def look_at_pair(pair: Pair) -> Look:
    """A pair -> what is in it."""
    for part in pair:
        if not isinstance(part, (Path, bytes)) or (isinstance(part, Path) and not is_text(part)):
            return Look(reason=f"{part!r} is neither a file's path in UTF-8 nor its bytes")
    try:
        (picture, marks), mask = decode_marked(pair.picture), decode_mask(pair.mask)
        same_size(picture, mask, pair)
    except UserError as error:
        return Look(reason=getattr(error, "reason", str(error)))
    digest = hashlib.blake2b(picture.tobytes(), digest_size=16, key=b"%dx%d" % picture.size)
    length = sum(zlib.crc32(p) if isinstance(p, bytes) else p.stat().st_size for p in pair)
    values, counts = np.unique(mask, return_counts=True)
    present = dict(zip(values.tolist(), counts.tolist(), strict=True))
    return Look(present, mask.size, length, digest.digest(), marks=marks)


def rows_of(
    source: Source, looks: list[Look], good: list[int], values: tuple[int, ...], ignore: int | None
) -> Rows:
    """A split's rows; the target of each is which classes are in its mask. UserError for a value
    that is no class."""
    known = {*values, ignore}
    other = {source.pairs.name(i, source.root): {*looks[i].present} - known for i in good}
    wrong = [f"{name}: {listed(sorted(found))}" for name, found in other.items() if found]
    if wrong:
        raise UserError(
            f"data takes masks of train's values ({listed(values)}); {len(wrong)} in {source.root} "
            f"hold others ({listed(wrong)}): correct them, or --data.ignore what does not count"
        )
    seen = [looks[i] for i in good]
    return Rows(
        source.root,
        source.pairs.pick(good),
        tuple(tuple(int(value in one.present) for value in values) for one in seen),
        len(values),
        tuple(one.length for one in seen),
        tuple(one.pixels for one in seen),
        tuple(one.digest for one in seen),
        tuple(tuple(one.present.get(value, 0) for value in values) for one in seen),
    )


def finish(
    rows: Mapping[str, Rows], values: tuple[int, ...], config: Any, notes: list[str], bad: list[str]
) -> Splits:
    """With the notes on what each split holds."""
    labels, data = tuple(map(str, values)), {s: rows[s] for s in ORDER if s in rows}
    for split, part in data.items():
        held = zip(labels, part.counts(), strict=True)
        notes.append(
            f"{split}: {len(part)} pictures with masks in {part.root}; "
            f"{listed((f'{label} is in {count}' for label, count in held), 8)}"
        )
    if config.ignore is not None and config.ignore not in values:
        notes.append(f"pixels of {config.ignore} do not count (--data.ignore)")
    splits = splits_of(labels, data, "mask", notes, bad)
    return replace(splits, baselines=baselines(data))


def baselines(data: Mapping[str, Rows]) -> dict[str, dict[str, dict[str, float]]]:
    """The metrics of an answer that takes no model: train's commonest class for every pixel of the
    masks as they are, and as its loss that of guessing by the shares of train."""
    counts = {split: np.asarray(part.pixels, np.float64).sum(0) for split, part in data.items()}
    if "train" not in counts:
        return {}
    train, known = counts.pop("train"), {}
    most, chance = train.argmax(), train.clip(1) / train.sum()  # a share may have left a class out
    for split, count in counts.items():
        hit = float(count[most] / count.sum())
        seen = int(np.count_nonzero(count)) + (count[most] == 0)  # among targets and answers
        loss = float(-(count * np.log(chance)).sum() / count.sum())
        values = {"loss": loss, "mean_iou": hit / seen, "pixel_accuracy": hit}
        known[split] = {"always the commonest class": {k: round(v, 6) for k, v in values.items()}}
    return known
