"""Pictures and videos as Swin takes them: small patches, and stages whose tokens attend in
windows."""

from dataclasses import dataclass, replace
from typing import Any

from einops import rearrange
from torch import Tensor

from zoo import nn
from zoo.adapters.patch import CUTS, conv_stem, filled
from zoo.errors import ShapeError, one_of, require
from zoo.ops import grid_places
from zoo.shapes import check, pair
from zoo.tokens import Grid, Tokens


@dataclass(frozen=True, kw_only=True)
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
    stem: str = "linear"
    """linear: one projection of each patch.  conv: 3x3 convolutions that halve a picture, see
    `Patches`."""
    ratio: float = 4.0
    """The MLP's width over the stage's."""
    version: int = 1
    """1, or 2: norms behind the branches, cosine attention, continuous bias (arXiv:2111.09883)."""
    trained: tuple[int, ...] | None = None
    """Version 2: the window that the bias was trained with; None = the same."""
    trained_size: int | tuple[int, int] | None = None
    """Version 2: the picture of that training; None = the same."""
    clamp: bool = False
    """Whether a picture's windows are no larger than the grid of their stage at the native size."""
    pad: str = "mask"
    """What happens where windows do not fill the grid: mask, attend or attend_after."""
    moves: str = "each"
    """Which axes are shifted: each that one window does not fill, all or none (Microsoft's and
    transformers' version 1), or as at the native size (transformers' version 2)."""
    cut: bool = False
    """Whether pixels that fill no whole patch are left out; else zeros are put beside them."""
    eps: float = 1e-5
    """Added to the variance in norms."""


class SwinPatches(nn.Part[SwinPatchesConfig]):
    """(B, C, height, width) or (B, C, time, height, width) -> Tokens of (B, t*h*w, D), without
    prefix.

    Sides that patches do not fill are padded with zeros, or cut. The rest of a Swin is
    `Backbone(stages=adapter.stages)`. (Liu et al. 2021, arXiv:2103.14030; Video Swin:
    arXiv:2106.13230)
    """

    Config = SwinPatchesConfig

    def __init__(self, config: SwinPatchesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        wants = "as many depths as heads, a window and a patch of two sides or three"
        got = f"depths {c.depths}, heads {c.heads}, window {c.window}, patch {c.patch}"
        fits = len(c.depths) == len(c.heads) and len(c.window) == len(c.patch) in (2, 3)
        require(fits, f"SwinPatches takes {wants}; got {got}", "depths")
        known = c.version in (1, 2)
        require(known, f"SwinPatches takes version 1 or 2; got {c.version}", "version")
        self.dim, self.has_class, self.stages = c.dim, False, self.stages_of(c)
        _, self.axes, conv = CUTS[len(c.patch)]
        one_of("SwinPatches", "stem", c.stem, ("linear", "conv"))
        if c.stem == "conv":
            self.stem = conv_stem("SwinPatches", c, c.patch)
        else:
            self.stem = conv(c.channels, c.dim, c.patch, c.patch)
        self.norm = nn.make_norm("layer", c.dim, c.eps)

    @staticmethod
    def stages_of(c: SwinPatchesConfig) -> tuple[nn.Stage, ...]:
        """The stages that a config asks for."""
        place, norm = ("pre", "before") if c.version == 1 else ("res_post", "after")
        stages = []
        for i, (depth, heads) in enumerate(zip(c.depths, c.heads, strict=True)):
            window = clamped(c, c.window, c.size, i)
            how = one_of("SwinPatches", "moves", c.moves, ("each", "all", "native"))
            if how == "native":
                how = "never" if min(native(c, c.size, i)) <= max(window) else "always"
            windows, shifted = (nn.Windows(window, on, c.pad, how) for on in (False, True))
            change = {"attn.grouping": shifted}
            attn = nn.AttentionConfig(heads, grouping=windows, position=nn.WindowTable(window))
            if c.version == 2:
                trained = c.trained and clamped(c, c.trained, c.trained_size or c.size, i)
                position = nn.Continuous(window, trained)
                attn = replace(attn, bias="qv", scale="cosine", position=position)
            dim = c.dim * 2**i
            mlp = nn.MlpConfig(int(dim * c.ratio))
            block = nn.BlockConfig(dim, attn, mlp, place=place, eps=c.eps)
            merge = nn.MergeConfig(norm, c.eps) if i else None
            stages.append(nn.Stage(depth, block, merge, dict.fromkeys(range(1, depth, 2), change)))
        return tuple(stages)

    def forward(self, pixels: Tensor) -> Tokens:
        """(B, C, height, width) or (B, C, time, height, width) -> Tokens of (B, t*h*w, D)."""
        c = self.config
        check("SwinPatches", pixels, f"batch channels {self.axes}", channels=c.channels)
        if any(n < (p if c.cut else 1) for n, p in zip(pixels.shape[2:], c.patch, strict=True)):
            what = "a whole patch" if c.cut else "pixels"
            raise ShapeError(f"SwinPatches takes a picture with {what}; got {tuple(pixels.shape)}")
        x = self.stem(pixels if c.cut else filled(pixels, c.patch))
        grid: Grid = (1, *x.shape[2:])[-3:]  # type: ignore[assignment]  # three sides
        x = self.norm(rearrange(x, "b d ... -> b (...) d"))
        places = grid_places(grid[-len(c.patch) :], 0, x.device)
        return Tokens(x, None, places, grid, size=tuple(pixels.shape[2:]), stride=c.patch)


def clamped(
    c: SwinPatchesConfig, window: tuple[int, ...], size: int | tuple[int, int], stage: int
) -> tuple[int, ...]:
    """A window's sides in a stage: as they are, or no larger than its grid."""
    if not c.clamp:
        return window
    sides = zip(window[-2:], native(c, size, stage), strict=True)
    return (*window[:-2], *(min(side) for side in sides))


def native(c: SwinPatchesConfig, size: int | tuple[int, int], stage: int) -> tuple[int, ...]:
    """The grid (h, w) of a stage, for a picture of that size."""
    sides = zip(pair(size), c.patch[-2:], strict=True)
    return tuple(-(-side // (p * 2**stage)) for side, p in sides)
