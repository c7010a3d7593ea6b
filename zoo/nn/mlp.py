"""The feed-forward half of a block: one MLP, or several of which a router picks some for each
token."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import one_of, require
from zoo.nn.attention import ALONE, Around
from zoo.nn.layers import Linear, make_norm
from zoo.ops import grouped_linear, saves_memory


def quick_gelu(x: Tensor) -> Tensor:
    """(...) -> (...): x sigmoid(1.702 x), what OpenAI's CLIP was trained with."""
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,  # exact (Hendrycks & Gimpel 2016)
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's
    "quick_gelu": quick_gelu,
    "silu": F.silu,
}
IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": torch.ops.aten.gelu_,
    "gelu_tanh": partial(torch.ops.aten.gelu_, approximate="tanh"),
    "silu": torch.ops.aten.silu_,
}


@dataclass(frozen=True)
class MlpConfig:
    """What happens to each token by itself."""

    hidden: int | None = None
    """Width inside; None = 4 D."""
    activation: str = "gelu"
    """relu, gelu, gelu_tanh, quick_gelu or silu."""
    gated: bool = False
    """act(gate) * value in place of act(value); `up` holds both, gate first (Shazeer 2020,
    arXiv:2002.05202)."""
    bias: bool = True
    """Whether the Linears have biases."""
    inner_norm: str = "none"
    """A norm of the hidden values (EVA-02)."""
    experts: int = 0
    """How many MLPs a router chooses from; 0 = one MLP and no router."""
    top: int = 2
    """How many experts serve each token."""
    balance: float | None = 0.01
    """Weight in training's loss of how unevenly tokens are routed; None = not in it."""
    dropout: float = 0.0
    """Zeroed share of the hidden values."""


def activate(x: Tensor, config: MlpConfig, training: bool, ours: bool = True) -> Tensor:
    """(..., hidden), or twice as wide if gated -> (..., hidden).

    What is `ours`, held by nobody else, may be written over (see `ops.pieces`: 8 % of a Swin-T).
    """
    act = ACTIVATIONS[config.activation]
    if ours and saves_memory(x):
        act = IN_PLACE.get(config.activation, act)
    if config.gated:
        gate, value = x.chunk(2, -1)
        return F.dropout(act(gate) * value, config.dropout, training)
    return F.dropout(act(x), config.dropout, training)


class Mlp(nn.Module):
    """(B, T, D) -> (B, T, D): down(act(up(x))), or down(act(gate) * value)."""

    def __init__(self, dim: int, config: MlpConfig, eps: float = 1e-6):
        super().__init__()
        self.config = c = config
        one_of("Mlp", "activation", c.activation, ACTIVATIONS)
        hidden = c.hidden or 4 * dim
        self.up = Linear(dim, hidden * (1 + c.gated), c.bias)
        self.norm = make_norm(c.inner_norm, hidden, eps)
        self.down = Linear(hidden, dim, c.bias)

    def forward(self, x: Tensor, around: Around = ALONE) -> Tensor:
        """(B, T, D) -> (B, T, D); what is around a token does not matter here."""
        ours = not self.up._forward_hooks  # one may hold what it saw
        return self.down(self.norm(activate(self.up(x), self.config, self.training, ours)))


class Experts(nn.Module):
    """(B, T, D) -> (B, T, D): the `top` best of E MLPs for each token, weighted by the router.

    Weights of several sum to 1; that of one alone is its probability, or the router would not
    learn. Every token reaches all of its experts, none is dropped. `aux` receives `balance` times
    the load-balancing loss, E times the sum over experts of (share of tokens) x (mean router
    weight): 1 at perfect balance. (Shazeer et al. 2017, arXiv:1701.06538; one expert, and the loss:
    Fedus et al. 2021, arXiv:2101.03961)
    """

    def __init__(self, dim: int, config: MlpConfig):
        super().__init__()
        self.config = c = config
        one_of("Experts", "activation", c.activation, ACTIVATIONS)
        wants = "Experts takes 1 <= top <= experts, no bias and no inner_norm"
        got = f"top {c.top} of {c.experts}, bias {c.bias}, inner_norm {c.inner_norm!r}"
        fits = 1 <= c.top <= c.experts and not c.bias and c.inner_norm == "none"
        require(fits, f"{wants}; got {got}{': give mlp.bias false' * c.bias}", "experts")
        hidden = c.hidden or 4 * dim
        self.router = nn.Linear(dim, c.experts, bias=False)
        self.up = nn.Parameter(torch.empty(c.experts, hidden * (1 + c.gated), dim))
        self.down = nn.Parameter(torch.empty(c.experts, dim, hidden))

    def forward(self, x: Tensor, around: Around = ALONE) -> Tensor:
        """(B, T, D) -> (B, T, D); padding counts for nothing in the loss."""
        tokens, top, experts = x.flatten(0, 1), self.config.top, self.config.experts
        weights = self.router(tokens).float().softmax(-1)  # (M, E)
        best, chosen = weights.topk(top, -1)  # (M, top)
        best = best / best.sum(-1, keepdim=True) if top > 1 else best
        expert = chosen.flatten()
        order = expert.argsort(stable=True)
        token = order // top  # rows of one expert stand together, each the token that it serves
        ends = F.one_hot(expert, experts).sum(0).cumsum(0)
        hidden = grouped_linear(tokens[token], self.up.to(x.dtype), ends)
        hidden = activate(hidden, self.config, self.training)
        out = grouped_linear(hidden, self.down.to(x.dtype), ends)
        out = out * best.flatten()[order, None].to(x.dtype)
        if around.aux is not None and self.config.balance is not None:
            keep = around.keep
            real = weights.new_ones(len(tokens), 1) if keep is None else keep.reshape(-1, 1).float()
            share = (F.one_hot(chosen, experts).sum(1) * real).sum(0) / (top * real.sum())
            uneven = experts * (share * (weights * real).sum(0) / real.sum()).sum()
            around.aux.append(self.config.balance * uneven)
        return torch.zeros_like(tokens).index_add(0, token, out).view_as(x)
