"""Pictures, spectrograms and videos as patches: tokens of a grid of two axes or three."""

import math
from dataclasses import dataclass
from typing import Any

from einops import rearrange
from torch import Tensor, nn
from torch.nn.functional import pad

from zoo.adapters.adapter import Adapter, AdapterConfig, C
from zoo.errors import ShapeError, one_of, require
from zoo.nn import make_norm
from zoo.ops import RESIZES, add_positions, grid_places, resize_table, sincos_grid
from zoo.shapes import check, pair
from zoo.tokens import Tokens

Sides = tuple[int, ...]
CUTS: dict[int, Any] = {  # by the number of sides
    2: ("picture", "height width", nn.Conv2d),
    3: ("video", "time height width", nn.Conv3d),
}


def by(sides: Sides) -> str:
    """(8, 16) -> "8x16"."""
    return "x".join(map(str, sides))


@dataclass(frozen=True, kw_only=True)
class GridConfig(AdapterConfig):
    """What every adapter that cuts patches takes."""

    channels: int = 3
    """Colours of a pixel."""
    class_token: bool = True
    """A learned token in front that heads may read."""
    base: float = 10000.0
    """Slowest wavelength of the sinusoids, in patches / 2 pi."""
    norm: str = "none"
    """A norm of the tokens, prefix and positions included: layer, rms or none (CLIP)."""
    eps: float = 1e-6
    """Added to the variance in it."""
    extent: float | None = None
    """What the places along an axis are stretched to, whatever their number; None = whole numbers,
    one a patch."""
    centred: bool = False
    """Whether stretched places are the patches' middles, from the picture's (DINOv3)."""
    fill: bool = False
    """Whether sides that patches do not fill are padded with zeros; else they are refused."""


def filled(pixels: Tensor, patch: Sides) -> Tensor:
    """(B, C, *sides) -> the same with zeros at the end of each side that patches do not fill."""
    short = [-n % p for n, p in zip(pixels.shape[2:], patch, strict=True)]
    return pad(pixels, [n for side in reversed(short) for n in (0, side)]) if any(short) else pixels


