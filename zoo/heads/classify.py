"""One label per sample."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import OptionError, ShapeError, one_of
from zoo.nn import Attention, AttentionConfig, Part, initialise, make_norm
from zoo.nn.init import owned
from zoo.ops import Mask
from zoo.shapes import check
from zoo.tokens import Tokens

POOLS = ("class", "prefix", "mean", "last", "pick", "attention")


@dataclass(frozen=True)
class ClassifyConfig:
    """Tokens pooled to one vector, and a Linear on it."""

    dim: int
    """Model width D."""
    classes: int
    """How many labels."""
    pool: str = "class"
    """class: the first kept token.  prefix: the mean of class and register tokens (DeiT, AST).
    mean: of the kept tokens behind the prefix.  last: the last kept one.  pick: the one that the
    adapter picked.  attention: what a learned query gathers (Zhai et al. 2021,
    arXiv:2106.04560)."""
    norm: str = "none"
    """A norm of the pooled vector: layer, rms or none."""
    eps: float = 1e-6
    """Added to the variance in that norm."""
    heads: int = 1
    """Of the attention pool; they divide D."""
    dropout: float = 0.0
    """Zeroed share of the pooled vector."""
    bias: bool = True
    """Whether the Linear has a bias."""
    init: str = "normal"
    """How the Linear starts: normal or xavier."""


class Classify(Part[ClassifyConfig]):
    """Tokens of (B, T, D) -> (B, classes) logits."""

    Config = ClassifyConfig

    def __init__(self, config: ClassifyConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Classify", "pool", c.pool, POOLS)
        if c.classes < 1:
            raise OptionError(f"Classify takes at least 1 class; got {c.classes}", "classes")
        self.dim, self.reads_class = c.dim, c.pool == "class"
        if c.pool == "attention":
            self.query = owned((1, c.dim))
            self.gather = Attention(c.dim, AttentionConfig(c.heads), c.eps, source=c.dim)
        self.norm = make_norm(c.norm, c.dim, c.eps)
        self.out = nn.Linear(c.dim, c.classes, bias=c.bias)
        initialise(self, c.init)

    def forward(self, tokens: Tokens) -> Tensor:
        """Tokens of (B, T, D) -> (B, classes)."""
        check("Classify", tokens.x, "batch tokens dim", dim=self.dim)
        x = self.norm(self.pool(tokens))
        return self.out(F.dropout(x, self.config.dropout, self.training))

    def pool(self, tokens: Tokens) -> Tensor:
        """Tokens of (B, T, D) -> (B, D)."""
        x, keep, prefix = tokens.x, tokens.keep, tokens.prefix
        match self.config.pool:
            case "class":
                return x[:, 0] if prefix or keep is None else x[batch_of(x), keep.int().argmax(1)]
            case "prefix":
                return x[:, :prefix].mean(1)
            case "last":
                return x[:, -1] if keep is None else x[batch_of(x), last_of(keep)]
            case "pick":
                if tokens.pick is None:
                    raise ShapeError("Classify with pool pick takes Tokens with a pick; got none")
                return x[batch_of(x), tokens.pick]
            case "attention":
                query = self.query.to(x.dtype).expand(len(x), 1, -1)
                return self.gather(query, Mask(keep=keep), source=x)[:, 0]
        x = x[:, prefix:]
        if keep is None:
            return x.mean(1)
        real = keep[:, prefix:, None]
        return torch.where(real, x, 0).sum(1) / real.sum(1).clamp(min=1)

    def loss(
        self, answer: Tensor, batch: Mapping[str, Tensor], smoothing: float = 0.0
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """(B, classes), {"target": (B,) int64 or (B, classes) float} -> {"loss": (sum, count)}, the
        cross-entropy.

        `smoothing` spreads that share of each target over all classes (Szegedy et al. 2016,
        arXiv:1512.00567).
        """
        target = batch["target"]
        total = F.cross_entropy(answer.float(), target, reduction="sum", label_smoothing=smoothing)
        return {"loss": (total, torch.tensor(len(target), device=answer.device))}


def batch_of(x: Tensor) -> Tensor:
    """(B, ...) -> (B,) int64: the row numbers, to pick one token of each sample."""
    return torch.arange(len(x), device=x.device)


def last_of(keep: Tensor) -> Tensor:
    """(B, T) bool -> (B,) int64: where the last kept token stands, padding left or right."""
    return keep.shape[1] - 1 - keep.int().flip(1).argmax(1)
