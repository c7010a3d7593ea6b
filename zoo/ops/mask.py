"""Which token may attend to which: said once as facts, lowered to a tensor in one place."""

from dataclasses import dataclass, replace
from typing import Self

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

    def replace(self, **changes: object) -> Self:
        """A copy with some facts changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # the fields' own types

    @property
    def only_causal(self) -> bool:
        """Whether a kernel's own causal flag says it all."""
        others = (self.keep, self.left, self.right, self.sample, self.pairs)
        return self.causal and all(fact is None for fact in others)

    def dense(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """-> bool, broadcastable to (B, H, T, S), or None where everything may attend.

        The queries are the last of the keys, as they are behind a cache.
        """
        if queries > keys and (self.causal or self.left is not None or self.right is not None):
            raise ShapeError(
                f"Mask takes as many keys as queries or more; got {queries} queries, {keys} keys"
            )
        rules: list[Tensor] = []
        if self.causal or self.left is not None or self.right is not None:
            k = torch.arange(keys, device=device)
            back = k[keys - queries :, None] - k  # (T, S): how far a key lies behind its query
            right = 0 if self.causal else self.right
            if self.left is not None:
                rules.append(back <= self.left)
            if right is not None:
                rules.append(back >= -right)
        if self.keep is not None:
            rules.append(self.keep[:, None, None, :])
        if self.sample is not None:
            rules.append((self.sample[:, keys - queries :, None] == self.sample[:, None])[:, None])
        if self.pairs is not None:
            rules.append(self.pairs)
        if not rules:
            return None
        allowed = rules[0]
        for rule in rules[1:]:
            allowed = repeat_to(allowed, rule) & repeat_to(rule, allowed)
        return allowed


def repeat_to(x: Tensor, other: Tensor) -> Tensor:
    """(n, ...), (B, ...) -> (B, ...) where n divides B and is not 1: what holds for groups of each
    sample."""
    if x.ndim < 4 or other.ndim < 4 or len(x) == 1 or len(x) >= len(other):
        return x
    return x.repeat(len(other) // len(x), *(1,) * (x.ndim - 1))
