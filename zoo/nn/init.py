"""Initialisation by name. Every part calls `initialise(self, config.init)` once, at the end of its
`__init__`."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from zoo.errors import one_of

INITS: dict[str, Callable[[Tensor], Tensor]] = {
    # BERT's and ViT's: cut at two deviations.
    "normal": partial(nn.init.trunc_normal_, std=0.02, a=-0.04, b=0.04),
    # Glorot & Bengio 2010; a fused qkv counts as the three matrices that it holds.
    "xavier": nn.init.xavier_uniform_,
}


def initialise(module: nn.Module, name: str) -> None:
    """Fill the weights of all Linears below `module` by the named scheme and their biases with
    zeros.

    Other layers keep torch's own start. Parameters that a part owns itself are its own affair.
    """
    fill = INITS[one_of("initialise", "init", name, INITS)]
    for key, layer in module.named_modules():
        if isinstance(layer, nn.Linear):
            pieces = layer.weight.chunk(3) if key.rpartition(".")[2] == "qkv" else (layer.weight,)
            for piece in pieces:
                fill(piece.data)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
