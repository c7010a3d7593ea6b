"""What is trained on, chosen by and tested on: rows, their labels, and how they were divided."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import numpy as np

from zoo.data.sampling import permutation
from zoo.errors import UserError
from zoo.inputs.names import listed

UNEVEN = 3  # times
FARTHEST = 1e15  # deviations of train: the square of what is farther off is no float32


@dataclass(frozen=True)
class Column(Sequence[Any]):
    """Cells of a table on disk, in an order of one's own; each is read when it is asked for."""

    table: Any
    """A `datasets.Dataset`."""
    name: str
    order: tuple[int, ...]
    """Row numbers of the table."""
    folder: Path | None = None
    """Where the files lie that cells name; None for cells that are the samples themselves."""

    @classmethod
    def of(
        cls, table: Any, name: str, place: Path | None, order: Iterable[int] | None = None
    ) -> Self:
        """Cells of a table that lies at `place`, its file or its folder, below which the files lie
        that cells name; None for cells that are the samples. All of them, or those of `order`."""
        folder = place if place is None or place.is_dir() else place.parent
        return cls(table, name, tuple(range(len(table)) if order is None else order), folder)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, row: Any) -> Any:
        cell = self.table[self.order[row]][self.name]
        if isinstance(cell, dict):  # how `datasets` stores a file: its bytes, or where it is
            cell = cell.get("path") if cell.get("bytes") is None else cell["bytes"]
        if self.folder is None and cell is None:
            return ""  # a missing text is an empty one
        if self.folder is None or not isinstance(cell, str):
            return cell
        return self.folder / cell if cell.strip() else None  # not the folder itself

    def name_of(self, row: int) -> str:
        """A row's number in the table, from 1, and the file that it names."""
        cell = self.table[self.order[row]][self.name] if self.folder else None
        cell = cell.get("path") if isinstance(cell, dict) else cell
        file = f" ({cell})" if isinstance(cell, str) and cell else ""
        return f"row {self.order[row] + 1}{file}"

    def pick(self, chosen: Iterable[int]) -> "Column":
        """The same with some of its cells."""
        return replace(self, order=tuple(self.order[i] for i in chosen))


@dataclass(frozen=True)
class Spread:
    """How the numbers of one output are spread over the rows of a split."""

    mean: float
    deviation: float
    least: float
    most: float

    @classmethod
    def of(cls, column: np.ndarray) -> "Spread":
        """The spread of a column; those who ask tell of infinite ones."""
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(*(float(f(column)) for f in (np.mean, np.std, np.min, np.max)))


@dataclass(frozen=True)
class Rows:
    """Samples and the target of each, in one order."""

    root: Path
    """The folder of class folders that they lie in, or the table that they come from."""
    items: Sequence[Any]
    """The raw samples: paths, or the cells of a column, read when they are asked for."""
    targets: Sequence[Any]
    """The number of each one's class; for several labels a tuple of 0 and 1, for numbers of
    them."""
    classes: int
    """How many classes there are, with or without a row here."""
    sizes: tuple[int, ...] = field(repr=False)
    """What tells a changed sample: the length of a file in bytes, the checksum of a cell."""
    values: tuple[int, ...] = field(repr=False)
    """How many values each sample has when loaded: pixels, characters, moments."""
    digests: tuple[bytes, ...] = field(default=(), repr=False)
    """The same for samples whose content is the same."""
    pixels: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    """Of masks: how many pixels of each class there are in each."""

    def __len__(self) -> int:
        return len(self.items)

    def counts(self) -> tuple[int, ...]:
        """Rows per class, in the order of the labels."""
        numbers = [0] * self.classes
        for target in self.targets:
            for number in labels_of(target):
                numbers[number] += 1
        return tuple(numbers)

    def spreads(self) -> tuple[Spread, ...]:
        """For targets that are numbers: how each of them spreads, a column at a time."""
        return tuple(map(Spread.of, np.asarray(self.targets, dtype=np.float64).T))

    def name(self, row: int) -> str:
        """A row's path below `root`, with forward slashes, or its number in the table."""
        items = getattr(self.items, "pictures", self.items)  # of pairs
        item = items[row] if not isinstance(items, Column) else None
        if isinstance(item, Path):
            below = item.is_relative_to(self.root)  # a list may name files anywhere
            return (item.relative_to(self.root) if below else item).as_posix()
        return f"row {items.order[row] + 1 if isinstance(items, Column) else row + 1}"

    def pick(self, chosen: Iterable[int]) -> "Rows":
        """The same with some of its rows."""
        order = tuple(chosen)
        items: Any = self.items
        lazy = hasattr(items, "pick")
        picked = items.pick(order) if lazy else tuple(items[i] for i in order)
        columns = {
            name: tuple(column[i] for i in order)
            for name in ("targets", "sizes", "values", "digests", "pixels")
            if (column := getattr(self, name))
        }
        return replace(self, items=picked, **columns)


