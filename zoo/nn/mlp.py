"""The feed-forward half of a block."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import one_of

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,  # exact (Hendrycks & Gimpel 2016)
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's
    "silu": F.silu,
}


class Mlp(nn.Module):
    """(B, T, D) -> (B, T, D): down(act(up(x)))."""

    def __init__(
        self,
        dim: int,
        hidden: int,
        activation: str = "gelu",
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.activation = ACTIVATIONS[one_of("Mlp", "activation", activation, ACTIVATIONS)]
        self.dropout = dropout
        self.up = nn.Linear(dim, hidden, bias=bias)
        self.down = nn.Linear(hidden, dim, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.down(F.dropout(self.activation(self.up(x)), self.dropout, self.training))
