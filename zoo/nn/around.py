"""What a sublayer has to know of the sequence beside x."""

from dataclasses import dataclass

from torch import Tensor

from zoo.ops import Layout, Mask


@dataclass(frozen=True)
class Around:
    """Made once per forward pass for all sublayers of the same setting. T and N as the tokens are
    grouped."""

    mask: Mask | None = None
    """What may attend."""
    layout: Layout | None = None
    """How tokens are grouped; None = not at all."""
    prefix: int = 0
    """How many special tokens stand in front."""
    places: Tensor | None = None
    """(..., N, A) positions."""
    rope: Tensor | None = None
    """(B or 1, 1, N, 2, R) cosines and sines that turn q and k."""
    bias: Tensor | None = None
    """Float, broadcastable to (B, H, T, S), added to the scores."""
    source: Tensor | None = None
    """(B, S, D') what cross-attention reads."""
    keep: Tensor | None = None
    """(B, T) bool: the tokens that are real, ungrouped."""
    maps: list[Tensor] | None = None
    """Receives each attention's weights (B, H, T, S), computed beside its answer."""
    aux: list[Tensor] | None = None
    """Receives scalars to be added to a loss."""
