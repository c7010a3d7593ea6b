"""Pictures and what is told of each: found, looked at and divided alike, whatever is told."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.check import duplicate_notes, picture_notes
from zoo.data.columns import check_beside, split_here, splits_told
from zoo.data.divide import check_sides, divide
from zoo.data.folder import share_or_path
from zoo.data.layout import files_below, is_kind
from zoo.data.splits import Column, Rows, Splits, fingerprint
from zoo.errors import UserError
from zoo.inputs.names import listed, printable
from zoo.inputs.scene import Pair

ORDER = ("train", "val", "test")
ONE = {"masks": "mask", "instances": "picture of numbers"}  # in words
# around their names
PICTURED = {*"img im image picture photo rgb input sat".split()}


@dataclass(frozen=True)
class Pairs(Sequence[Any]):
    """Pictures, each with what is told of it, read when they are asked for."""

    pictures: Any
    """Paths, or a Column."""
    told: Any
    """Of each, in the same order; what is read of it: paths or a Column too."""
    kind: Any = Pair
    """What a picture and what is told of it make together."""

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: Any) -> Any:
        return self.kind(self.pictures[row], self.told[row])

    @property
    def table(self) -> Any:
        """That of the pictures."""
        return self.pictures.table

    @property
    def order(self) -> tuple[int, ...]:
        """Row numbers of the table."""
        return self.pictures.order

    def pick(self, chosen: Iterable[int]) -> "Pairs":
        """The same with some of its pairs."""
        order = tuple(chosen)

        def some(items: Any) -> Any:
            lazy = isinstance(items, Column)
            return items.pick(order) if lazy else tuple(items[i] for i in order)

        return Pairs(some(self.pictures), some(self.told), self.kind)

    def name(self, row: int, root: Path) -> str:
        """A picture's path below its folder, or its row in the table."""
        if isinstance(self.pictures, Column):
            return f"{root.name} {self.pictures.name_of(row)}"
        return printable(self.pictures[row])


class Source(NamedTuple):
    """Where a split's pairs are."""

    root: Path
    pairs: Pairs


Finder = Callable[[Any, str, Any], tuple[dict[str, Source], list[str]]]


def gather(config: Any, sources_in: Finder) -> tuple[dict[str, Source], dict[str, Any], list[str]]:
    """`config.train`, `val` and `test` -> the sources that are given, the shares of train or dates
    that stand for others, and notes. `sources_in` reads one: (path, key, config) -> the source of
    each split, and notes."""
    sources, notes = sources_in(config.train, "data.train", config)
    told: list[str] = []
    if "train" not in sources:
        raise UserError(f"data.train takes a source with a train split; {config.train} has none")
    if len(sources) == 1:
        sources, told = by_column(sources["train"], config.split)
        notes += told
    sides = sources if told else ()
    shares: dict[str, float | str] = {}
    for split in ("test", "val"):
        given = share_or_path(getattr(config, split), f"data.{split}")
        if isinstance(given, Path) and config.time is not None and not given.exists():
            shares[split] = str(given)
        elif isinstance(given, Path):
            check_beside(split, sides, config.train)
            found, more = sources_in(given, f"data.{split}", config)
            sources[split] = found.get(split) or next(iter(found.values()))
            notes += more
        elif given is not None and split not in sources:
            shares[split] = given
    return sources, shares, notes


def by_column(source: Source, given: str) -> tuple[dict[str, Source], list[str]]:
    """A source -> that of each split, where a column of its table tells them (see `splits_told`),
    and the note."""
    root, pairs = source
    if not isinstance(pairs.pictures, Column):
        return {"train": source}, []
    sides, notes = splits_told(pairs.table, root, given)
    each = [sides[row] for row in pairs.order] if sides else ["train"] * len(pairs)
    return {
        split: Source(root, pairs.pick(i for i, side in enumerate(each) if side == split))
        for split in ORDER
        if split in each
    }, notes


def held_out_source(config: Any, sources_in: Finder) -> tuple[Source, list[str]]:
    """What `config.test` holds alone, and notes."""
    found, notes = sources_in(config.test, "data.test", config)
    if len(found) == 1:
        source = next(iter(found.values()))
        table = getattr(source.pairs.pictures, "table", None)
        split = split_here(config.split, getattr(table, "column_names", ()))
        found, told = by_column(source, split)
        notes += told
    return found.get("test") or found.get("val") or next(iter(found.values())), notes


def usable(
    sources: Mapping[str, Source], looks: Mapping[str, list[Any]], on_bad: str, what: str
) -> tuple[dict[str, list[int]], list[str]]:
    """The rows of each split that can be used, and a line for each other, which `on_bad` "skip"
    allows; else a UserError of them."""
    good = {split: [i for i, one in enumerate(each) if not one.reason]
            for split, each in looks.items()}  # fmt: skip
    bad = [
        f"{sources[split].pairs.name(i, sources[split].root)}: {one.reason}"
        for split, each in looks.items()
        for i, one in enumerate(each)
        if one.reason
    ]
    if bad and on_bad != "skip":
        every = sum(map(len, looks.values()))
        raise UserError(
            f"data takes pictures with {what} that fit; {len(bad)} of {every} "
            f"do not ({listed(bad)}): correct or delete them, or leave them out with "
            "--data.on_bad skip"
        )
    for split, rows in good.items():
        if not rows:
            raise UserError(f"data takes pictures with {what}; all of {split} are left out")
    return good, bad