class GridAdapter(Adapter[C]):
    """Base: (B, C, *sides) pixels -> Tokens of (B, P + T, D), T patches, the last axis fastest."""

    def cut(self, size: Sides, patch: Sides, stride: Sides | None = None) -> None:
        """Make `stem`, which cuts and projects patches, one `stride` from the next (None = the
        patch, so none overlap), and the `grid` of a native `size`."""
        c, self.patch, self.stride = self.config, patch, stride
        whole, self.axes, conv = CUTS[len(patch)]
        self.wants = f"{type(self).__name__} takes a {whole} that patches of {by(patch)} fill"
        self.grid = self.grid_of(size)
        bias, self.norm = getattr(c, "bias", True), make_norm(c.norm, c.dim, c.eps)
        self.stem: Any = conv(c.channels, c.dim, patch, stride or patch, bias=bias)

    def grid_of(self, size: Sides) -> Sides:
        """Pixels -> patches, along each axis. ShapeError for a size that patches do not fill.

        With a stride of its own, what no whole patch covers at the end is left out.
        """
        cuts = list(zip(size, self.patch, self.stride or self.patch, strict=True))
        # No divmod: a compiler has none for symbolic sizes.
        rest = [(side - patch) % stride for side, patch, stride in cuts]
        if any(side < patch for side, patch, _ in cuts) or (self.stride is None and any(rest)):
            got = f"{by(size)} ({self.axes.replace(' ', ' x ')})"
            raise ShapeError(f"{self.wants}; got {got}: resize it or choose another patch")
        return tuple([(side - patch) // stride + 1 for side, patch, stride in cuts])

    def forward(self, pixels: Tensor) -> Tokens:
        """(B, C, *sides) -> Tokens of (B, P + T, D)."""
        c, spec = self.config, f"batch channels {self.axes}"
        check(type(self).__name__, pixels, spec, channels=c.channels)
        size = tuple(pixels.shape[2:])
        pixels = filled(pixels, self.patch) if c.fill else pixels
        grid, table, front = self.grid_of(pixels.shape[2:]), None, None
        x = rearrange(self.stem(pixels), "b d ... -> b (...) d")
        if self.position is not None:
            how = getattr(c, "resize", "antialias")
            table = resize_table(self.position, self.grid, grid, how)
        elif c.position != "none":
            table = sincos_grid(grid, c.dim, c.base, x.dtype, x.device)
        if table is not None:
            x = add_positions(x, table[-x.shape[1] :], c.position)
            front = table[: -x.shape[1]] if len(table) > x.shape[1] else None
        places = grid_places(grid, self.special, x.device, c.extent, c.centred)
        sides = {"grid": (1, *grid)[-3:], "size": size, "stride": self.stride or self.patch}
        tokens = self.tokens(x, front, positions=places, **sides)
        return tokens.replace(x=self.norm(tokens.x))


@dataclass(frozen=True, kw_only=True)
class PatchesConfig(GridConfig):
    """A picture cut into patches, each projected to a token."""

    size: int | tuple[int, int] = 224
    """The native picture, pixels (height, width): the grid of a learned position table. Others are
    taken too."""
    patch: int | tuple[int, int] = 16
    """Pixels (height, width) of a patch."""
    stride: int | tuple[int, int] | None = None
    """Pixels from one patch to the next; None = the patch, so none overlap."""
    registers: int = 0
    """Further learned tokens, behind the class token (Darcet et al. 2023, arXiv:2309.16588)."""
    position_prefix: bool = True
    """Whether a learned table has rows for the class and register tokens as well."""
    position_registers: bool = True
    """Whether those for register tokens are among them."""
    resize: str = "antialias"
    """How a learned table is made for another grid: antialias, plain, corners or offset, see
    `zoo.ops.resize_table`."""
    stem: str = "linear"
    """linear: one projection of each patch.  conv: 3x3 convolutions that halve the picture (Xiao et
    al. 2021, arXiv:2106.14881).  random: a frozen Gaussian projection (Chen et al. 2021,
    arXiv:2104.02057)."""
    bias: bool = True
    """Whether the last projection has a bias."""


class Patches(GridAdapter[PatchesConfig]):
    """(B, C, height, width) pixels -> Tokens of (B, P + h*w, D), rows of patches from top to
    bottom.

    (Vision Transformer: Dosovitskiy et al. 2020, arXiv:2010.11929)
    """

    Config = PatchesConfig

    def __init__(self, config: PatchesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Patches", "stem", c.stem, ("linear", "conv", "random"))
        one_of("Patches", "resize", c.resize, RESIZES)
        patch = pair(c.patch)
        self.cut(pair(c.size), patch, pair(c.stride) if c.stride else None)
        if c.stem == "conv":
            self.stem = conv_stem("Patches", c, patch, c.stride)
        elif c.stem == "random":
            nn.init.normal_(self.stem.weight, std=(c.channels * math.prod(patch)) ** -0.5)
            self.stem.requires_grad_(False)
        self.own(math.prod(self.grid), c.position_prefix, c.position_registers)


def conv_stem(name: str, c: Any, patch: Sides, stride: Any = None) -> nn.Sequential:
    """(B, C, height, width) -> (B, D, h, w): 3x3 convolutions, each but the first halving the size.

    Normalised over a sample's channels and pixels, so that a sample's tokens never depend on its
    batch mates.
    """
    steps = patch[0].bit_length() - 1
    wants = "a square patch of 2, 4, 8 ... pixels and no stride"
    got = f"patch {by(patch)} and stride {stride}: use the linear stem"
    fits = steps > 0 and patch == (2**steps, 2**steps) and stride is None
    require(fits, f"{name} with the conv stem takes {wants}; got {got}", "patch")
    widths = [c.channels, *(max(c.dim // 2**i, 8) for i in range(steps, -1, -1))]
    layers: list[nn.Module] = []
    for i in range(steps + 1):
        conv = nn.Conv2d(widths[i], widths[i + 1], 3, 2 if i else 1, padding=1, bias=False)
        layers += [conv, nn.GroupNorm(1, widths[i + 1]), nn.GELU()]
    last = nn.Conv2d(widths[-1], c.dim, 1, bias=getattr(c, "bias", True))
    return nn.Sequential(*layers, last)


@dataclass(frozen=True, kw_only=True)
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
        check("SpectrogramPatches", frames, "batch frames mel", mel=pair(self.config.size)[0])
        return super().forward(frames.transpose(1, 2)[:, None])
