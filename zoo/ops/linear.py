"""A Linear's arithmetic, by the faster of two kernels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.ops.pieces import saves_memory

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
    if ONEDNN and saves_memory(x) and x.dtype in FASTER and plain(x, weight, bias):
        if not torch.is_autocast_enabled("cpu"):
            return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def plain(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """(..., D), (O, D), (O,) -> whether oneDNN's kernel, which checks little, reads these as they
    are meant."""
    if type(x) is not Tensor or type(weight) is not nn.Parameter or x.layout != torch.strided:
        return False
    sizes = not x.is_nested and x.ndim > 0 and 0 < weight.shape[1] == x.shape[-1]
    ours = bias is None or (bias.is_contiguous() and bias.shape == weight.shape[:1])
    return sizes and ours and weight.dtype == x.dtype and (bias is None or bias.dtype == x.dtype)