def seen_notes(
    sources: Mapping[str, Source], looks: Mapping[str, list[Any]], good: Mapping[str, Sequence[int]]
) -> list[str]:
    """Notes on what the pictures' files were."""
    every = [(split, i) for split, rows in good.items() for i in rows]

    def name(place: int) -> str:
        split, i = every[place]
        return sources[split].pairs.name(i, sources[split].root)

    return picture_notes([looks[split][i].marks for split, i in every], name)


def divided(rows: dict[str, Rows], shares: Mapping[str, Any], seed: int, config: Any) -> list[str]:
    """Take the shares out of train, see that groups and times keep to their sides -> notes."""
    notes = []
    for split, share in shares.items():
        rows[split], rows["train"], note = divide(
            rows["train"], share, seed, split, config, "pictures"
        )
        notes.append(note)
    if config.group is not None or config.time is not None:
        notes += check_sides(rows, config)
    return notes


def splits_of(
    labels: tuple[str, ...],
    data: Mapping[str, Rows],
    target: str,
    notes: Iterable[str],
    bad: Sequence[str],
) -> Splits:
    """The rows of each split, with the notes on what was left out and on doubles."""
    left = [f"left out {len(bad)}: {listed(bad)}"] if bad else []
    told = (*notes, *left, *duplicate_notes(data))
    train, val, test = (data.get(split) for split in ORDER)
    return Splits(labels, train, val, test, fingerprint(labels, data), target, told, tuple(bad))


def pairs_in(root: Path, key: str, notes: list[str], part: str = "masks") -> Source:
    """A folder with images/ and masks/, or another `part`, -> the pairs whose files have the same
    name but for the ending, and for what all those of a folder begin or end with (`renamed`).
    UserError for pictures that have none, or several."""
    found: dict[str, dict[str, list[Path]]] = {}
    for name in ("images", part):
        folder = root / name
        if not folder.is_dir():
            has = listed(f.name for f in sorted(root.iterdir())) or "nothing"
            wants = f"{key} takes a folder with images and {part} folders"
            raise UserError(f"{wants} of files of the same names; {root} has {has}")
        named = found.setdefault(name, {})
        for file in files_below(folder, []):
            if is_kind(file, "picture"):
                stem = file.relative_to(folder).with_suffix("").as_posix()
                named.setdefault(stem, []).append(file)
    images, masks = found["images"], found[part]
    if not {*images} & {*masks} and (others := renamed([*images], [*masks])):
        masks = found[part] = {name: masks[other] for name, other in others.items()}
        name, other = next(iter(others.items()))
        one = f"{printable(other)} is that of {printable(name)}"
        notes.append(f"{root}: {part} are those of the pictures by their names but for what all "
                     f"begin or end with ({one})")  # fmt: skip
    lacks = [name for name in images if name not in masks]
    twice = [str(f) for each in found.values() for fs in each.values() for f in fs if len(fs) > 1]
    wants = f"{key} takes one {ONE[part]} of the same name for each picture"
    if not images:
        raise UserError(f"{wants}; {root / 'images'} holds no pictures")
    if lacks:
        free = [name for name in masks if name not in images]
        has = f"; {part} holds {listed(free)} besides: rename them" if free else ": add them"
        got = f"{len(lacks)} of {len(images)} in {root} have none ({listed(lacks)})"
        raise UserError(f"{wants}; {got}{has}")
    if twice:
        raise UserError(f"{wants}; {listed(twice)} have the same: keep one of each")
    extra = [name for name in masks if name not in images]
    if extra:
        notes.append(f"{root}: left out {part} without a picture: {listed(extra)}")
    first, second = (tuple(each[name][0] for name in images) for each in (images, masks))
    return Source(root, Pairs(first, second))


def begin_with(names: Sequence[str]) -> str:
    """The characters that all names begin with."""
    return os.path.commonprefix(names)  # noqa: RUF071  # of characters, not of folders


def renamed(images: Sequence[str], masks: Sequence[str]) -> dict[str, str]:
    """Names of pictures and of masks -> {name of a picture: that of its mask}, where each is left
    with another's name once what all pictures, and what all masks, begin and end with is taken off;
    {} where that would be a guess: for a single picture, for a number too many on either side, and
    where numbers are taken off, which may count frames or patients."""
    if len(images) != len(masks) or len(images) < 2:
        return {}
    bare: list[dict[str, str]] = [{}, {}]
    around: list[tuple[str, str]] = []
    for names, found in zip((images, masks), bare, strict=True):
        first = begin_with(names)
        rests = [name[len(first) :] for name in names]
        last = begin_with([rest[::-1] for rest in rests])[::-1]
        found |= {
            rest[: len(rest) - len(last)]: name for rest, name in zip(rests, names, strict=True)
        }
        around.append((first, last))
    (first, last), (other_first, other_last) = around
    common = len(begin_with([first[::-1], other_first[::-1]]))  # of what differs, img_00
    more = len(begin_with([last, other_last]))
    of_images, of_masks = (f"{start[: len(start) - common]} {end[more:]}" for start, end in around)
    words = {word for word in re.split(r"[^a-z0-9]+", of_images.lower()) if word}
    known = {*bare[0]} == {*bare[1]} and len(bare[0]) == len(images)
    if not known or re.search(r"\d", of_images + of_masks) or not words <= PICTURED:
        return {}
    return {name: bare[1][key] for key, name in bare[0].items()}
