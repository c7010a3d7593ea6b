"""Some samples at a time, where what lies between is large."""

from collections.abc import Callable

import torch
from torch import Tensor

MOST = 4_500_000  # values that are held at once, 9 MB in bf16
PIECE = 3_500_000  # and by a piece where they would be more


def saves_memory(x: Tensor) -> bool:
    """Any x -> whether what is made of it, on its way to an answer, need not be kept: on CPU,
    without gradients, and not within a compiler's graph."""
    return x.is_cpu and not torch.is_grad_enabled() and not torch.compiler.is_compiling()


def in_pieces(f: Callable[[Tensor], Tensor], x: Tensor, values: int) -> Tensor:
    """(N, ...) -> (N, ...): f(x) for an f that treats each of the N alike and alone, where `values`
    is how many numbers it holds for one of them.

    Memory of tens of megabytes is given back to the system as soon as it is free, and every page of
    it is made anew for the next call: that takes longer than the arithmetic in it.
    """
    if not saves_memory(x) or len(x) * values <= MOST:
        return f(x)
    count = -(-len(x) * values // PIECE)
    return torch.cat([f(part) for part in x.chunk(count)])
