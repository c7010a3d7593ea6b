"""One label per sample."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import OptionError, one_of
from zoo.nn import Part, initialise, make_norm
from zoo.shapes import check
from zoo.tokens import Tokens

POOLS = ("class", "mean")


@dataclass(frozen=True)
class ClassifyConfig:
    """Tokens pooled to one vector, and a Linear on it."""

    dim: int
    """Model width D."""
    classes: int
    """How many labels."""
    pool: str = "class"
    """class: the first token.  mean: over the kept tokens behind the prefix."""
    norm: str = "none"
    """A norm of the pooled vector: layer, rms or none."""
    eps: float = 1e-6
    """Added to the variance in that norm."""
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
        if self.config.pool == "class":
            return tokens.x[:, 0]
        x = tokens.x[:, tokens.prefix :]
        if tokens.keep is None:
            return x.mean(1)
        keep = tokens.keep[:, tokens.prefix :, None]
        return torch.where(keep, x, 0).sum(1) / keep.sum(1).clamp(min=1)

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
