"""Pictures as patches."""

import math
from dataclasses import dataclass
from typing import Any

from einops import rearrange
from torch import Tensor, nn

from zoo.adapters.adapter import Adapter
from zoo.errors import OptionError, ShapeError, one_of
from zoo.shapes import check, pair
from zoo.tokens import Tokens

STEMS = ("linear", "conv", "random")


@dataclass(frozen=True)
class PatchesConfig:
    """A picture cut into patches, each projected to a token."""

    dim: int
    """Model width D."""
    size: int | tuple[int, int] = 224
    """The native picture, pixels (height, width): the grid of a learned position table. Others are
    taken too."""
    patch: int | tuple[int, int] = 16
    """Pixels (height, width) of a patch."""
    stride: int | tuple[int, int] | None = None
    """Pixels from one patch to the next; None = the patch, so none overlap."""
    channels: int = 3
    """Colours of a pixel."""
    class_token: bool = True
    """A learned token in front that heads may read."""
    registers: int = 0
    """Further learned tokens, behind the class token (Darcet et al. 2023, arXiv:2309.16588)."""
    position: str = "learned"
    """What is added to the patches: learned (a table), sincos (two-axis sinusoids), sincos_scaled
    (to the patches' norms) or none."""
    position_prefix: bool = True
    """Whether a learned table has rows for the class and register tokens as well."""
    base: float = 10000.0
    """Slowest wavelength of the sinusoids, in patches / 2 pi."""
    stem: str = "linear"
    """linear: one projection of each patch.  conv: 3x3 convolutions that halve the picture (Xiao et
    al. 2021, arXiv:2106.14881).  random: a frozen Gaussian projection (Chen et al. 2021,
    arXiv:2104.02057)."""
    bias: bool = True
    """Whether the last projection has a bias."""
    dropout: float = 0.0
    """Zeroed share of the tokens' values."""


class Patches(Adapter[PatchesConfig]):
    """(B, C, height, width) pixels -> Tokens of (B, P + h*w, D), rows of patches from top to
    bottom.

    (Vision Transformer: Dosovitskiy et al. 2020, arXiv:2010.11929)
    """

    Config = PatchesConfig

    def __init__(self, config: PatchesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        self.patch, self.stride = pair(c.patch), pair(c.stride or c.patch)
        self.grid = self.grid_of(*pair(c.size))
        one_of("Patches", "stem", c.stem, STEMS)
        cut = nn.Conv2d(c.channels, c.dim, self.patch, self.stride, bias=c.bias)
        if c.stem == "random":
            nn.init.normal_(cut.weight, std=(c.channels * math.prod(self.patch)) ** -0.5)
            cut.requires_grad_(False)
        self.stem = conv_stem(c, self.patch) if c.stem == "conv" else cut
        prefix = int(c.class_token) + c.registers
        self.own(c, math.prod(self.grid) + prefix * c.position_prefix)

    def grid_of(self, height: int, width: int) -> tuple[int, int]:
        """Pixels -> patches, (rows, columns). ShapeError for a picture that patches do not fill.

        With a stride of its own, what no whole patch covers at the end is left out.
        """
        (ph, pw), (sh, sw) = self.patch, self.stride
        rows, rest_h = divmod(height - ph, sh)
        columns, rest_w = divmod(width - pw, sw)
        if rows < 0 or columns < 0 or (self.config.stride is None and (rest_h or rest_w)):
            raise ShapeError(
                f"{type(self).__name__} takes a picture that patches of {ph}x{pw} fill; "
                f"got {height}x{width} (height x width): resize it or choose another patch"
            )
        return rows + 1, columns + 1

    def forward(self, pixels: Tensor) -> Tokens:
        """(B, C, height, width) -> Tokens of (B, P + h*w, D)."""
        check("Patches", pixels, "batch channels height width", channels=self.config.channels)
        grid = self.grid_of(*pixels.shape[-2:])
        x = rearrange(self.stem(pixels), "b d h w -> b (h w) d")
        return self.on_grid(x, grid)


def conv_stem(c: PatchesConfig, patch: tuple[int, int]) -> nn.Sequential:
    """(B, C, height, width) -> (B, D, h, w): 3x3 convolutions, each but the first halving the size.

    Normalised over a sample's channels and pixels, so that a sample's tokens never depend on its
    batch mates.
    """
    steps = patch[0].bit_length() - 1
    if c.stride is not None or patch[0] != patch[1] or patch[0] != 2**steps or steps == 0:
        raise OptionError(
            f"Patches with the conv stem takes a square patch of 2, 4, 8 ... pixels and no stride; "
            f"got patch {patch[0]}x{patch[1]} and stride {c.stride}: use the linear stem",
            "patch",
        )
    widths = [max(c.dim // 2 ** (steps - i), 8) for i in range(steps + 1)]
    layers: list[nn.Module] = []
    for i, width in enumerate(widths):
        inside = c.channels if i == 0 else widths[i - 1]
        layers += [
            nn.Conv2d(inside, width, 3, stride=2 if i else 1, padding=1, bias=False),
            nn.GroupNorm(1, width),
            nn.GELU(),
        ]
    return nn.Sequential(*layers, nn.Conv2d(widths[-1], c.dim, 1, bias=c.bias))
