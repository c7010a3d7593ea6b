"""Pictures without labels, in any folder or in a table's column -> Splits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.data.check import duplicate_notes, look_all, look_at, picture_notes, report_unreadable
from zoo.data.columns import input_of
from zoo.data.divide import check_sides, divide
from zoo.data.folder import share_or_path
from zoo.data.layout import existing_folder, files_below, find_splits, is_kind
from zoo.data.splits import Column, Rows, Splits, fingerprint
from zoo.data.table import is_table, place_of, read_tables
from zoo.errors import UserError
from zoo.inputs.names import listed, printable

LABELS = ("picture",)  # all are one class
ORDER = ("train", "val", "test")
Found = tuple[Path, Any]  # the folder or table, and its samples


def unlabelled_splits(config: Any, seed: int) -> Splits:
    """`config.train`, a folder of pictures at any depth, or of train, val and test folders; or a
    table with a column of pictures.

    `config.val` and `config.test` are a source of their own, a share of train, or None. UserError
    where there are no pictures, or one cannot be read.
    """
    found, notes = pictures_in(config.train, "data.train", config)
    if "train" not in found:
        raise UserError(f"data.train takes a source with a train split; {config.train} has none")
    shares: dict[str, float | str] = {}
    for split in ("test", "val"):
        given = share_or_path(getattr(config, split), f"data.{split}")
        if isinstance(given, Path):
            other, more = pictures_in(given, f"data.{split}", config)
            found[split] = other.get(split) or next(iter(other.values()))
            notes += more
        elif given is not None and split not in found:
            shares[split] = given
    rows, bad = {}, []
    for split in (s for s in ORDER if s in found):
        rows[split], some, told = rows_of(*found[split], config.on_bad)
        bad += some
        notes += told
    for split, share in shares.items():
        rows[split], rows["train"], note = divide(
            rows["train"], share, seed, split, config, "pictures"
        )
        notes.append(note)
    if config.group is not None or config.time is not None:
        notes += check_sides(rows, config)
    return finish(rows, notes, bad, config.group is not None)


def unlabelled_held_out(config: Any) -> Splits:
    """What `config.test` holds alone -> Splits with `test`."""
    found, notes = pictures_in(config.test, "data.test", config)
    some = found.get("test") or found.get("val") or next(iter(found.values()))
    rows, bad, told = rows_of(*some, config.on_bad)
    return finish({"test": rows}, notes + told, bad)


def pictures_in(path: Any, key: str, config: Any) -> tuple[dict[str, Found], list[str]]:
    """A source -> the pictures of each split, and notes."""
    notes: list[str] = []
    if not is_table(path):
        folders, notes = find_splits(existing_folder(path, key, "unlabelled"), key, "unlabelled")
        found: dict[str, Found] = {}
        for split, folder in folders.items():
            files = [f for f in files_below(folder, []) if is_kind(f, "picture")]
            if not files:
                raise UserError(f"{key} takes a folder of pictures; {folder} holds none")
            found[split] = (folder, tuple(files))
        return found, notes
    tables = {}
    for split, table in read_tables(path, key).items():
        root = place_of(path, split)
        name, note = input_of(table, "picture", config.input, root, "--data.input")
        notes += [note] if note else []
        tables[split] = (root, Column.of(table, name, root))
    return tables, list(dict.fromkeys(notes))


def rows_of(root: Path, items: Sequence[Any], on_bad: str) -> tuple[Rows, list[str], list[str]]:
    """The pictures that can be read, a line for each other, and notes on what their files were."""
    looks = look_all(items, look_at("picture"), "pictures")
    table = items if isinstance(items, Column) else None
    seen = {table.name_of(i) if table else printable(items[i]): look
            for i, look in enumerate(looks)}  # fmt: skip
    bad = list(report_unreadable(seen, on_bad))
    good = [i for i, look in enumerate(looks) if not look.reason]
    if not good:
        raise UserError(f"data takes pictures that can be read; all of {root} are left out")
    kept = table.pick(good) if table else tuple(items[i] for i in good)
    facts = ("length", "values", "digest")
    sizes, values, digests = (tuple(getattr(looks[i], name) for i in good) for name in facts)
    rows = Rows(root, kept, (0,) * len(good), 1, sizes, values, digests)
    return rows, bad, picture_notes([looks[i].marks for i in good], rows.name)


def finish(
    rows: Mapping[str, Rows], notes: list[str], bad: list[str], grouped: bool = False
) -> Splits:
    """With the notes on what each split holds."""
    data = {split: rows[split] for split in ORDER if split in rows}
    notes += [f"{split}: {len(part)} pictures in {part.root}" for split, part in data.items()]
    notes += [f"left out {len(bad)} unreadable pictures: {listed(bad)}"] if bad else []
    return Splits(
        LABELS,
        data.get("train"),
        data.get("val"),
        data.get("test"),
        fingerprint(LABELS, data),
        "pixels",
        (*notes, *duplicate_notes(data, grouped=grouped)),
        tuple(bad),
    )
