"""What comes in order: feature frames of a sound or a series, subwords of a text."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.adapters.adapter import Adapter, AdapterConfig, C
from zoo.errors import ShapeError, one_of
from zoo.nn import initialise, make_norm, owned
from zoo.ops import add_positions, sincos, take
from zoo.shapes import check
from zoo.tokens import Tokens


@dataclass(frozen=True, kw_only=True)
class SequenceConfig(AdapterConfig):
    """What every adapter of a sequence takes."""

    length: int = 512
    """Rows of a learned position table: the most tokens."""
    norm: str = "none"
    """A norm of the sum with the positions: layer, rms or none."""
    eps: float = 1e-6
    """Added to the variance in it."""
    init: str = "normal"
    """How Linears start; tables are normal, 0.02."""


class SequenceAdapter(Adapter[C]):
    """Base: positions come from `keep`, so padding, left or right, counts for none."""

    def own(self, rows: int, prefix_rows: bool = False, register_rows: bool = True) -> None:
        """As in Adapter, and the norm; Linears start as the config says."""
        super().own(rows, prefix_rows, register_rows)
        self.norm = make_norm(self.config.norm, self.config.dim, self.config.eps)
        initialise(self, self.config.init)

    def in_order(self, x: Tensor, keep: Tensor | None, at: Tensor | None, **more: Any) -> Tokens:
        """(B, T, D), `at` places (B or 1, T) or as `keep` counts -> Tokens of (B, P + T, D)."""
        c, table, sample = self.config, None, more.get("sample")
        if self.position is not None and x.shape[1] > c.length and sample is None:
            wants = f"{type(self).__name__} takes {c.length} tokens at most, its rows of positions"
            got = f"{x.shape[1]}: cut them, or create it with a larger length"
            raise ShapeError(f"{wants}; got {got}")
        places = ranks(x, keep, sample) if at is None else at
        if self.position is not None:
            table = self.look_up(places + getattr(c, "offset", 0), self.position, "positions")
        elif c.position != "none":
            table = sincos(places[..., None], c.dim)
        x = self.norm(x if table is None else add_positions(x, table, c.position))
        if self.special:
            places = F.pad(places, (self.special, 0))
            keep = None if keep is None else F.pad(keep, (self.special, 0), value=True)
        return self.tokens(x, keep=keep, positions=places[..., None], **more)

    def look_up(self, rows: Tensor, table: Tensor, what: str) -> Tensor:
        """(B, T) int64, (R, D) -> (B, T, D). ShapeError for rows that the table has not, where the
        device tells them: a GPU does not."""
        check(f"{type(self).__name__} {what}", rows, "batch tokens", floats=False)
        try:
            return F.embedding(rows, table)
        except IndexError as error:
            got = f"some from {int(rows.min())} to {int(rows.max())}"
            wants = f"{type(self).__name__} takes {what} of a table of {len(table)} rows"
            raise ShapeError(f"{wants}; got {got}") from error


def ranks(x: Tensor, keep: Tensor | None, sample: Tensor | None = None) -> Tensor:
    """(B, T, ...), keep, sample -> (B or 1, T) int64: each one's rank among the kept of its
    sample."""
    count = torch.arange(x.shape[1], device=x.device)[None]
    if keep is not None:
        count = (keep.long().cumsum(1) - 1).clamp(min=0)
    if sample is not None:
        first = sample != F.pad(sample, (1, 0), value=-1)[:, :-1]
        count = count - torch.where(first, count, 0).cummax(1).values
    return count


@dataclass(frozen=True, kw_only=True)
class FramesConfig(SequenceConfig):
    """Feature frames, such as log-mel bands over time, or the channels of a series."""

    channels: int
    """Features of a frame."""
    stem: str = "linear"
    """linear: each frame projected.  conv: two convolutions of 3 frames, the second with the stride
    (Whisper)."""
    stride: int = 2
    """Frames per token of the conv stem."""
    length: int = 1500
    """Rows of a learned position table: the most tokens."""
    position: str = "sincos"
    """What is added: learned, sincos, sincos_scaled (to the tokens' norms) or none."""
    class_token: bool = False
    """A learned token in front."""


class Frames(SequenceAdapter[FramesConfig]):
    """(B, T, C) frames -> Tokens of (B, P + T', D); T' is T, or T / stride rounded up behind the
    conv stem."""

    Config = FramesConfig

    def __init__(self, config: FramesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Frames", "stem", c.stem, ("linear", "conv"))
        if c.stem == "linear":
            self.stem = nn.Linear(c.channels, c.dim)
        else:
            self.conv1 = nn.Conv1d(c.channels, c.dim, 3)
            self.conv2 = nn.Conv1d(c.dim, c.dim, 3, stride=c.stride)
        self.own(c.length)

    def forward(self, frames: Tensor, keep: Tensor | None = None) -> Tokens:
        """(B, T, C) float, (B, T) bool -> Tokens of (B, P + T', D).

        Padded frames are zeros before any convolution, between them too, so that a sound's tokens
        do not depend on what it is padded with or how far, before it or behind. A token is kept
        where its middle frame is.
        """
        c = self.config
        check("Frames", frames, "batch frames channels", channels=c.channels)
        x = self.hide(frames, keep)
        if c.stem == "linear":
            return self.in_order(self.stem(x), keep, None)
        if keep is not None and c.stride > 1:
            # The first real frame is the middle of a token, as if it stood alone.
            count = x.shape[1]
            at = torch.arange(count, device=x.device) + keep.int().argmax(1)[:, None] % c.stride
            x, keep = (take(t, at.clamp(max=count - 1)) for t in (x, keep))
            keep = keep & (at < count)
        for conv in (self.conv1, self.conv2):
            # Not the layers' own padding: its gradient in bf16 on CPU is NaN for three frames or
            # fewer.
            x = F.pad(self.hide(x, keep).transpose(1, 2), (1, 1))
            x = F.gelu(conv(x)).transpose(1, 2)
        keep = None if keep is None else keep[:, :: c.stride]
        return self.in_order(x, keep, None)


@dataclass(frozen=True, kw_only=True)
class SubwordsConfig(SequenceConfig):
    """Ids looked up in a table, plus where they stand."""

    vocabulary: int
    """Rows of the table of ids."""
    offset: int = 0
    """Rows of the position table in front of the first position (RoBERTa: pad id + 1)."""
    segments: int = 0
    """Rows of a table of segments, such as question and answer; 0 = no table."""
    narrow: int | None = None
    """Width of the table of ids, projected to D behind it (ALBERT, Lan et al. 2019); None = D."""
    scale: float = 1.0
    """Factor of the looked-up rows (the original Transformer and Gemma: sqrt(D))."""


class Subwords(SequenceAdapter[SubwordsConfig]):
    """(B, T) ids -> Tokens of (B, T, D)."""

    Config = SubwordsConfig

    def __init__(self, config: SubwordsConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        self.embed = owned((c.vocabulary, c.narrow or c.dim))
        self.widen = nn.Linear(c.narrow, c.dim) if c.narrow else nn.Identity()
        self.own(c.length + c.offset)
        self.segment = owned((c.segments, c.dim)) if c.segments else None

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
        check("Subwords", ids, "batch tokens", floats=False)
        ids = self.hide(ids, keep)
        x = self.widen(self.look_up(ids, self.embed, "ids") * self.config.scale)
        if self.segment is not None:
            segments = torch.zeros_like(ids) if segments is None else segments
            x = x + self.look_up(segments, self.segment, "segments")
        return self.in_order(x, keep, positions, sample=sample, pick=pick)
