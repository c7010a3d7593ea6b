"""What is trained on, chosen by and tested on: rows, their labels, and how they were divided."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from zoo.data.sampling import permutation


@dataclass(frozen=True)
class Rows:
    """Files and the number of each one's class, in one order."""

    root: Path
    """The folder of class folders that they lie in."""
    paths: tuple[Path, ...]
    targets: tuple[int, ...]
    classes: int
    """How many classes there are, with or without a row here."""
    sizes: tuple[int, ...] = field(repr=False)
    """Length of each file in bytes."""
    pixels: tuple[int, ...] = field(repr=False)
    """Width times height of each picture."""

    def __len__(self) -> int:
        return len(self.paths)

    def counts(self) -> tuple[int, ...]:
        """Rows per class, in the order of the labels."""
        numbers = [0] * self.classes
        for target in self.targets:
            numbers[target] += 1
        return tuple(numbers)

    def name(self, row: int) -> str:
        """A row's path below `root`, with forward slashes."""
        return self.paths[row].relative_to(self.root).as_posix()

    def pick(self, chosen: Iterable[int]) -> "Rows":
        """The same with some of its rows."""
        order = tuple(chosen)
        columns = {
            name: tuple(getattr(self, name)[i] for i in order)
            for name in ("paths", "targets", "sizes", "pixels")
        }
        return replace(self, **columns)


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
    notes: tuple[str, ...] = ()
    """What was recognised and why, what was left out, what is doubtful: a sentence each."""
    skipped: tuple[str, ...] = field(default=(), repr=False)
    """Every unreadable file that was left out (on_bad "skip"), with the reason."""

    def rows(self) -> dict[str, Rows]:
        """The splits that there are: {"train": ..., "val": ..., "test": ...}."""
        named = {"train": self.train, "val": self.val, "test": self.test}
        return {name: rows for name, rows in named.items() if rows is not None}


def draw(targets: Sequence[int], share: float, seed: int, split: str) -> list[int]:
    """Row numbers, ascending, of a stratified share of all rows.

    A class with two rows or more keeps at least one on both sides; a class with one row is not
    drawn from. Which rows of a class are drawn depends on (seed, split, class) alone.
    """
    members: dict[int, list[int]] = defaultdict(list)
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
            f"{split}\t{labels[target]}\t{rows.name(i)}\t{rows.sizes[i]}\n"
            for i, target in enumerate(rows.targets)
        )
        digest.update("".join(lines).encode())
    return digest.hexdigest()
