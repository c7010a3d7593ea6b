"""Videos as tubes: patches that reach over time."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from zoo.adapters.text import POSITIONS
from zoo.errors import ShapeError, one_of
from zoo.nn import Part, initialise
from zoo.nn.init import owned
from zoo.ops import add_waves, grid_places, sincos_grid
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
    init: str = "normal"
    """How Linears start."""


class Tubes(Part[TubesConfig]):
    """(B, C, time, height, width) pixels -> Tokens of (B, P + t*h*w, D), time slowest.

    (ViViT: Arnab et al. 2021, arXiv:2103.15691; VideoMAE: Tong et al. 2022, arXiv:2203.12602)
    """

    Config = TubesConfig

    def __init__(self, config: TubesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Tubes", "position", c.position, POSITIONS)
        self.dim, self.has_class = c.dim, c.class_token
        self.grid = self.grid_of(c.size)
        self.stem = nn.Conv3d(c.channels, c.dim, c.tube, c.tube)
        t, h, w = self.grid
        self.prefix = owned((1, c.dim)) if c.class_token else None
        rows = t * h * w + c.class_token
        self.position = owned((rows, c.dim)) if c.position == "learned" else None
        initialise(self, c.init)

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
        prefix = self.prefix
        if self.position is not None:
            table = self.table(grid)
            x = x + table[-x.shape[1] :]
            prefix = None if prefix is None else prefix + table[:1]
        elif c.position != "none":
            x = add_waves(x, self.waves(grid, x), c.position)
        if prefix is not None:
            x = torch.cat((prefix.to(x.dtype).expand(len(x), -1, -1), x), 1)
        x = F.dropout(x, c.dropout, self.training)
        count = int(c.class_token)
        return Tokens(x, None, grid_places(grid, count, x.device), grid, count)

    def table(self, grid: Grid) -> Tensor:
        """-> (P + t*h*w, D): the learned rows, resized over time and space in fp32 where the grid
        differs."""
        table = self.position
        if table is None or grid == self.grid:
            return table  # type: ignore[return-value]  # only asked for where there is one
        count = int(self.config.class_token)
        t, h, w = self.grid
        rows = rearrange(table[count:].float(), "(t h w) d -> 1 d t h w", t=t, h=h, w=w)
        rows = F.interpolate(rows, size=grid, mode="trilinear", align_corners=False)
        rows = rearrange(rows, "1 d t h w -> (t h w) d").to(table.dtype)
        return torch.cat((table[:count], rows))

    def waves(self, grid: Grid, like: Tensor) -> Tensor:
        """-> (t*h*w, D): three-axis sinusoids over as many channels as 6 divides, zeros in the
        rest."""
        dim = self.dim - self.dim % 6
        table = sincos_grid(grid, dim, self.config.base, like.dtype, like.device)
        return F.pad(table, (0, self.dim - dim))
