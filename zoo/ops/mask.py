"""Which token may attend to which: said once as facts, lowered to a tensor in one place."""

from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from zoo.errors import ShapeError


@dataclass(frozen=True)
class Mask:
    """What may attend; True always means "may". All facts hold at once.

    `dense` draws it. Six tokens, causal, looking back two at most, the first of them padding:

        Mask(keep=[[0, 1, 1, 1, 1, 1]], causal=True, left=2)
            . . . . . .
            . 1 . . . .
            . 1 1 . . .
            . 1 1 1 . .
            . . 1 1 1 .
            . . . 1 1 1
    """

    keep: Tensor | None = None
    """(B, S) bool: the keys that are real tokens."""
    causal: bool = False
    """Only keys at or before the query."""
    left: int | None = None
    """At most so many keys back; None = no limit."""
    right: int | None = None
    """At most so many keys ahead; None = no limit."""
    sample: Tensor | None = None
    """(B, S) int: which of the samples packed in a row each token is of; only those of one
    attend."""
    pairs: Tensor | None = None
    """bool, broadcastable to (B, H, T, S), or (n, ...) where n divides B and repeats: any further
    rule."""
    order: Tensor | None = None
    """(B or 1, S) int: what is counted for left and right; None = one after another."""

    @property
    def only_causal(self) -> bool:
        """Whether a kernel's own causal flag says it all."""
        others = (self.keep, self.left, self.right, self.sample, self.pairs)
        return self.causal and all(fact is None for fact in others)

    def dense(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """-> bool, broadcastable to (B, H, T, S), or None where everything may attend.

        The queries are the last of the keys, as they are behind a cache.
        """
        left, right, rules = self.left, 0 if self.causal else self.right, []
        if left is not None or right is not None:
            if queries > keys:
                got = f"{queries} queries, {keys} keys"
                raise ShapeError(f"Mask takes as many keys as queries or more; got {got}")
            k = torch.arange(keys, device=device) if self.order is None else self.order[:, None]
            # (T, S) or (B or 1, 1, T, S): how far a key lies behind its query
            back = k[..., keys - queries :, None] - k[..., None, :]
            rules += [] if left is None else [back <= left]
            rules += [] if right is None else [back >= -right]
        if self.keep is not None:
            rules.append(self.keep[:, None, None, :])
        if self.sample is not None:
            rules.append((self.sample[:, keys - queries :, None] == self.sample[:, None])[:, None])
        if self.pairs is not None:
            rules.append(self.pairs)
        return reduce(both, rules) if rules else None


def both(a: Tensor, b: Tensor) -> Tensor:
    """(B or n, ...) bool, (B or n, ...) bool -> (B, ...) bool: what two rules allow together."""
    return repeat_to(a, b) & repeat_to(b, a)


def repeat_to(x: Tensor, other: Tensor) -> Tensor:
    """(n, ...), (B, ...) -> (B, ...) where n divides B and is not 1: what holds for groups of each
    sample."""
    if x.ndim < 4 or other.ndim < 4 or x.shape[0] == 1 or x.shape[0] >= other.shape[0]:
        return x
    return x.repeat(other.shape[0] // x.shape[0], *(1,) * (x.ndim - 1))
