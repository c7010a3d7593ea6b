"""Faster answers from a model that is trained no more."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from zoo.errors import UserError
from zoo.model import Model
from zoo.nn.layers import Linear, QkvWithoutKeyBias
from zoo.ops.linear import ONEDNN
from zoo.tokens import Tokens

LINEARS = (Linear, QkvWithoutKeyBias)  # which are only called; others may have their weights read
UNSAVED = "Packed only answers; save the model that it was made from"
DTYPES = (torch.float32, torch.bfloat16)
ROWS = 1568  # of x, for which the order is chosen (8 pictures of a Swin); it serves any number


class PackedLinear(nn.Module):
    """(..., D) -> (..., O), without gradients: a Linear whose weight lies as oneDNN's kernel reads
    it."""

    def __init__(self, linear: Linear | QkvWithoutKeyBias):
        super().__init__()
        whole = isinstance(linear, QkvWithoutKeyBias)
        bias = linear.full_bias() if whole else linear.bias
        self.bias = None if bias is None else bias.detach().clone()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., O), in the dtype of the weight."""
        x = x.to(self.weight.dtype)
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        raise UserError(UNSAVED)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UserError(UNSAVED)

    def __deepcopy__(self, _: object) -> "PackedLinear":
        return self  # nothing of it changes


def fits(linear: nn.Linear) -> bool:
    """Whether a Linear may be packed."""
    own = linear._forward_hooks or linear._forward_pre_hooks or "forward" in vars(linear)
    plain = type(linear) in LINEARS and not own
    return ONEDNN and plain and linear.weight.is_cpu and linear.weight.dtype in DTYPES


class Packed:
    """A copy of a model on CPU that only answers: alike, without gradients, and faster.

    The weights of its blocks' Linears lie in the order that oneDNN's kernel reads them in, into
    which torch puts them anew at each call; Linears of other makes (LoRA's, quantised) and those
    with hooks stay what they are. Answers are the same bit for bit in bf16, and within float error
    in fp32. The model stays as it is, to be trained, moved, saved and compiled; what changes in it
    later does not reach the copy. UserError for a model with nothing to pack: no zoo.nn.Linear is
    on CPU in fp32 or bf16, or this torch has no oneDNN. (oneDNN's Graph Compiler packs for the same
    reason: Li et al. 2023, arXiv:2301.01333.)
    """

    def __init__(self, model: Model):
        if not isinstance(model, Model):
            raise UserError(f"Packed takes a zoo.Model; got {type(model).__name__}")
        self.model = deepcopy(model).eval().requires_grad_(False)
        for parent in list(self.model.modules()):
            for name, part in list(parent.named_children()):
                if isinstance(part, LINEARS) and fits(part):
                    setattr(parent, name, PackedLinear(part))
        found = {f"{p.dtype} on {p.device}" for p in model.parameters()} or {"no parameters"}
        got = ", ".join(sorted(found)) if ONEDNN else "a torch without oneDNN"
        if not any(isinstance(part, PackedLinear) for part in self.model.modules()):
            raise UserError(f"Packed takes a model with Linears on CPU in fp32 or bf16; got {got}")

    @torch.no_grad()
    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """As the model's own call."""
        return self.model(*inputs, **named)

    @torch.no_grad()
    def features(self, *inputs: Any, **named: Any) -> Tokens:
        """As `Model.features`."""
        return self.model.features(*inputs, **named)

    @torch.no_grad()
    def maps(self, *inputs: Any, **named: Any) -> list[Tensor]:
        """As `Model.maps`."""
        return self.model.maps(*inputs, **named)

    def predict(self, *source: Any, **options: Any) -> Any:
        """As `Model.predict`."""
        return self.model.predict(*source, **options)
