"""Between stages: four neighbours become one token."""

from dataclasses import dataclass

import torch.nn.functional as F
from einops import rearrange
from torch import nn

from zoo.errors import ShapeError, one_of
from zoo.nn.layers import make_norm
from zoo.ops import grid_places
from zoo.tokens import Tokens


@dataclass(frozen=True)
class MergeConfig:
    """Patch merging."""

    norm: str = "before"
    """Where the norm is: before the projection (Swin v1) or after it (v2)."""
    eps: float = 1e-5
    """Added to the variance in it."""


class Merge(nn.Module):
    """Tokens of (B, t*h*w, D) -> Tokens of (B, t*ceil(h/2)*ceil(w/2), D'): each 2x2 patch projected
    to one token.

    An odd side is padded with zeros. (Swin: Liu et al. 2021, arXiv:2103.14030)
    """

    def __init__(self, dim: int, out: int, config: MergeConfig):
        super().__init__()
        self.before = one_of("Merge", "norm", config.norm, ("before", "after")) == "before"
        self.norm = make_norm("layer", 4 * dim if self.before else out, config.eps)
        self.project = nn.Linear(4 * dim, out, bias=False)

    def forward(self, tokens: Tokens) -> Tokens:
        """Tokens of (B, t*h*w, D) -> Tokens of (B, t*h'*w', D')."""
        if tokens.grid is None or tokens.prefix or tokens.keep is not None:
            takes = "Merge takes a full grid of tokens and no prefix"
            raise ShapeError(f"{takes}; got another sequence")
        t, h, w = tokens.grid
        x = rearrange(tokens.x, "b (t h w) d -> b t h w d", t=t, h=h)
        if h % 2 or w % 2:
            x = F.pad(x, (0, 0, 0, w % 2, 0, h % 2))
        # Columns before rows, as the published weights want it: (0,0), (1,0), (0,1), (1,1).
        x = rearrange(x, "b t (h y) (w x) d -> b (t h w) (x y d)", y=2, x=2)
        x = self.project(self.norm(x)) if self.before else self.norm(self.project(x))
        grid = (t, (h + 1) // 2, (w + 1) // 2)
        axes = grid if tokens.positions is None else grid[-tokens.positions.shape[-1] :]
        stride = tokens.stride and (*tokens.stride[:-2], *(2 * n for n in tokens.stride[-2:]))
        places = grid_places(axes, 0, x.device)
        return tokens.replace(x=x, positions=places, grid=grid, stride=stride)
