"""One Transformer block: residual sublayers, each with its own norm, grouping and factor."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import one_of
from zoo.nn.attention import ALONE, Around, Attention, AttentionConfig
from zoo.nn.layers import make_norm
from zoo.nn.mlp import Experts, Mlp, MlpConfig
from zoo.ops import drop_path, join, split


@dataclass(frozen=True)
class BlockConfig:
    """What one block is made of. Its sublayers, in order: time, attn, cross, mlp, those that are
    there."""

    dim: int
    """Model width D."""
    attn: AttentionConfig
    """Attention among the tokens."""
    mlp: MlpConfig = MlpConfig()
    """What follows, token by token."""
    cross: AttentionConfig | None = None
    """Attention to a source, between attn and mlp."""
    time: AttentionConfig | None = None
    """A further attention in front, for divided space-time."""
    norm: str = "layer"
    """layer, rms, rms_offset or none."""
    place: str = "pre"
    """pre: x + f(norm(x)).  post: norm(x + f(x)).  res_post: x + norm(f(x)).  sandwich: x +
    norm'(f(norm(x)))."""
    eps: float = 1e-6
    """Added to the variance in norms."""
    layer_scale: float | None = None
    """Start of a learned factor per channel on each branch (Touvron et al. 2021,
    arXiv:2103.17239)."""
    dropout: float = 0.0
    """Zeroed share of each branch's output."""


Rates = float | tuple[float, ...]


class Block(nn.Module):
    """(B, T, D) -> (B, T, D): x + attn(norm(x)), then x + mlp(norm(x)).

    `drop_path` is a rate, or one for each time that tokens pass a shared block.
    """

    def __init__(self, config: BlockConfig, drop_path: Rates = 0.0, source: int | None = None):
        super().__init__()
        c = config
        one_of("Block", "place", c.place, ("pre", "post", "res_post", "sandwich"))
        self.config, self.drop_path = c, drop_path
        self.order = tuple(n for n in ("time", "attn", "cross", "mlp") if getattr(c, n) is not None)
        for name in self.order:
            if name == "mlp":
                part = Experts(c.dim, c.mlp) if c.mlp.experts else Mlp(c.dim, c.mlp, c.eps)
            else:
                wide = source or c.dim
                part = Attention(c.dim, getattr(c, name), c.eps, wide if name == "cross" else None)
            self.add_module(name, part)
            self.add_module(f"{name}_norm", make_norm(c.norm, c.dim, c.eps))
            if c.place == "sandwich":
                self.add_module(f"{name}_norm_out", make_norm(c.norm, c.dim, c.eps))
            start = None if c.layer_scale is None else torch.full((c.dim,), c.layer_scale)
            self.register_parameter(f"{name}_scale", None if start is None else nn.Parameter(start))

    def forward(
        self, x: Tensor, around: Mapping[str, Around] | None = None, turn: int = 0
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); `around` for each sublayer by its name; which `turn` of a shared
        block it is."""
        for name in self.order:
            norm, place = getattr(self, f"{name}_norm"), self.config.place
            a = (around or {}).get(name, ALONE)
            if place == "pre":
                x = x + self.branch(name, self.mix(name, norm(x), a), turn)
            elif place == "post":
                x = norm(x + self.branch(name, self.mix(name, x, a), turn))
            elif place == "res_post":
                x = x + self.branch(name, norm(self.mix(name, x, a)), turn)
            else:
                out = getattr(self, f"{name}_norm_out")
                x = x + self.branch(name, out(self.mix(name, norm(x), a)), turn)
        return x

    def mix(self, name: str, x: Tensor, around: Around) -> Tensor:
        """(B, T, D) -> (B, T, D): the sublayer, tokens grouped before it and put back after."""
        part, layout = getattr(self, name), around.layout
        if layout is None:
            return part(x, around)
        return join(part(split(x, layout), around), layout)

    def branch(self, name: str, x: Tensor, turn: int) -> Tensor:
        """(B, T, D) -> (B, T, D): what a residual branch goes through before it is added."""
        scale = getattr(self, f"{name}_scale")
        x = F.dropout(x, self.config.dropout, self.training)
        x = x if scale is None else x * scale
        if not self.training:  # where a compiler needs no graph for each rate
            return x
        rates = self.drop_path
        return drop_path(x, rates[turn] if isinstance(rates, tuple) else rates, training=True)
