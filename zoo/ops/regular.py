"""Regularisers that are functions."""

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.ops.window import take
from zoo.tokens import Tokens


def drop_path(x: Tensor, rate: float, training: bool) -> Tensor:
    """(B, ...) -> (B, ...). Zero a whole sample's residual branch with probability `rate`, and
    scale the others up.

    (Stochastic depth: Huang et al. 2016, arXiv:1603.09382)
    """
    if rate == 0.0 or not training:
        return x
    kept = x.new_empty((x.shape[0], *(1,) * (x.ndim - 1))).bernoulli_(1.0 - rate)
    return x * (kept / (1.0 - rate))


def drop_tokens(tokens: Tokens, rate: float, training: bool) -> Tokens:
    """Tokens of (B, T, D) -> Tokens of (B, T', D): in training, a random share of those behind the
    prefix is left out, each of the others keeps its place and mask.

    Padding goes first. What a head will read stays: `pick`, and a text's first token, its class
    token. (PatchDropout: Liu et al. 2022, arXiv:2208.07220)
    """
    if rate == 0.0 or not training:
        return tokens
    x, keep, pick, prefix = tokens.x, tokens.keep, tokens.pick, tokens.prefix
    batch, count = x.shape[0], x.shape[1] - prefix
    chance = torch.rand(batch, count, device=x.device)  # the lowest stay
    if keep is not None:
        chance = chance.masked_fill(~keep[:, prefix:], 2.0)
    chance = F.pad(chance, (prefix, 0), value=-1.0)
    places = torch.arange(prefix + count, device=x.device)
    if not prefix and not (tokens.grid or tokens.dropped_from):
        first = 0 if keep is None else keep.int().argmax(1)[:, None]
        chance = chance.masked_fill(places == first, -1.0)
    if pick is not None:
        chance = chance.masked_fill(places == pick[:, None], -1.0)
    stay = prefix + max(1, round(count * (1 - rate)))
    kept = chance.argsort(1)[:, :stay].sort(1).values
    if pick is not None:
        tokens = tokens.replace(pick=(kept == pick[:, None]).int().argmax(1))
    return some(tokens, kept)


def some(tokens: Tokens, kept: Tensor) -> Tokens:
    """Tokens of (B, T, D), (B, T') int64 in rising order -> those tokens, each at its place and
    with its mask."""
    had = {name: getattr(tokens, name) for name in ("x", "keep", "positions", "sample")}
    had["order"] = order_of(tokens)
    grid = tokens.grid or tokens.dropped_from
    left = {
        n: take(t.expand(len(kept), *t.shape[1:]), kept) for n, t in had.items() if t is not None
    }
    return tokens.replace(**left, grid=None, dropped_from=grid)


def order_of(tokens: Tokens) -> Tensor:
    """Tokens of (B, T, D) -> (B or 1, T) int64: how many real tokens stand in front of each in its
    row, those included that were dropped from it."""
    if tokens.order is not None:
        return tokens.order
    keep = tokens.x.new_ones(1, tokens.x.shape[1]) if tokens.keep is None else tokens.keep
    return keep.long().cumsum(1) - 1
