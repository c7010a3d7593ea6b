"""Text as subwords, whatever the tokenizer."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from zoo.errors import OptionError, ShapeError, one_of
from zoo.nn import Part, initialise, make_norm
from zoo.nn.init import owned
from zoo.ops import add_waves, sincos
from zoo.shapes import check
from zoo.tokens import Tokens

POSITIONS = ("learned", "sincos", "sincos_scaled", "none")


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


class Subwords(Part[SubwordsConfig]):
    """(B, T) ids -> Tokens of (B, T, D). Positions come from `keep`: padding, left or right, counts
    for none."""

    Config = SubwordsConfig

    def __init__(self, config: SubwordsConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Subwords", "position", c.position, POSITIONS)
        if c.position.startswith("sincos") and c.dim % 2:
            raise OptionError(
                f"Subwords with sincos positions takes an even dim; got {c.dim}", "dim"
            )
        self.dim = c.dim
        self.embed = owned((c.vocabulary, c.narrow or c.dim))
        self.widen = None if c.narrow is None else nn.Linear(c.narrow, c.dim)
        rows = c.length + c.offset
        self.position = owned((rows, c.dim)) if c.position == "learned" else None
        self.segment = owned((c.segments, c.dim)) if c.segments else None
        self.norm = make_norm(c.norm, c.dim, c.eps)
        if self.widen is not None:
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
        check("Subwords", ids, "batch tokens")
        if keep is not None:
            check("Subwords keep", keep, "batch tokens", batch=ids.shape[0], tokens=ids.shape[1])
            ids = torch.where(keep, ids, 0)
        if positions is None:
            positions = places(ids, keep, sample)
        x = nn.functional.embedding(ids, self.embed) * c.scale
        x = x if self.widen is None else self.widen(x)
        if self.position is not None:
            if ids.shape[1] > c.length:
                raise ShapeError(
                    f"Subwords takes texts of {c.length} tokens at most, the rows of its position "
                    f"table; got {ids.shape[1]}: truncate, or create it with a larger length"
                )
            x = x + nn.functional.embedding(positions + c.offset, self.position)
        elif c.position != "none":
            x = add_waves(x, sincos(positions[..., None], c.dim), c.position)
        if self.segment is not None:
            rows = torch.zeros_like(ids) if segments is None else segments
            x = x + nn.functional.embedding(rows, self.segment)
        x = nn.functional.dropout(self.norm(x), c.dropout, self.training)
        if keep is not None:
            x = torch.where(keep[..., None], x, 0)
        return Tokens(x, keep, positions[..., None], sample=sample, pick=pick)


def places(ids: Tensor, keep: Tensor | None, sample: Tensor | None) -> Tensor:
    """(B, T) ids, keep, sample -> (B or 1, T) int64: each token's rank among the kept ones of its
    sample."""
    count = torch.arange(ids.shape[1], device=ids.device)[None]
    if keep is not None:
        count = (keep.long().cumsum(1) - 1).clamp(min=0)
    if sample is not None:
        first = sample != nn.functional.pad(sample, (1, 0), value=-1)[:, :-1]
        count = count - torch.where(first, count, 0).cummax(1).values
    return count
