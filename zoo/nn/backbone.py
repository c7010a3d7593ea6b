"""The backbone: stages of blocks, and a last norm."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from torch import nn

from zoo.nn.block import Block, BlockConfig
from zoo.nn.init import initialise
from zoo.nn.norm import make_norm
from zoo.nn.part import Part, make_config
from zoo.ops import Mask
from zoo.tokens import Tokens


@dataclass(frozen=True)
class Stage:
    """`depth` blocks of one make."""

    depth: int
    block: BlockConfig


@dataclass(frozen=True)
class BackboneConfig:
    """Stages, and what concerns the whole depth."""

    stages: tuple[Stage, ...]
    """From input to output."""
    norm: str = "layer"
    """The norm behind the last block: layer, rms or none."""
    eps: float = 1e-6
    """Added to the variance in that norm."""
    drop_path: float = 0.0
    """Stochastic depth: the last block's rate; earlier ones rise to it linearly from 0."""
    init: str = "normal"
    """How Linears start: normal or xavier."""


class Backbone(Part[BackboneConfig]):
    """Tokens -> Tokens: every block in order, then the last norm.

    `Backbone(dim=384, depth=12, heads=6)` makes one stage; further block options go by name
    (`layer_scale=1e-5`). `Backbone(stages=(Stage(2, BlockConfig(...)), ...))` makes several.
    """

    Config = BackboneConfig

    def __init__(self, config: BackboneConfig | None = None, /, **fields: Any):
        if config is None and "stages" not in fields:
            config = one_stage(**fields)
        c = self.configure(config, fields)
        depth = sum(stage.depth for stage in c.stages)
        rates = iter([c.drop_path * i / max(depth - 1, 1) for i in range(depth)])
        self.stages = nn.ModuleList(
            nn.ModuleDict(
                {"blocks": nn.ModuleList(Block(s.block, next(rates)) for _ in range(s.depth))}
            )
            for s in c.stages
        )
        self.dim = c.stages[-1].block.dim
        self.norm = make_norm(c.norm, self.dim, c.eps)
        initialise(self, c.init)

    @property
    def dim_in(self) -> int:
        """Width of the tokens that go in."""
        return self.config.stages[0].block.dim

    @property
    def blocks(self) -> list[Block]:
        """All blocks in order, across stages."""
        return [block for stage in self.stages for block in stage["blocks"]]  # type: ignore[index, union-attr, misc]

    def forward(self, tokens: Tokens) -> Tokens:
        """Tokens of (B, T, D) -> Tokens of (B, T, D), after the last norm."""
        mask = None if tokens.keep is None else Mask(keep=tokens.keep)
        x = tokens.x
        for block in self.blocks:
            x = block(x, mask)
        return tokens.replace(x=self.norm(x))


def one_stage(*, depth: int, **fields: Any) -> BackboneConfig:
    """`depth` equal blocks; the other fields go to the block, to the backbone, or (norm, eps) to
    both."""
    block_names = {f.name for f in dataclasses.fields(BlockConfig)}
    whole_names = {f.name for f in dataclasses.fields(BackboneConfig)} - {"stages"}
    block = {k: v for k, v in fields.items() if k in block_names or k not in whole_names}
    whole = {k: v for k, v in fields.items() if k in whole_names}
    return BackboneConfig((Stage(depth, make_config(BlockConfig, block, "Backbone")),), **whole)
