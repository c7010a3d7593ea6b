"""One Transformer block: residual sublayers, each with its own norm."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import one_of
from zoo.nn.attention import Attention
from zoo.nn.mlp import Mlp
from zoo.nn.norm import make_norm
from zoo.ops import Mask, drop_path

PLACES = ("pre", "post")


@dataclass(frozen=True)
class BlockConfig:
    """What one block is made of."""

    dim: int
    """Model width D."""
    heads: int
    """Attention heads; they divide the width."""
    hidden: int | None = None
    """Width inside the MLP; None = 4 D."""
    norm: str = "layer"
    """layer, rms or none."""
    place: str = "pre"
    """pre: x + f(norm(x)).  post: norm(x + f(x))."""
    eps: float = 1e-6
    """Added to the variance in norms."""
    activation: str = "gelu"
    """relu, gelu, gelu_tanh or silu."""
    bias: bool = True
    """Whether the Linears have biases."""
    layer_scale: float | None = None
    """Start value of a learned factor per channel on each residual branch (Touvron et al. 2021);
    None = no factor."""
    dropout: float = 0.0
    """Zeroed share of each branch's output and of the MLP's hidden values."""
    attention_dropout: float = 0.0
    """Zeroed share of the attention weights."""


class Block(nn.Module):
    """(B, T, D) -> (B, T, D): x + attn(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: BlockConfig, drop_path: float = 0.0):
        super().__init__()
        c = config
        self.place = one_of("Block", "place", c.place, PLACES)
        self.dropout, self.drop_path = c.dropout, drop_path
        self.attn_norm = make_norm(c.norm, c.dim, c.eps)
        self.attn = Attention(c.dim, c.heads, c.bias, c.attention_dropout)
        self.attn_scale = _scale(c)
        self.mlp_norm = make_norm(c.norm, c.dim, c.eps)
        self.mlp = Mlp(c.dim, c.hidden or 4 * c.dim, c.activation, c.bias, c.dropout)
        self.mlp_scale = _scale(c)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        if self.place == "post":
            x = self.attn_norm(x + self.branch(self.attn(x, mask), self.attn_scale))
            return self.mlp_norm(x + self.branch(self.mlp(x), self.mlp_scale))
        x = x + self.branch(self.attn(self.attn_norm(x), mask), self.attn_scale)
        return x + self.branch(self.mlp(self.mlp_norm(x)), self.mlp_scale)

    def branch(self, x: Tensor, scale: Tensor | None) -> Tensor:
        """(B, T, D) -> (B, T, D): what a residual branch goes through before it is added."""
        x = F.dropout(x, self.dropout, self.training)
        return drop_path(x if scale is None else x * scale, self.drop_path, self.training)


def _scale(c: BlockConfig) -> nn.Parameter | None:
    return (
        None if c.layer_scale is None else nn.Parameter(torch.full((c.dim,), float(c.layer_scale)))
    )
