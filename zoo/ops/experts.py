"""A matrix product with another matrix for each run of rows: what routed experts compute."""

import torch
from torch import Tensor


@torch.library.custom_op("zoo::grouped_linear", mutates_args=())
def grouped_linear(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """(M, D), (E, F, D), (E,) int64 -> (M, F): rows up to ends[0] times weight[0]', the next times
    weight[1]' ...

    One operator, so that a compiled graph does not break on the sizes of the runs.
    """
    out = x.new_empty(len(x), weight.shape[1])
    cuts = ends[:-1].tolist()
    for rows, w, answer in zip(x.tensor_split(cuts), weight, out.tensor_split(cuts), strict=True):
        torch.mm(rows, w.T, out=answer)
    return out


@grouped_linear.register_fake
def _(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[1])


@torch.library.custom_op("zoo::grouped_outer", mutates_args=())
def grouped_outer(out: Tensor, x: Tensor, ends: Tensor) -> Tensor:
    """(M, F), (M, D), (E,) -> (E, F, D): the sum of out'x over each run of rows; zeros for an empty
    run."""
    total = x.new_zeros(len(ends), out.shape[1], x.shape[1])
    cuts = ends[:-1].tolist()
    for o, rows, sums in zip(out.tensor_split(cuts), x.tensor_split(cuts), total, strict=True):
        torch.mm(o.T, rows, out=sums)
    return total


@grouped_outer.register_fake
def _(out: Tensor, x: Tensor, ends: Tensor) -> Tensor:
    return x.new_empty(ends.shape[0], out.shape[1], x.shape[1])


def _remember(ctx, inputs, output) -> None:  # torch's own signature
    ctx.save_for_backward(*inputs)


def _backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    x, weight, ends = ctx.saved_tensors
    grad = grad.contiguous()
    to_x = grouped_linear(grad, weight.transpose(1, 2).contiguous(), ends)
    return to_x, grouped_outer(grad, x, ends), None


grouped_linear.register_autograd(_backward, setup_context=_remember)
