"""A Linear's arithmetic, by the faster of two kernels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
PROCESSOR = str(torch.cpu.get_capabilities().get("cpu_name", ""))
# In fp32 torch calls MKL, which takes twice as long on a processor that is not its maker's.
FASTER = (torch.bfloat16, *((torch.float32,) if PROCESSOR.startswith("AMD") else ()))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(..., D), (O, D), (O,) -> (..., O): x weight' + bias.

    torch copies the bias into the whole output before a bf16 product on CPU, which takes as long as
    a small product itself. oneDNN adds it in the product; that kernel has no backward, and knows
    plain tensors alone, so it serves inference, and torch's own all the rest.
    """
    plain = type(x) is Tensor and type(weight) is nn.Parameter and x.dtype == weight.dtype
    if ONEDNN and plain and x.is_cpu and x.dtype in FASTER and not torch.is_grad_enabled():
        if not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu"):
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)
