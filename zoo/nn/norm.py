"""Normalisation layers by name."""

from torch import nn

from zoo.errors import one_of

NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm, "none": nn.Identity}


def make_norm(name: str, dim: int, eps: float) -> nn.Module:
    """(..., D) -> (..., D): "layer" (Ba et al. 2016), "rms" (Zhang & Sennrich 2019) or "none"."""
    return NORMS[one_of("make_norm", "norm", name, NORMS)](dim, eps)
