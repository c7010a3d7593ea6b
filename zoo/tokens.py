"""What adapters, backbones and heads pass to each other."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

from torch import Tensor
from torch.utils import _pytree as pytree

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Tokens:
    """A batch of token sequences. Heads see this and never the raw sample."""

    x: Tensor
    """(B, T, D) float: the tokens, `prefix` special ones first."""
    keep: Tensor | None = None
    """(B, T) bool, True = a real token; None = all are."""
    positions: Tensor | None = None
    """(B or 1, T, A) int64: the place of each token on A axes; prefix tokens stand at 0. fp32 where
    an adapter stretches them."""
    grid: Grid | None = None
    """(t, h, w) of the tokens behind the prefix; None once tokens were dropped or joined."""
    dropped_from: Grid | None = None
    """(t, h, w) of the grid that tokens were dropped from, in which the others have positions."""
    prefix: int = 0
    """How many class and register tokens stand in front."""
    order: Tensor | None = None
    """(B, T) int64: of tokens that others were dropped from, see `ops.order_of`."""
    sample: Tensor | None = None
    """(B, T) int64: which sample each token is of, where several are packed in a row."""
    pick: Tensor | None = None
    """(B,) int64: the token that stands for the sample, where the ids say so."""
    size: tuple[int, ...] | None = None
    """Sides in pixels of what the grid was cut from, (h, w) or (t, h, w), before any padding."""
    stride: tuple[int, ...] | None = None
    """Pixels from one token of the grid to the next, on those axes."""
    hidden: Tensor | None = None
    """(B, n) bool: which patches of a picture a head has hidden from the backbone."""
    stages: "tuple[Tokens, ...]" = ()
    """What each stage of the backbone gave, for heads that read maps; the last is this one."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass
class Details:
    """What a forward pass shows beside its answer, if asked. Nothing of it changes the answer."""

    states: list[Tensor] = field(default_factory=list)
    """(B, T, D): the tokens that enter the first block, then those that leave each block."""
    attention: list[Tensor] = field(default_factory=list)
    """Each attention's weights (B, H, T, S) in the order of the pass; within groups, (B*n, H, N,
    N)."""
    aux: list[Tensor] = field(default_factory=list)
    """Scalars to be added to a loss, such as the load balance of routed experts."""


_TENSORS = ("x", "keep", "positions", "order", "sample", "pick", "hidden", "stages")
_FACTS = ("grid", "dropped_from", "prefix", "size", "stride")


def _flatten(tokens: Tokens) -> tuple[list[Any], Any]:
    present = tuple(name for name in _TENSORS if getattr(tokens, name) is not None)
    facts = tuple((name, getattr(tokens, name)) for name in _FACTS)
    return [getattr(tokens, name) for name in present], (present, facts)


def _unflatten(tensors: Any, context: Any) -> Tokens:
    present, facts = context
    return Tokens(**dict(zip(present, tensors, strict=True)), **dict(facts))


# Sharding, export and data-parallel hooks look for tensors inside a pytree.
pytree.register_pytree_node(Tokens, _flatten, _unflatten, serialized_type_name="zoo.Tokens")
