"""Learning without labels: part of a picture is hidden, and told from the rest."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from zoo.errors import ShapeError, one_of, require
from zoo.heads.classify import Batch, Losses
from zoo.nn import Backbone, Part, owned
from zoo.ops import sincos_grid, some, take
from zoo.shapes import check
from zoo.tokens import Tokens

GOLDEN = 0.6180339887498949  # whose multiples spread evenly between 0 and 1


class Rebuilt(NamedTuple):
    """What was told of a picture, and where it had to be."""

    patches: Tensor
    """(B, n, patch * patch * colours), rows of patches from top to bottom."""
    hidden: Tensor
    """(B, n) bool: which of them the backbone did not see."""


@dataclass(frozen=True)
class ReconstructConfig:
    """What is hidden, how, and what tells it."""

    dim: int
    """Width D of the backbone's last stage."""
    patch: int
    """Side in pixels of what is hidden at once: the last stage's stride."""
    colours: int = 3
    """Colours of a pixel."""
    width: int | None = None
    """Width of the first stage; None = D."""
    unit: int = 1
    """Tokens of the first stage along a side of such a patch."""
    target: str = "pixels"
    """pixels: the picture itself."""
    way: str = "drop"
    """drop: hidden tokens are left out, and a small decoder with mask tokens tells the pixels (MAE:
    He et al. 2021, arXiv:2111.06377).  token: a mask token stands for them, and one Linear tells
    the pixels (SimMIM: Xie et al. 2021, arXiv:2111.09886), for bodies whose positions are
    relations."""
    ratio: float = 0.75
    """Share of the patches that is hidden."""
    depth: int = 4
    """Blocks of the decoder."""
    decoder: int = 256
    """Width of the decoder."""
    heads: int = 8
    """Heads of the decoder."""


class Reconstruct(Part[ReconstructConfig]):
    """Tokens of (B, T, D), some hidden -> Rebuilt.

    The Model lets `hide` at the tokens before the backbone sees them. In training what is hidden is
    drawn anew for each picture; in evaluation it is the same, evenly spread, for all, so that an
    answer depends on its picture alone.
    """

    Config = ReconstructConfig

    def __init__(self, config: ReconstructConfig | None = None, /, **fields: Any):
        c = self.configure(config, fields)
        one_of("Reconstruct", "target", c.target, ("pixels",))
        drops = one_of("Reconstruct", "way", c.way, ("drop", "token")) == "drop"
        wants = "Reconstruct with the way drop takes a body of one stage"
        require(not drops or c.unit == 1, f"{wants}; got patches of {c.unit} tokens", "way")
        require(c.ratio < 1, f"Reconstruct takes a ratio below 1; got {c.ratio}", "ratio")
        self.dim, pixels = c.dim, c.patch**2 * c.colours
        self.token = owned((1, c.decoder if drops else c.width or c.dim))
        if drops:
            self.embed = nn.Linear(c.dim, c.decoder)
            self.decoder = Backbone(dim=c.decoder, depth=c.depth, heads=c.heads)
        self.out = nn.Linear(c.decoder if drops else c.dim, pixels)

    def hide(self, tokens: Tokens) -> Tokens:
        """Tokens of (B, P + T, D) -> Tokens with `hidden` (B, n), of (B, P + T', D) where they are
        dropped, else with the mask token in their place."""
        c, grid, front = self.config, tokens.grid, tokens.prefix
        if grid is None or grid[0] != 1 or any(side % c.unit for side in grid[1:]):
            got = f"a grid {grid} for {c.unit} x {c.unit} tokens"
            raise ShapeError(f"Reconstruct takes a picture that its patches fill; got {got}")
        h, w = (side // c.unit for side in grid[1:])
        x, count = tokens.x, round(c.ratio * h * w)
        chance = torch.rand(x.shape[0], h * w, device=x.device)
        if not self.training:
            chance = (torch.arange(h * w, device=x.device) * GOLDEN % 1).expand(x.shape[0], -1)
        hidden = chance.argsort(1).argsort(1) < count
        if c.way == "token":
            fine = hidden.unflatten(1, (h, w)).repeat_interleave(c.unit, 1)
            fine = fine.repeat_interleave(c.unit, 2).flatten(1)
            body = torch.where(fine[..., None], self.token.to(x.dtype), x[:, front:])
            return tokens.replace(x=torch.cat((x[:, :front], body), 1), hidden=hidden)
        seen = hidden.int().argsort(dim=1, stable=True)[:, : h * w - count] + front
        first = torch.arange(front, device=x.device).expand(x.shape[0], -1)
        return some(tokens, torch.cat((first, seen), 1)).replace(hidden=hidden)

    def forward(self, tokens: Tokens) -> Rebuilt:
        """Tokens of (B, T, D) that `hide` has hidden some of -> Rebuilt."""
        check("Reconstruct", tokens.x, "batch tokens dim", dim=self.dim)
        hidden, x = tokens.hidden, tokens.x
        if hidden is None or tokens.size is None:
            raise ShapeError("Reconstruct takes tokens of which it has hidden some; got all")
        if self.config.way == "drop":
            x = self.decode(x, hidden, tokens.prefix, tokens.size)
        return Rebuilt(self.out(x[:, tokens.prefix :]), hidden)

    def decode(self, x: Tensor, hidden: Tensor, front: int, size: tuple[int, ...]) -> Tensor:
        """(B, P + seen, D), (B, n) bool -> (B, P + n, decoder): mask tokens where it was hidden,
        each token at its place, through the decoder."""
        x = self.embed(x)
        masks = self.token.to(x.dtype).expand(x.shape[0], front + hidden.shape[1] - x.shape[1], -1)
        place = hidden.int().argsort(dim=1, stable=True).argsort(1)  # seen patches come first
        body = take(torch.cat((x[:, front:], masks), 1), place)
        h, w = (side // self.config.patch for side in size)
        body = body + sincos_grid((h, w), body.shape[-1], 10000.0, body.dtype, body.device)
        return self.decoder(Tokens(torch.cat((x[:, :front], body), 1))).x

    def loss(self, answer: Rebuilt, batch: Batch, smoothing: float = 0.0) -> Losses:
        """Rebuilt, {"pixels": (B, C, H, W)} -> {"loss": (sum, count)} over hidden patches.

        drop: squared error against pixels less their patch's mean, over its deviation; token:
        absolute error; both means over the pixels of a patch.
        """
        side, told = self.config.patch, answer.patches.float()
        wanted = rearrange(
            batch["pixels"].float(), "b c (h y) (w x) -> b (h w) (y x c)", y=side, x=side
        )
        if self.config.way == "drop":
            wanted = F.layer_norm(wanted, wanted.shape[-1:], eps=1e-6)
            error = (told - wanted).square().mean(-1)
        else:
            error = (told - wanted).abs().mean(-1)
        return {"loss": ((error * answer.hidden).sum(), answer.hidden.sum())}
