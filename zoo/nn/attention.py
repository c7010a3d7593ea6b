"""Multi-head attention: the one class of this package."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from zoo.errors import one_of, require
from zoo.nn.grouping import Everything, Grouping
from zoo.nn.layers import Linear, QkvWithoutKeyBias, make_norm
from zoo.nn.position import Position, bias_among
from zoo.ops import PATHS, Layout, Mask, attend, attention_weights, rotate
from zoo.tokens import Grid


@dataclass(frozen=True)
class AttentionConfig:
    """How tokens attend."""

    heads: int
    """Query heads H."""
    kv_heads: int | None = None
    """Key and value heads G; they divide the query heads. None = as many; 1 = multi-query."""
    width: int | None = None
    """Channels K of a head; None = D / H."""
    bias: str = "qkv"
    """Which of the projections have a bias: qkv, qv (no key bias) or none."""
    out_bias: bool = True
    """Whether the projection behind has one."""
    scale: float | str | None = None
    """Of the scores: a number, None = 1 / sqrt(K), or "cosine": learned, of normalised q and k
    (Swin v2)."""
    softcap: float | None = None
    """Bends scores to within +- softcap (Gemma 2)."""
    qk_norm: str = "none"
    """A norm of each head's q and k: layer, rms, rms_offset or none (Henry et al. 2020,
    arXiv:2010.04245)."""
    inner_norm: str = "none"
    """A norm of the joined heads, before the projection behind (EVA-02)."""
    dropout: float = 0.0
    """Zeroed share of the attention weights."""
    position: Position | None = None
    """A relation of places: none, rope, alibi, buckets, table, grid_table or continuous; see
    `zoo.nn.position`."""
    grouping: Grouping = Everything()
    """Which tokens attend together: everything, windows (window, shift, pad) or axes (axis,
    prefix); see `zoo.nn.grouping`."""
    causal: bool = False
    """Only to tokens at or before one's own."""
    left: int | None = None
    """At most so many tokens back; padding counts for none, what was dropped in training does."""
    right: int | None = None
    """At most so many tokens ahead, counted in the same way."""


@dataclass(frozen=True)
class Around:
    """Made once per forward pass for all sublayers of the same setting. T and N as the tokens are
    grouped."""

    mask: Mask | None = None
    """What may attend."""
    layout: Layout | None = None
    """How tokens are grouped; None = not at all."""
    places: Tensor | None = None
    """(..., N, A) positions."""
    grid: Grid | None = None
    """(t, h, w) in which the tokens have their positions, where it is known."""
    prefix: int = 0
    """How many of the tokens stand in front of those of the grid."""
    rope: Tensor | None = None
    """(B or 1, 1, N, 2, R) cosines and sines that turn q and k."""
    bias: Tensor | None = None
    """Float, broadcastable to (B, H, T, S), added to the scores."""
    source: Tensor | None = None
    """(B, S, D') what cross-attention reads."""
    keep: Tensor | None = None
    """(B, T) bool: the tokens that are real, ungrouped."""
    maps: list[Tensor] | None = None
    """Receives each attention's weights (B, H, T, S), computed beside its answer."""
    aux: list[Tensor] | None = None
    """Receives scalars to be added to a loss."""

    @property
    def shared(self) -> bool:
        """Whether nothing of it is of one sample alone, nor collected over samples."""
        mask = self.mask or Mask()
        own = (self.source, self.keep, self.maps, self.aux, mask.keep, mask.sample)
        batched = ((self.rope, 5), (self.bias, 4), (self.places, 3), (mask.order, 2))
        same = all(x is None or x.ndim < ndim or len(x) == 1 for x, ndim in batched)
        return same and all(x is None for x in own)


ALONE = Around()


class Attention(nn.Module):
    """(B, T, D) -> (B, T, D). Self-attention through one fused `qkv`, or over a source through `q`
    and `kv`."""

    def __init__(
        self, dim: int, config: AttentionConfig, eps: float = 1e-6, source: int | None = None
    ):
        super().__init__()
        c = config
        heads, groups = c.heads, c.kv_heads or c.heads
        got = f"width {dim} and {heads} heads, {groups} kv_heads"
        wants = "heads that divide the width, and kv_heads that divide the heads"
        fits = heads > 0 and heads % groups == 0 and (c.width or dim % heads == 0)
        require(fits, f"Attention takes {wants}; got {got}", "heads")
        one_of("Attention", "bias", c.bias, ("qkv", "qv", "none"))
        self.groups, self.config = groups, c
        self.path = "auto"  # how attend computes it, see `use_path`
        self.width = width = c.width or dim // heads
        q, kv = heads * width, 2 * groups * width
        if source is not None:
            self.q, self.kv = Linear(dim, q, c.bias != "none"), Linear(source, kv, c.bias == "qkv")
        elif c.bias == "qv":
            self.qkv = QkvWithoutKeyBias(dim, q, kv)
        else:
            self.qkv = Linear(dim, q + kv, c.bias == "qkv")
        self.q_norm, self.k_norm = (make_norm(c.qk_norm, width, eps) for _ in range(2))
        if isinstance(c.scale, str):
            one_of("Attention", "scale", c.scale, ("cosine",))
            self.log_scale = nn.Parameter(torch.full((heads,), math.log(10.0)))
        self.position = None if c.position is None else c.position.bias(heads)
        self.inner_norm = make_norm(c.inner_norm, q, eps)
        self.out = Linear(q, dim, c.out_bias)

    def forward(self, x: Tensor, around: Around = ALONE) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        a, c = around, self.config
        q, k, v = self.project(x, a.source)
        q, k = self.q_norm(q), self.k_norm(k)
        if a.rope is not None:
            q, k = rotate(q, a.rope), rotate(k, a.rope)
        scale, bias = c.scale, a.bias
        if isinstance(scale, str):
            sharp = self.log_scale.clamp(max=math.log(100.0)).exp()[:, None, None]
            q, k, scale = F.normalize(q, dim=-1) * sharp.to(q.dtype), F.normalize(k, dim=-1), 1.0
        if self.position is not None:
            own = bias_among(self.position, a.places, a.grid, a.prefix)
            bias = own if bias is None else bias + own
        shape = {"scale": scale, "softcap": c.softcap}
        if a.maps is not None:
            a.maps.append(attention_weights(q, k, a.mask, bias, **shape))
        dropout = c.dropout if self.training else 0.0
        x = attend(q, k, v, a.mask, bias, dropout=dropout, path=self.path, **shape)
        return self.out(self.inner_norm(rearrange(x, "b h t k -> b t (h k)")))

    def project(self, x: Tensor, source: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, D), (B, S, D') or None -> q (B, H, T, K), k and v (B, G, S, K)."""
        if source is None:
            qkv = rearrange(self.qkv(x), "b t (h k) -> b h t k", k=self.width)
            q, kv = qkv.tensor_split((-2 * self.groups,), 1)
        else:
            q = rearrange(self.q(x), "b t (h k) -> b h t k", k=self.width)
            kv = rearrange(self.kv(source), "b s (h k) -> b h s k", k=self.width)
        return q, *kv.chunk(2, 1)


def use_path(module: nn.Module, path: str) -> None:
    """Make every Attention below `module` compute by one of `ops.PATHS` (see `ops.attend`)."""
    one_of("use_path", "path", path, PATHS)
    for part in module.modules():
        if isinstance(part, Attention):
            part.path = path