@dataclass(frozen=True)
class Splits:
    """Checked data: every picture was decoded once, every class is one of `labels`."""

    labels: tuple[str, ...]
    """The name of each class; made from train, so the same number means the same everywhere."""
    train: Rows | None
    val: Rows | None = None
    test: Rows | None = None
    fingerprint: str = ""
    """64 hex digits of which files (names below their folders, sizes) are in which split as which
    class. Moving the folder keeps it."""
    target: str = "label"
    """label: one class each.  labels: any of them.  numbers: one number for each of `labels`."""
    notes: tuple[str, ...] = ()
    """What was recognised and why, what was left out, what is doubtful: a sentence each."""
    skipped: tuple[str, ...] = field(default=(), repr=False)
    """Every unreadable file that was left out (on_bad "skip"), with the reason."""
    scale: tuple[tuple[float, float], ...] | None = None
    """For numbers, the mean and the deviation of each in train, by which they are learned."""
    baselines: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """{split: {name: metrics}} of answers that take no model, to be reported beside it."""

    def rows(self) -> dict[str, Rows]:
        """The splits that there are: {"train": ..., "val": ..., "test": ...}."""
        named = {"train": self.train, "val": self.val, "test": self.test}
        return {name: rows for name, rows in named.items() if rows is not None}


def check_spread(name: str, spreads: Mapping[str, Spread], moves: bool = True) -> None:
    """{split: how the numbers of a column spread} -> UserError where those of train are all the
    same (if it `moves`), or those of a split so far off that no model could compute with them."""
    train = spreads["train"]
    for split, spread in spreads.items():
        got = f"those of {name} run from {spread.least:g} to {spread.most:g}"
        if split == "train":
            if not train.deviation < math.inf or (moves and train.least == train.most):
                raise UserError(f"data.train takes numbers that differ, within reason; {got}")
            continue
        far = max(abs(spread.least - train.mean), abs(spread.most - train.mean))
        if not far <= FARTHEST * (train.deviation or 1.0):
            wants = f"data.{split} takes numbers near those of train"
            raise UserError(f"{wants}, which are about {train.mean:g}; {got}: correct them")


def lacks(split: str, kind: str, labels: Sequence[str]) -> str:
    """The note on classes that have no row in a split."""
    more = "" if split == "train" else ": its macro_f1 is that of the others"
    return f"{split} has no {kind} of {listed(labels)}{more}"


def scale_of(train: Rows | None) -> tuple[tuple[float, float], ...] | None:
    """The mean and the deviation of each number in train; a deviation of 0 counts as 1."""
    return None if train is None else tuple((s.mean, s.deviation or 1.0) for s in train.spreads())


