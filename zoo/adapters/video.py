"""Videos as tubes: patches that reach over time."""

import math
from dataclasses import dataclass
from typing import Any

from zoo.adapters.patch import GridAdapter, GridConfig


@dataclass(frozen=True, kw_only=True)
class TubesConfig(GridConfig):
    """A video cut into tubes, each projected to a token."""

    size: tuple[int, int, int] = (16, 224, 224)
    """The native video: frames, height, width."""
    tube: tuple[int, int, int] = (2, 16, 16)
    """Frames, height and width of a tube; none overlap."""
    class_token: bool = False
    """A learned token in front, which has a row of a learned table as well."""
    position: str = "sincos"
    """What is added: learned (a table), sincos (three axes), sincos_scaled (to the tokens' norms)
    or none."""


class Tubes(GridAdapter[TubesConfig]):
    """(B, C, time, height, width) pixels -> Tokens of (B, P + t*h*w, D), time slowest.

    (ViViT: Arnab et al. 2021, arXiv:2103.15691; VideoMAE: Tong et al. 2022, arXiv:2203.12602)
    """

    Config = TubesConfig

    def __init__(self, config: TubesConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        self.cut(c.size, c.tube)
        self.own(math.prod(self.grid), prefix_rows=True)
