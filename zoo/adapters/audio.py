"""Sound: feature frames in order, or a spectrogram in patches."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zoo.adapters.adapter import Adapter, ranks
from zoo.adapters.patch import Patches, PatchesConfig
from zoo.errors import one_of
from zoo.nn import initialise, make_norm
from zoo.shapes import check
from zoo.tokens import Tokens


@dataclass(frozen=True)
class FramesConfig:
    """Feature frames, such as log-mel bands over time, or the channels of a series."""

    dim: int
    """Model width D."""
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
    norm: str = "none"
    """A norm of the sum: layer, rms or none."""
    eps: float = 1e-6
    """Added to the variance in it."""
    dropout: float = 0.0
    """Zeroed share of the sum."""
    init: str = "normal"
    """How Linears start."""


class Frames(Adapter[FramesConfig]):
    """(B, T, C) frames -> Tokens of (B, P + T', D); T' is T, or T / stride rounded up behind the
    conv stem."""

    Config = FramesConfig

    def __init__(self, config: FramesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Frames", "stem", c.stem, ("linear", "conv"))
        if c.stem == "linear":
            self.stem = nn.Linear(c.channels, c.dim)
        else:
            self.conv1 = nn.Conv1d(c.channels, c.dim, 3, padding=1)
            self.conv2 = nn.Conv1d(c.dim, c.dim, 3, stride=c.stride, padding=1)
        self.own(c, c.length)
        self.norm = make_norm(c.norm, c.dim, c.eps)
        initialise(self, c.init)

    def forward(self, frames: Tensor, keep: Tensor | None = None) -> Tokens:
        """(B, T, C) float, (B, T) bool -> Tokens of (B, P + T', D).

        Padded frames are zeros before any convolution, between them too, so that a sound's tokens
        do not depend on what it is padded with or how far. A token is kept where its middle frame
        is.
        """
        c = self.config
        check("Frames", frames, "batch frames channels", channels=c.channels)
        if keep is not None:
            check(
                "Frames keep",
                keep,
                "batch frames",
                False,
                batch=len(frames),
                frames=frames.shape[1],
            )
            frames = torch.where(keep[..., None], frames, 0)
        if c.stem == "linear":
            x = self.stem(frames)
        else:
            x = F.gelu(self.conv1(frames.transpose(1, 2)))
            x = x if keep is None else torch.where(keep[:, None], x, 0)
            x = F.gelu(self.conv2(x)).transpose(1, 2)
            keep = None if keep is None else keep[:, :: c.stride]
        return self.in_order(x, ranks(x, keep), keep)

    def finish(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.norm(x)


@dataclass(frozen=True)
class SpectrogramPatchesConfig(PatchesConfig):
    """Patches over (mel, time): AST's defaults, 16x16 in steps of 10."""

    size: int | tuple[int, int] = (128, 1024)
    """The native spectrogram: mel bands, frames."""
    stride: int | tuple[int, int] | None = 10
    """Bands and frames from one patch to the next."""
    channels: int = 1
    """A spectrogram has one."""
    registers: int = 1
    """Behind the class token; AST has DeiT's distillation token here."""


class SpectrogramPatches(Patches):
    """(B, T, mel) frames -> Tokens of (B, P + h*w, D), bands in rows, time running fastest.

    Other lengths cut or stretch the position table along time, as resizing does.
    (AST: Gong et al. 2021, arXiv:2104.01778)
    """

    Config = SpectrogramPatchesConfig

    def forward(self, frames: Tensor) -> Tokens:  # type: ignore[override]  # its own input
        """(B, T, mel) -> Tokens of (B, P + h*w, D). The tail that no whole patch covers is left
        out."""
        bands = self.config.size if isinstance(self.config.size, int) else self.config.size[0]
        check("SpectrogramPatches", frames, "batch frames mel", mel=bands)
        return super().forward(frames.transpose(1, 2)[:, None])
