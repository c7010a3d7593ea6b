"""Which rows come when: pure functions of (seed, epoch), whatever ran before.

So an epoch that is resumed has the order that it would have had, on any number of workers. Both
samplers are DistributedSamplers only so that Lightning leaves them as they are.
"""

import hashlib
from collections.abc import Iterator
from itertools import chain, cycle, islice
from typing import Any, cast

import torch
from torch.utils.data import DistributedSampler


def stream_seed(*parts: int | str) -> int:
    """One of 2**63 seeds for a stream of random numbers; other parts give an unrelated stream."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def permutation(count: int, *parts: int | str) -> list[int]:
    """0 ... count - 1 in an order that depends on `parts` alone."""
    generator = torch.Generator().manual_seed(stream_seed(*parts))
    return torch.randperm(count, generator=generator).tolist()


class TrainSampler(DistributedSampler[Any]):
    """Yields (epoch, row) in the order of `permutation(rows, seed, "order", epoch)`.

    Rank r of W takes every W-th row from the r-th on, so that W ranks with batch B see together
    what one process with batch W * B sees. If W does not divide the rows, up to W - 1 rows of the
    epoch's beginning come once more at its end, since all ranks must make as many steps.
    """

    def __init__(self, rows: int, seed: int, rank: int = 0, world: int = 1):
        super().__init__(cast(Any, range(rows)), world, rank, seed=seed)
        self.rows, self.world = rows, world

    def __iter__(self) -> Iterator[tuple[int, int]]:
        order = permutation(self.rows, self.seed, "order", self.epoch)
        whole = islice(chain(order, cycle(order)), len(self) * self.world)
        return ((self.epoch, row) for row in islice(whole, self.rank, None, self.world))

    def __len__(self) -> int:
        return -(-self.rows // self.world)


class EvalSampler(DistributedSampler[Any]):
    """Yields rows in order, each to exactly one rank: some ranks get one row less, none twice."""

    def __init__(self, rows: int, rank: int = 0, world: int = 1):
        super().__init__(cast(Any, range(rows)), world, rank, shuffle=False)
        self.share = range(rank, rows, world)

    def __iter__(self) -> Iterator[int]:
        return iter(self.share)

    def __len__(self) -> int:
        return len(self.share)
