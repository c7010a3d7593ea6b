"""Some samples at a time, where what lies between is large."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import forward_ad

MOST = 4_500_000  # values that are held at once, 9 MB in bf16
PIECE = 3_500_000  # and by a piece where they would be more


def saves_memory(x: Tensor) -> bool:
    """Any x -> whether what is made of it, on its way to an answer, need not be kept: on CPU,
    without gradients, and watched by nobody."""
    return x.is_cpu and not torch.is_grad_enabled() and not watched()


def watched() -> bool:
    """Whether something follows each operation: a compiler, a transform of torch.func, tangents, or
    a dispatch mode such as that which counts FLOPs."""
    if torch.compiler.is_compiling() or forward_ad._current_level >= 0:
        return True
    return torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0


def too_many(x: Tensor, values: int) -> bool:
    """(N, ...), how many numbers are held for one of the N -> whether they are better taken a few
    at a time."""
    return saves_memory(x) and x.shape[0] * values > MOST


def in_pieces(f: Callable[[Tensor], Tensor], x: Tensor, values: int) -> Tensor:
    """(N, ...) -> (N, ...): f(x) for an f that treats each of the N alike and alone, where `values`
    is how many numbers it holds for one of them.

    Memory of tens of megabytes is given back to the system as soon as it is free, and every page of
    it is made anew for the next call: that takes longer than the arithmetic in it.
    """
    if not too_many(x, values):
        return f(x)
    count = -(-x.shape[0] * values // PIECE)
    return torch.cat([f(part) for part in x.chunk(count)])
