"""Pictures and videos as Swin takes them: small patches, and stages whose tokens attend in
windows."""

import math
from dataclasses import dataclass
from typing import Any

from einops import rearrange
from torch import Tensor, nn

from zoo.errors import OptionError, ShapeError
from zoo.nn import (
    AttentionConfig,
    BlockConfig,
    Continuous,
    MergeConfig,
    MlpConfig,
    Part,
    Stage,
    Windows,
    WindowTable,
    make_norm,
)
from zoo.ops import grid_places
from zoo.shapes import check
from zoo.tokens import Tokens


@dataclass(frozen=True)
class SwinPatchesConfig:
    """Patches, and the stages that fit them."""

    dim: int
    """Width of the first stage; each further one is twice as wide."""
    depths: tuple[int, ...] = (2, 2, 6, 2)
    """Blocks per stage; every second one has shifted windows."""
    heads: tuple[int, ...] = (3, 6, 12, 24)
    """Heads per stage."""
    window: tuple[int, ...] = (7, 7)
    """A window's sides in tokens: (h, w), or (t, h, w) for videos."""
    patch: tuple[int, ...] = (4, 4)
    """A patch's sides in pixels: (h, w), or (t, h, w) for videos."""
    size: int | tuple[int, int] = 224
    """The native picture, pixels. Others are taken too."""
    channels: int = 3
    """Colours of a pixel."""
    ratio: float = 4.0
    """The MLP's width over the stage's."""
    version: int = 1
    """1, or 2: norms behind the branches, cosine attention, continuous bias (arXiv:2111.09883)."""
    trained: tuple[int, ...] | None = None
    """Version 2: the window that the bias was trained with; None = the same."""
    pad: str = "mask"
    """What happens where windows do not fill the grid: mask, attend or attend_after."""
    eps: float = 1e-5
    """Added to the variance in norms."""


class SwinPatches(Part[SwinPatchesConfig]):
    """(B, C, height, width) or (B, C, time, height, width) -> Tokens of (B, t*h*w, D), without
    prefix.

    Sides that patches do not fill are padded with zeros. `Backbone(stages=adapter.stages)` is the
    rest of a Swin. (Liu et al. 2021, arXiv:2103.14030; Video Swin: arXiv:2106.13230)
    """

    Config = SwinPatchesConfig

    def __init__(self, config: SwinPatchesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        if (
            len(c.depths) != len(c.heads)
            or len(c.window) != len(c.patch)
            or len(c.patch) not in (2, 3)
        ):
            raise OptionError(
                "SwinPatches takes as many depths as heads, a window and a patch of two sides or "
                f"three; got depths {c.depths}, heads {c.heads}, window {c.window}, "
                f"patch {c.patch}",
                "depths",
            )
        if c.version not in (1, 2):
            raise OptionError(f"SwinPatches takes version 1 or 2; got {c.version}", "version")
        self.dim, self.has_class = c.dim, False
        conv: Any = nn.Conv2d if len(c.patch) == 2 else nn.Conv3d
        self.stem = conv(c.channels, c.dim, c.patch, c.patch)
        self.norm = make_norm("layer", c.dim, c.eps)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages for `Backbone(stages=...)`."""
        return self.stages_of(self.config)

    @staticmethod
    def stages_of(c: SwinPatchesConfig) -> tuple[Stage, ...]:
        """The stages that a config asks for."""
        stages = []
        for i, (depth, heads) in enumerate(zip(c.depths, c.heads, strict=True)):
            dim, first = c.dim * 2**i, i == 0
            windows = Windows(c.window, pad=c.pad)
            if c.version == 1:
                attn = AttentionConfig(heads, position=WindowTable(c.window), grouping=windows)
            else:
                position = Continuous(c.window, c.trained)
                attn = AttentionConfig(
                    heads, bias="qv", scale="cosine", position=position, grouping=windows
                )
            place = "pre" if c.version == 1 else "res_post"
            block = BlockConfig(dim, attn, MlpConfig(int(dim * c.ratio)), place=place, eps=c.eps)
            shifted = {"attn.grouping": Windows(c.window, shift=True, pad=c.pad)}
            merge = None if first else MergeConfig("before" if c.version == 1 else "after", c.eps)
            stages.append(Stage(depth, block, merge, dict.fromkeys(range(1, depth, 2), shifted)))
        return tuple(stages)

    def forward(self, pixels: Tensor) -> Tokens:
        """(B, C, height, width) or (B, C, time, height, width) -> Tokens of (B, t*h*w, D)."""
        c = self.config
        axes = "height width" if len(c.patch) == 2 else "time height width"
        check("SwinPatches", pixels, f"batch channels {axes}", channels=c.channels)
        sides = pixels.shape[2:]
        if min(sides) < 1:
            raise ShapeError(f"SwinPatches takes a picture with pixels; got {tuple(pixels.shape)}")
        short = [math.ceil(n / p) * p - n for n, p in zip(sides, c.patch, strict=True)]
        if any(short):
            pixels = nn.functional.pad(pixels, [n for s in reversed(short) for n in (0, s)])
        x = self.stem(pixels)
        grid = (1, *x.shape[2:]) if x.ndim == 4 else tuple(x.shape[2:])
        x = self.norm(rearrange(x, "b d ... -> b (...) d"))
        return Tokens(x, None, grid_places(grid[-len(c.patch) :], 0, x.device), grid)
