"""Normalisation layers by name."""

from torch import Tensor, nn

from zoo.errors import one_of


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
