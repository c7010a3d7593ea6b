"""A Linear's arithmetic, by the faster of two kernels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FUSED = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(..., D), (O, D), (O,) -> (..., O): x weight' + bias.

    torch copies the bias into the whole output before a bf16 product on CPU, which takes as long as
    a small product itself. oneDNN adds it in the product; that kernel has no backward, and knows
    plain tensors alone, so it serves inference, and torch's own all the rest.
    """
    plain = type(x) is Tensor and type(weight) is nn.Parameter and weight.dtype == torch.bfloat16
    if FUSED and plain and bias is not None and x.dtype == torch.bfloat16 and x.is_cpu:
        if not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)
