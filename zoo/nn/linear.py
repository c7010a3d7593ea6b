"""Linear layers."""

import torch
from torch import Tensor, nn

from zoo.ops import linear


class Linear(nn.Linear):
    """(..., D) -> (..., O): torch's Linear, computed by `ops.linear`."""

    def forward(self, input: Tensor) -> Tensor:  # nn.Linear's name
        """(..., D) -> (..., O)."""
        return linear(input, self.weight, self.bias)


class QkvWithoutKeyBias(nn.Linear):
    """(..., D) -> (..., (H + 2 G) K): q, k and v with a bias on q and v alone, as EVA-02,
    Whisper."""

    def __init__(self, dim: int, parts: tuple[int, int, int]):
        super().__init__(dim, sum(parts), bias=False)
        self.q_bias = nn.Parameter(torch.zeros(parts[0]))
        self.v_bias = nn.Parameter(torch.zeros(parts[2]))

    def forward(self, input: Tensor) -> Tensor:  # nn.Linear's name
        """(..., D) -> (..., (H + 2 G) K)."""
        bias = torch.cat((self.q_bias, torch.zeros_like(self.v_bias), self.v_bias))
        return linear(input, self.weight, bias)
