"""Scaled dot-product attention: the only caller of a fused kernel in this package."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.errors import one_of
from zoo.ops.mask import Mask, repeat_to
from zoo.ops.pieces import saves_memory

PATHS = ("auto", "fused", "explicit", "flex")
MOST = 2**23  # scores: beyond, they leave the cache
LANES = 32  # bf16 values that a vector register holds


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None = None,
    bias: Tensor | None = None,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    path: str = "auto",
) -> Tensor:
    """(B, H, T, K), (B, G, S, K), (B, G, S, V) -> (B, H, T, V): softmax(scale q k' + bias) v.

    G divides H; a key head serves H / G query heads (Ainslie et al. 2023, arXiv:2305.13245). `bias`
    is float and broadcastable to (B, H, T, S). `scale` is 1 / sqrt(K) unless given. `softcap` bends
    the scores to softcap * tanh(scores / softcap) before the bias (Gemma 2). A query that may
    attend to nothing gives zeros. The paths agree within float error: "fused" is torch's kernel
    (which has no softcap: then the explicit path serves), "explicit" the formula, "flex" torch's
    flex_attention, "auto" the one that was measured to win. (Vaswani et al. 2017, arXiv:1706.03762)
    """
    one_of("attend", "path", path, PATHS)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if path == "flex" and not dropout:  # it has none
        return _flex(q * scale, k, v, mask, bias, softcap)
    if path == "auto" and softcap is None and filled_wins(q, k):
        k, v = (_per_query_head(x, q.shape[1]) for x in (k, v))
        return _filled(q, k, v, mask, bias, scale, dropout)
    if path == "explicit" or softcap is not None:
        weights = attention_weights(q, k, mask, bias, scale=scale, softcap=softcap)
        return F.dropout(weights, dropout) @ _per_query_head(v, q.shape[1])
    simple = bias is None and mask is not None and mask.only_causal
    causal = simple if q.shape[2] == k.shape[2] else False  # a compiler's size gives no bool itself
    drawn = None if causal else _drawn(mask, q, k, bias)
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(
        q, k, v, drawn, dropout, causal, scale=scale, enable_gqa=grouped
    )


def filled_wins(q: Tensor, k: Tensor) -> bool:
    """(B, H, T, K), (B, G, S, K) -> whether `_filled` is faster than the fused kernel.

    On CPU in bf16 it answers in 0.5 to 0.6 of the time for 49 to 577 tokens, and in more than all
    of it where the scores are too many for a cache. The fused backward takes 1.8 times (577 tokens)
    to 7 times (49 tokens) as long.
    """
    if not q.is_cpu or q.dtype != torch.bfloat16:
        return False
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad):
        return k.shape[2] <= 1024
    few = saves_memory(q) and q[..., 0].numel() * k.shape[2] <= MOST
    return few and q.shape[2] >= LANES // 2


def _filled(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    bias: Tensor | None,
    scale: float,
    dropout: float,
) -> Tensor:
    """`attend` by the formula, with the keys filled up to whole vector registers: a softmax over 49
    values takes twice as long as over 64.

    A key that fills up has the lowest finite score, so it counts for nothing beside a true key; a
    query that may attend to none has that one alone, whose value is 0.
    """
    keys = k.shape[2]
    drawn = _rules(mask, q, k, bias)
    fill = -keys % LANES if drawn is None else LANES - keys % LANES
    if drawn is None:
        drawn = q.new_zeros(1, 1, 1, keys)
    elif drawn.dtype == torch.bool:
        drawn = drawn.to(q.dtype).log()
    drawn = F.pad(drawn[(None,) * (4 - drawn.ndim)], (0, fill), value=torch.finfo(q.dtype).min)
    scores = q @ F.pad(k, (0, 0, 0, fill)).transpose(-1, -2)
    # a mask may hold for groups of each sample
    repeats = scores.unflatten(0, (q.shape[0] // drawn.shape[0], drawn.shape[0]))
    if saves_memory(q):
        torch.add(drawn, repeats, alpha=scale, out=repeats)
        weights = torch.softmax(scores, -1, out=scores)
    else:
        weights = torch.add(drawn, repeats, alpha=scale).flatten(0, 1).softmax(-1)
    return F.dropout(weights, dropout) @ F.pad(v, (0, 0, 0, fill))


def attention_weights(
    q: Tensor,
    k: Tensor,
    mask: Mask | None = None,
    bias: Tensor | None = None,
    *,
    scale: float | None = None,
    softcap: float | None = None,
) -> Tensor:
    """(B, H, T, K), (B, G, S, K) -> (B, H, T, S): the softmax itself, rows that sum to 1 or are
    0."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = _bent((q * scale) @ _per_query_head(k, q.shape[1]).transpose(-1, -2), softcap)
    if bias is not None:
        scores = scores + bias
    allowed = _drawn(mask, q, k)
    if allowed is None:
        return scores.softmax(-1).to(q.dtype)
    # The least finite number, not -inf: a row without a key stays finite here and is zeroed after.
    scores = scores.float().masked_fill(~allowed, torch.finfo(torch.float32).min)
    return (scores.softmax(-1) * allowed).to(q.dtype)


def _drawn(mask: Mask | None, q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor | None:
    """`_rules`, repeated for each sample: behind the bias, which was measured faster."""
    drawn = _rules(mask, q, k, bias)
    return None if drawn is None else repeat_to(drawn, q)


def _rules(mask: Mask | None, q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor | None:
    """(B, H, T, K), (B, G, S, K) -> the mask, broadcastable to (B, H, T, S) or to groups of each
    sample, or None; with a bias, that one, and -inf where the mask forbids."""
    drawn = None if mask is None else mask.dense(q.shape[2], k.shape[2], q.device)
    if bias is not None:
        bias = bias.to(q.dtype)
        drawn = bias if drawn is None else bias + drawn.to(bias.dtype).log()  # faster than where
    return drawn


def _per_query_head(x: Tensor, heads: int) -> Tensor:
    """(B, G, S, K) -> (B, H, S, K): each key head repeated for its query heads."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _bent(scores: Tensor, softcap: float | None) -> Tensor:
    """(...) -> (...): softcap * tanh(scores / softcap)."""
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def _flex(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, bias: Tensor | None, softcap: float | None
) -> Tensor:
    """`attend` through flex_attention, q scaled: skips the blocks of scores that a mask rules
    out."""
    # Half a second of import that only this path pays.
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    batch, heads, queries, keys = *q.shape[:3], k.shape[2]
    allowed, block = _drawn(mask, q, k), None
    if allowed is not None:
        rule = allowed.expand(batch, 1, queries, keys)
        block = create_block_mask(
            lambda b, h, i, j: rule[b, 0, i, j], batch, None, queries, keys, device=q.device
        )
    full = None if bias is None else bias.expand(batch, heads, queries, keys)

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return _bent(s, softcap) if full is None else _bent(s, softcap) + full[b, h, i, j]

    out = flex_attention(q, k, v, score, block, scale=1.0, enable_gqa=heads != k.shape[1])
    return out  # type: ignore[return-value]  # no log-sum-exp was asked for
