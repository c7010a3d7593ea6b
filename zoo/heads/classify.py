"""What a sample is: one label of several, some of several, or numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.errors import ShapeError, one_of, require
from zoo.nn import (
    Around,
    Attention,
    AttentionConfig,
    Mlp,
    MlpConfig,
    Part,
    initialise,
    make_norm,
    owned,
)
from zoo.ops import Mask
from zoo.shapes import check
from zoo.tokens import Tokens

Batch = Mapping[str, Any]  # what a loss reads of it: "target"
Losses = dict[str, tuple[Tensor, Tensor]]  # a sum over samples and their count, by name
TARGETS = ("label", "labels", "numbers")
POOLS = ("class", "class_mean", "prefix", "mean", "last", "pick", "attention")


@dataclass(frozen=True)
class ClassifyConfig:
    """Tokens pooled to one vector, and a Linear on it."""

    dim: int
    """Model width D."""
    classes: int | None
    """How many labels, or numbers to predict; None = no Linear, the pooled vector answers."""
    target: str = "label"
    """label: one of the classes.  labels: any of them.  numbers: regression, one number per
    class."""
    pool: str = "class"
    """class: the class token, or the first kept one.  class_mean: it and the mean, both, 2 D
    wide (DINOv2: Oquab et al. 2023).  prefix: the mean of class and register tokens (DeiT, AST).
    mean: of the kept tokens behind the prefix.  last: the last kept one.  pick: the one that the
    adapter picked.  attention: what a learned query gathers (Zhai et al. 2021,
    arXiv:2106.04560)."""
    norm: str = "none"
    """A norm of the pooled vector: layer, rms or none."""
    eps: float = 1e-6
    """Added to the variance in that norm."""
    heads: int = 1
    """Of the attention pool; they divide D."""
    pool_mlp: MlpConfig | None = None
    """An MLP behind the attention pool, added to it, with a layer norm before (SigLIP)."""
    distilled: bool = False
    """Whether a second Linear reads the second token, and their mean answers (DeiT: Touvron et al.
    2020, arXiv:2012.12877)."""
    dropout: float = 0.0
    """Zeroed share of the pooled vector."""
    bias: bool = True
    """Whether the Linear has a bias."""
    init: str = "normal"
    """How the Linear starts: normal, xavier, orthogonal or depth_scaled."""


class Classify(Part[ClassifyConfig]):
    """Tokens of (B, T, D) -> (B, classes) logits."""

    Config = ClassifyConfig

    def __init__(self, config: ClassifyConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Classify", "pool", c.pool, POOLS)
        one_of("Classify", "target", c.target, TARGETS)
        self.dim, self.reads_class = c.dim, c.pool in ("class", "class_mean")
        self.pools_freely = c.pool != "attention" and not c.distilled  # nothing to learn before out
        if c.pool == "attention":
            self.query = owned((1, c.dim))
            self.gather = Attention(c.dim, AttentionConfig(c.heads), c.eps, source=c.dim)
            if c.pool_mlp is not None:
                self.pool_norm, self.mlp = make_norm("layer", c.dim, c.eps), Mlp(c.dim, c.pool_mlp)
        width = 2 * c.dim if c.pool == "class_mean" else c.dim
        self.norm = make_norm(c.norm, width, c.eps)
        count = c.classes
        self.out = nn.Identity() if count is None else nn.Linear(width, count, bias=c.bias)
        self.second = nn.Linear(c.dim, count, bias=c.bias) if count and c.distilled else None
        if any(True for _ in self.parameters()):
            initialise(self, c.init)

    def forward(self, tokens: Tokens) -> Tensor:
        """Tokens of (B, T, D) -> (B, classes), or what is pooled, without classes."""
        check("Classify", tokens.x, "batch tokens dim", dim=self.dim)
        answer, other = self.both(tokens)
        return answer if other is answer else (answer + other) / 2

    def both(self, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """Tokens of (B, T, D) -> (B, classes) by the pooled vector, and by the second token; that
        of the first twice where there is no second Linear."""
        answer = self.answer(self.pool(tokens))
        if self.second is None:
            return answer, answer
        if tokens.prefix < 2:
            raise ShapeError(f"Classify, distilled, takes two prefix tokens; got {tokens.prefix}")
        x = F.dropout(self.norm(tokens.x[:, 1]), self.config.dropout, self.training)
        return answer, self.second(x)

    def answer(self, pooled: Tensor) -> Tensor:
        """(B, D) as `pool` gives it, 2 D for class_mean -> (B, classes), or it without classes."""
        return self.out(F.dropout(self.norm(pooled), self.config.dropout, self.training))

    def pool(self, tokens: Tokens) -> Tensor:
        """Tokens of (B, T, D) -> (B, D), or (B, 2 D) for class_mean.

        Of equal values `argmax` takes the first: of `keep` the first kept token, of its running
        count the last kept one.
        """
        x, keep, prefix, kind = tokens.x, tokens.keep, tokens.prefix, self.config.pool
        match kind:
            case "class":
                return x[:, 0] if prefix or keep is None else at(x, keep.int().argmax(1))
            case "class_mean" if prefix:
                rest = mean(x[:, prefix:], None if keep is None else keep[:, prefix:])
                return torch.cat((x[:, 0], rest), -1)
            case "prefix" if prefix:
                return x[:, :prefix].mean(1)
            case "mean":
                return mean(x[:, prefix:], None if keep is None else keep[:, prefix:])
            case "last":
                return x[:, -1] if keep is None else at(x, keep.cumsum(1).argmax(1))
            case "pick" if tokens.pick is not None:
                return at(x, tokens.pick)
            case "attention":
                query = self.query.to(x.dtype).expand(x.shape[0], 1, -1)
                x = self.gather(query, Around(Mask(keep=keep), source=x))[:, 0]
                return x if self.config.pool_mlp is None else x + self.mlp(self.pool_norm(x))
        raise ShapeError(f"Classify with pool {kind} takes Tokens with a {kind}; got none")

    def loss(self, answer: Tensor, batch: Batch, smoothing: float = 0.0) -> Losses:
        """(B, classes), {"target": ...} -> {"loss": (sum, count)}, summed over samples.

        label: (B,) int64 or (B, classes) shares, cross-entropy, of which `smoothing` is spread over
        all classes (Szegedy et al. 2016, arXiv:1512.00567), times "weight" (B,) where the batch has
        it.  labels: (B, classes) of 0 and 1,
        binary cross-entropy.  numbers: (B, classes), squared error; both means over classes.
        """
        target, answer, kind = batch["target"], answer.float(), self.config.target
        if kind == "label":
            each = F.cross_entropy(answer, target, reduction="none", label_smoothing=smoothing)
            total = (each * batch.get("weight", 1.0)).sum()
        else:
            error = F.mse_loss if kind == "numbers" else F.binary_cross_entropy_with_logits
            total = error(answer, target.float(), reduction="none").mean(-1).sum()
        return {"loss": (total, torch.tensor(len(target), device=answer.device))}


@dataclass(frozen=True)
class SeveralConfig:
    """Several heads on the same tokens."""

    heads: Mapping[str, ClassifyConfig]
    """Each by its name; all of one width."""


class Several(Part[SeveralConfig]):
    """Tokens of (B, T, D) -> {name: (B, classes)}, one answer per head."""

    Config = SeveralConfig

    def __init__(self, config: SeveralConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        widths = {head.dim for head in c.heads.values()}
        wants = "Several takes heads of one width"
        require(len(widths) == 1, f"{wants}; got {sorted(widths)}", "heads")
        self.dim = widths.pop()
        self.reads_class = any(head.pool in ("class", "class_mean") for head in c.heads.values())
        self.heads = nn.ModuleDict({name: Classify(head) for name, head in c.heads.items()})

    def forward(self, tokens: Tokens) -> dict[str, Tensor]:
        """Tokens of (B, T, D) -> {name: (B, classes)}."""
        return {name: head(tokens) for name, head in self.heads.items()}

    def loss(self, answer: Mapping[str, Tensor], batch: Batch, smoothing: float = 0.0) -> Losses:
        """{name: (B, classes)}, {"target": {name: ...}} -> {name: (sum, count)}."""
        losses = {}
        for name, head in self.heads.items():
            mine = {"target": batch["target"][name]}
            losses[name] = head.loss(answer[name], mine, smoothing)["loss"]  # type: ignore[operator]
        return losses


def at(x: Tensor, place: Tensor) -> Tensor:
    """(B, T, D), (B,) int64 -> (B, D): one token of each sample."""
    return x[torch.arange(x.shape[0], device=x.device), place]


def mean(x: Tensor, keep: Tensor | None) -> Tensor:
    """(B, T, D), (B, T) bool -> (B, D): the mean of the kept tokens, zero where there are none."""
    if keep is None:
        return x.mean(1)
    real = keep[..., None]
    return torch.where(real, x, 0).sum(1) / real.sum(1).clamp(min=1)
