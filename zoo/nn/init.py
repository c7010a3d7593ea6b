"""Initialisation by name. A part calls `initialise(self, config.init)` at the end of its
`__init__`."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from zoo.errors import one_of
from zoo.nn.attention import Attention
from zoo.nn.mlp import Experts

# BERT's and ViT's: cut at two deviations.
normal = partial(nn.init.trunc_normal_, std=0.02, a=-0.04, b=0.04)
INITS: dict[str, Callable[[Tensor], Tensor]] = {
    "normal": normal,
    # Glorot & Bengio 2010. A fused qkv counts as the matrices that it holds.
    "xavier": nn.init.xavier_uniform_,
    # Saxe et al. 2013, arXiv:1312.6120. In qkv each head by itself.
    "orthogonal": nn.init.orthogonal_,
    # GPT-2's: normal, where what enters the residual stream is divided by the root of its 2 x depth
    # additions.
    "depth_scaled": normal,
}
# What enters the residual stream; an expert's `down` is a parameter itself.
LAST = ("attn.out.weight", "cross.out.weight", "time.out.weight", "mlp.down.weight", "mlp.down")


def initialise(module: nn.Module, name: str, depth: int = 1) -> None:
    """Fill all Linears and experts below `module` by the named scheme, and Linears' biases with
    zeros.

    Other layers keep torch's own start. Parameters that a part owns itself are its own affair.
    """
    fill = INITS[one_of("initialise", "init", name, INITS)]
    if next(module.parameters()).is_meta:
        return
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            fill(layer.weight.data)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, Experts):
            for matrix in (*layer.up.data, *layer.down.data):
                fill(matrix)
    for layer in module.modules():
        if isinstance(layer, Attention) and name in ("xavier", "orthogonal"):
            fused = layer.qkv if hasattr(layer, "qkv") else layer.kv
            rows = layer.width if name == "orthogonal" else layer.width * layer.groups
            for piece in fused.weight.data.split(rows):
                fill(piece)
    for key, parameter in module.named_parameters():
        if name == "depth_scaled" and key.endswith(LAST):
            parameter.data.div_(math.sqrt(2 * depth))


def owned(shape: tuple[int, ...], std: float = 0.02) -> nn.Parameter:
    """-> a parameter of that shape, normal and cut at two deviations: tokens, tables, queries of a
    part."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(shape), std=std, a=-2 * std, b=2 * std))
