"""Linear layers, and normalisation layers by name."""

import torch
from torch import Tensor, nn

from zoo.errors import one_of
from zoo.ops import linear


class Linear(nn.Linear):
    """(..., D) -> (..., O): torch's Linear, computed by `ops.linear`."""

    def forward(self, input: Tensor) -> Tensor:  # nn.Linear's name
        """(..., D) -> (..., O)."""
        return linear(input, self.weight, self.bias)


class QkvWithoutKeyBias(nn.Linear):
    """(..., D) -> (..., (H + 2 G) K): q, k and v with a bias on q and v alone, as EVA-02,
    Whisper."""

    def __init__(self, dim: int, q: int, kv: int):
        super().__init__(dim, q + kv, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(q))
        self.v_bias = nn.Parameter(torch.zeros(kv // 2))

    def forward(self, input: Tensor) -> Tensor:  # nn.Linear's name
        """(..., D) -> (..., (H + 2 G) K)."""
        return linear(input, self.weight, self.full_bias())

    def full_bias(self) -> Tensor:
        """-> ((H + 2 G) K,): zeros for the keys."""
        return torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))


class OffsetRms(nn.RMSNorm):
    """(..., D) -> (..., D): RMS norm whose factor is 1 + weight, computed in fp32 (Gemma)."""

    def reset_parameters(self) -> None:
        """Start as the identity's factor: weight 0."""
        nn.init.zeros_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        weight = 1.0 + self.weight.float()
        normed = nn.functional.rms_norm(x.float(), self.normalized_shape, weight, self.eps)
        return normed.to(x.dtype)


NORMS = {
    "layer": nn.LayerNorm,  # Ba et al. 2016, arXiv:1607.06450
    "rms": nn.RMSNorm,  # Zhang & Sennrich 2019, arXiv:1910.07467
    "rms_offset": OffsetRms,
    "none": nn.Identity,
}


def make_norm(name: str, dim: int, eps: float) -> nn.Module:
    """-> a module (..., D) -> (..., D) that adds `eps` to the variance."""
    return NORMS[one_of("make_norm", "norm", name, NORMS)](dim, eps)
