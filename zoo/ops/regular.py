"""Regularisers that are functions."""

from torch import Tensor


def drop_path(x: Tensor, rate: float, training: bool) -> Tensor:
    """(B, ...) -> (B, ...). Zero a whole sample's residual branch with probability `rate`, and
    scale the others up.

    (Stochastic depth: Huang et al. 2016, arXiv:1603.09382)
    """
    if rate == 0.0 or not training:
        return x
    kept = x.new_empty((x.shape[0], *(1,) * (x.ndim - 1))).bernoulli_(1.0 - rate)
    return x * (kept / (1.0 - rate))
