"""Videos as tubes: patches that reach over time."""

import math
from dataclasses import dataclass
from typing import Any

from einops import rearrange
from torch import Tensor, nn

from zoo.adapters.adapter import Adapter
from zoo.errors import ShapeError
from zoo.shapes import check
from zoo.tokens import Grid, Tokens


@dataclass(frozen=True)
class TubesConfig:
    """A video cut into tubes, each projected to a token."""

    dim: int
    """Model width D."""
    size: tuple[int, int, int] = (16, 224, 224)
    """The native video: frames, height, width."""
    tube: tuple[int, int, int] = (2, 16, 16)
    """Frames, height and width of a tube; none overlap."""
    channels: int = 3
    """Colours of a pixel."""
    class_token: bool = False
    """A learned token in front."""
    position: str = "sincos"
    """What is added: learned (a table with a row for each place, the class token too), sincos
    (three axes) or none."""
    base: float = 10000.0
    """Slowest wavelength of the sinusoids / 2 pi."""
    dropout: float = 0.0
    """Zeroed share of the tokens' values."""


class Tubes(Adapter[TubesConfig]):
    """(B, C, time, height, width) pixels -> Tokens of (B, P + t*h*w, D), time slowest.

    (ViViT: Arnab et al. 2021, arXiv:2103.15691; VideoMAE: Tong et al. 2022, arXiv:2203.12602)
    """

    Config = TubesConfig

    def __init__(self, config: TubesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        self.grid = self.grid_of(c.size)
        self.stem = nn.Conv3d(c.channels, c.dim, c.tube, c.tube)
        self.own(c, math.prod(self.grid) + c.class_token)

    def grid_of(self, sides: tuple[int, ...]) -> Grid:
        """Frames and pixels -> tubes (t, h, w). ShapeError for a video that they do not fill."""
        tube = self.config.tube
        if any(n < p or n % p for n, p in zip(sides, tube, strict=True)):
            raise ShapeError(
                f"Tubes takes videos that tubes of {'x'.join(map(str, tube))} fill; got "
                f"{'x'.join(map(str, sides))} (frames x height x width): cut or resize it"
            )
        return sides[0] // tube[0], sides[1] // tube[1], sides[2] // tube[2]

    def forward(self, pixels: Tensor) -> Tokens:
        """(B, C, time, height, width) -> Tokens of (B, P + t*h*w, D)."""
        c = self.config
        check("Tubes", pixels, "batch channels time height width", channels=c.channels)
        grid = self.grid_of(tuple(pixels.shape[2:]))
        x = rearrange(self.stem(pixels), "b d t h w -> b (t h w) d")
        return self.on_grid(x, grid)
