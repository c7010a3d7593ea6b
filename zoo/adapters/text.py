"""Text as subwords, whatever the tokenizer."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.adapters.adapter import Adapter, ranks
from zoo.nn import initialise, make_norm
from zoo.nn.init import owned
from zoo.shapes import check
from zoo.tokens import Tokens


@dataclass(frozen=True)
class SubwordsConfig:
    """Ids looked up in a table, plus where they stand."""

    dim: int
    """Model width D."""
    vocabulary: int
    """Rows of the table of ids."""
    length: int = 512
    """Rows of a learned position table: the longest text."""
    position: str = "learned"
    """What is added: learned, sincos, sincos_scaled (to the tokens' norms) or none (relations
    belong to the backbone)."""
    offset: int = 0
    """Rows of the position table in front of the first position (RoBERTa: pad id + 1)."""
    segments: int = 0
    """Rows of a table of segments, such as question and answer; 0 = no table."""
    narrow: int | None = None
    """Width of the table of ids, projected to D behind it (ALBERT, Lan et al. 2019); None = D."""
    norm: str = "none"
    """A norm of the sum: layer, rms or none."""
    eps: float = 1e-6
    """Added to the variance in it."""
    scale: float = 1.0
    """Factor of the looked-up rows (the original Transformer and Gemma: sqrt(D))."""
    dropout: float = 0.0
    """Zeroed share of the sum."""
    init: str = "normal"
    """How the Linear starts; tables are normal, 0.02."""


class Subwords(Adapter[SubwordsConfig]):
    """(B, T) ids -> Tokens of (B, T, D). Positions come from `keep`: padding, left or right, counts
    for none."""

    Config = SubwordsConfig

    def __init__(self, config: SubwordsConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        self.embed = owned((c.vocabulary, c.narrow or c.dim))
        self.widen = None if c.narrow is None else nn.Linear(c.narrow, c.dim)
        self.own(c, c.length + c.offset)
        self.segment = owned((c.segments, c.dim)) if c.segments else None
        self.norm = make_norm(c.norm, c.dim, c.eps)
        initialise(self, c.init)

    def forward(
        self,
        ids: Tensor,
        keep: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        sample: Tensor | None = None,
        pick: Tensor | None = None,
    ) -> Tokens:
        """(B, T) int64 -> Tokens of (B, T, D).

        `keep` (B, T) bool is True for real tokens; `positions` (B, T) else count the kept ones;
        `segments` (B, T) default to 0; `sample` (B, T) tells texts packed in a row apart; `pick`
        (B,) names the token that stands for the text. ShapeError for a text longer than a learned
        position table.
        """
        c = self.config
        check("Subwords", ids, "batch tokens", floats=False)
        if keep is not None:
            check(
                "Subwords keep",
                keep,
                "batch tokens",
                False,
                batch=ids.shape[0],
                tokens=ids.shape[1],
            )
            ids = torch.where(keep, ids, 0)
        if positions is None:
            positions = ranks(ids, keep, sample)
        x = F.embedding(ids, self.embed) * c.scale
        x = x if self.widen is None else self.widen(x)
        if self.segment is not None:
            x = x + F.embedding(
                torch.zeros_like(ids) if segments is None else segments, self.segment
            )
        return self.in_order(x, positions, keep, sample=sample, pick=pick)

    def finish(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.norm(x)