def draw_groups(groups: Sequence[Any], share: float, seed: int, split: str) -> list[int]:
    """Row numbers, ascending, of about a share of all rows, such that no group is divided.

    Groups are taken in an order that depends on (seed, split) alone, each that brings the number of
    rows nearer to the share; at least one, and never all.
    """
    members: dict[Any, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    names = sorted(members, key=str)
    drawn: list[int] = []
    wanted, taken = share * len(groups), 0
    for i in permutation(len(names), seed, split, "groups"):
        rows = members[names[i]]
        nearer = abs(wanted - len(drawn) - len(rows)) < abs(wanted - len(drawn))
        if (nearer or not taken) and taken < len(names) - 1:
            drawn, taken = drawn + rows, taken + 1
    return sorted(drawn)


def labels_of(target: Any) -> list[int]:
    """A row's target -> the numbers of its classes; none for numbers to predict."""
    if isinstance(target, int):
        return [target]
    return [i for i, has in enumerate(target) if has == 1 and isinstance(has, int)]


def histogram(labels: Sequence[str], train: Rows | None) -> list[str]:
    """A note on how many rows each class has in train, the largest first, and those of
    `nearly_alike`. Nothing for numbers."""
    counts = [] if train is None else list(zip(train.counts(), labels, strict=True))
    counts = sorted((pair for pair in counts if pair[0]), key=lambda pair: -pair[0])
    if not counts:
        return []
    each = listed((f"{n} {name}" for n, name in counts), 8)
    return [f"train has {each}", *nearly_alike(labels)]


def uneven(train: Rows | None) -> bool:
    """Whether one class of train has `UNEVEN` times as many rows as another that has any."""
    counts = [] if train is None else [n for n in train.counts() if n]
    return bool(counts) and max(counts) >= UNEVEN * min(counts)


def nearly_alike(labels: Sequence[str]) -> list[str]:
    """Notes on classes whose names are one but for capitals, as they are where people type them, or
    one number; they are kept apart, since some data mean it so (letters, codes)."""
    notes = []
    more = "each is a class of its own: write them alike if they are one"
    for how, plain in (("differ by case alone", str.casefold), ("are the same number", by_value)):
        alike: dict[str, list[str]] = defaultdict(list)
        for label in labels:
            alike[plain(label)].append(label)
        pairs = [" and ".join(map(repr, names)) for names in alike.values() if len(names) > 1]
        notes += [f"labels {listed(pairs)} {how}, and {more}"] if pairs else []
    return notes


def by_value(label: str) -> str:
    """A number in its shortest form ("01.0" -> "1"), any other label as it is."""
    try:
        return f"{Decimal(label).normalize():f}"
    except ArithmeticError:
        return label


def target_name(target: Any, labels: Sequence[str]) -> str:
    """A row's target in words."""
    return labels[target] if isinstance(target, int) else "|".join(map(str, target))


def draw(targets: Sequence[Any], share: float, seed: int, split: str) -> list[int]:
    """Row numbers, ascending, of a stratified share of all rows.

    A class with two rows or more keeps at least one on both sides; a class with one row is not
    drawn from. Which rows of a class are drawn depends on (seed, split, class) alone.
    """
    members: dict[Any, list[int]] = defaultdict(list)
    for row, target in enumerate(targets):
        members[target].append(row)
    wanted = {target: share * len(rows) for target, rows in members.items()}
    counts = {target: int(exact) for target, exact in wanted.items()}
    rest = round(sum(wanted.values())) - sum(counts.values())  # to the largest remainders
    for target in sorted(counts, key=lambda t: counts[t] - wanted[t])[:rest]:
        counts[target] += 1
    drawn: list[int] = []
    for target, rows in members.items():
        count = min(max(counts[target], 1), len(rows) - 1)
        drawn += [rows[i] for i in permutation(len(rows), seed, split, target)[:count]]
    return sorted(drawn)


def fingerprint(labels: Sequence[str], splits: Mapping[str, Rows]) -> str:
    """See Splits.fingerprint."""
    digest = hashlib.sha256()
    for split, rows in splits.items():
        lines = sorted(
            f"{split}\t{target_name(target, labels)}\t{rows.name(i)}\t{rows.sizes[i]}\n"
            for i, target in enumerate(rows.targets)
        )
        digest.update("".join(lines).encode())
    return digest.hexdigest()
