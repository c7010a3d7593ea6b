"""The backbone: stages of blocks, and a last norm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as every_module
from torch.utils.checkpoint import checkpoint

from zoo.errors import OptionError, ShapeError, require
from zoo.nn.attention import Around, Attention, AttentionConfig
from zoo.nn.block import Block, BlockConfig
from zoo.nn.config import match, paths, put
from zoo.nn.init import initialise
from zoo.nn.layers import make_norm
from zoo.nn.merge import Merge, MergeConfig
from zoo.nn.mlp import MlpConfig
from zoo.nn.part import Part
from zoo.nn.position import Position, bias_among
from zoo.ops import Mask, drop_tokens, in_pieces, order_of, split, too_many
from zoo.tokens import Details, Tokens


@dataclass(frozen=True)
class Stage:
    """Blocks of one make, and how single ones differ."""

    depth: int
    """How many blocks a token passes."""
    block: BlockConfig
    """Their make."""
    merge: MergeConfig | None = None
    """What joins neighbours at the stage's start."""
    change: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """Options that block i has otherwise, by dotted name: {1: {"attn.grouping":
    Windows(shift=True)}}."""
    share: int = 1
    """How many times in a row each block is passed (ALBERT: all); it divides the depth."""
    position: Position | None = None
    """A biasing position kind whose parameters all blocks share (T5)."""

    def config_of(self, i: int) -> BlockConfig:
        """The config of block i, its changes included."""
        block = self.block
        for path, value in self.change.get(i, {}).items():
            block = put(block, path, value)
        return block


@dataclass(frozen=True)
class BackboneConfig:
    """Stages, and what concerns the whole depth."""

    stages: tuple[Stage, ...]
    """From input to output."""
    norm: str = "layer"
    """The norm behind the last block: layer, rms, rms_offset or none."""
    eps: float = 1e-6
    """Added to the variance in that norm."""
    drop_path: float = 0.0
    """Stochastic depth: the last block's rate; earlier ones rise to it linearly from 0."""
    drop_tokens: float = 0.0
    """Share of the tokens behind the prefix left out in training (PatchDropout: Liu et al. 2022,
    arXiv:2208.07220)."""
    checkpoint: bool = False
    """Whether blocks are computed again in the backward pass, to save memory (Chen et al. 2016,
    arXiv:1604.06174)."""
    source: int | None = None
    """Width of the tokens that cross-attention reads; None = the model's own."""
    init: str = "normal"
    """How Linears start: normal, xavier, orthogonal or depth_scaled."""


class BackboneStage(nn.Module):
    """The modules of one stage: `merge`, `blocks`, `position`."""

    blocks: "list[Block]"  # an nn.ModuleList

    def __init__(self, stage: Stage, dim: int, rates: list[float], source: int | None):
        super().__init__()
        count = stage.depth // stage.share
        wants = "a share that divides its depth, and changes of its own blocks"
        got = f"share {stage.share} of {stage.depth}, changes of blocks {list(stage.change)}"
        fits = stage.depth % stage.share == 0 and all(i in range(count) for i in stage.change)
        require(fits, f"Stage takes {wants}; got {got}", "share")
        self.share, block, place = stage.share, stage.block, stage.position
        self.merge = None if stage.merge is None else Merge(dim, block.dim, stage.merge)
        turns = [tuple(rates[i : i + self.share]) for i in range(0, stage.depth, self.share)]
        given = [turn if self.share > 1 else turn[0] for turn in turns]
        blocks = [Block(stage.config_of(i), given[i], source) for i in range(count)]
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.position = None if place is None else place.bias(block.attn.heads)
        wants, fits = "Stage takes a position that makes a bias", place is None or self.position
        require(fits, f"{wants}; got {place and place.kind}", "position")


class Backbone(Part[BackboneConfig]):
    """Tokens -> Tokens: every block in order, then the last norm.

    `Backbone(dim=384, depth=12, heads=6)` makes one stage; further options go by name, flat where
    unique (`position="rope"`, `gated=True`), else dotted (`**{"mlp.bias": False}`).
    `Backbone(stages=...)` makes several.
    """

    Config = BackboneConfig
    stages: "list[BackboneStage]"  # an nn.ModuleList

    def __init__(self, config: BackboneConfig | None = None, /, **fields: Any):
        if config is None and "stages" not in fields:
            config = one_stage(**fields)
        c = self.configure(config, fields)
        fits = c.stages and c.stages[0].merge is None
        wants = "Backbone takes stages, the first without a merge"
        require(fits, f"{wants}; got {len(c.stages)} stages", "stages")
        depth, start = sum(stage.depth for stage in c.stages), 0
        rates = [c.drop_path * i / max(depth - 1, 1) for i in range(depth)]
        self.dim_in = self.dim = c.stages[0].block.dim
        self.stages = nn.ModuleList()  # type: ignore[assignment]
        for stage in c.stages:
            self.stages.append(BackboneStage(stage, self.dim, rates[start:], c.source))
            self.dim, start = stage.block.dim, start + stage.depth
        self.norm = make_norm(c.norm, self.dim, c.eps)
        initialise(self, c.init, depth)

    @property
    def blocks(self) -> list[Block]:
        """All blocks in order, across stages."""
        return [block for stage in self.stages for block in stage.blocks]

    def forward(
        self,
        tokens: Tokens,
        source: Tokens | None = None,
        bias: Tensor | None = None,
        details: Details | None = None,
        show: tuple[str, ...] = (),
        stages: bool = False,
    ) -> Tokens:
        """Tokens of (B, T, D) -> Tokens of (B, T', D'), after the last norm.

        `source` is what cross-attention reads; `bias` (..., H, T, T) is added to the scores of
        every block; `details` receives what `show` names: "states", "attention", "aux". With
        `stages` the Tokens hold those of each stage, before the next one's merge.
        """
        c, shown = self.config, details or Details()
        if bias is not None and bias.ndim == 4 and bias.shape[0] not in (1, tokens.x.shape[0]):
            got = f"one of {bias.shape[0]} for {tokens.x.shape[0]}"
            raise ShapeError(f"Backbone takes a bias for each sample, or one for all; got {got}")
        # Lists of this pass, since the backward pass may compute blocks again.
        maps, aux = ([] if name in show else None for name in ("attention", "aux"))
        again = c.checkpoint and self.training and torch.is_grad_enabled()
        tokens = drop_tokens(tokens, c.drop_tokens, self.training)
        if "states" in show:
            shown.states.append(tokens.x)
        left: list[Tokens] = []
        for stage in self.stages:
            tokens = tokens if stage.merge is None else stage.merge(tokens)
            shared = bias
            grid = tokens.grid or tokens.dropped_from
            if stage.position is not None:
                own = bias_among(stage.position, tokens.positions, grid, tokens.prefix)
                shared = own if bias is None else own + bias
            base = Around(grid=grid, bias=shared, keep=tokens.keep, maps=maps, aux=aux)
            look = partial(surroundings, tokens=tokens, source=source, base=base)
            known: dict[BlockConfig, dict[str, Around]] = {}  # once for each make
            steps: list[Callable[[Tensor], Tensor]] = []
            for block, turn in product(stage.blocks, range(stage.share)):
                if block.config not in known:
                    known[block.config] = {n: look(getattr(block, n)) for n in block.order}
                run = partial(checkpoint, block, use_reentrant=False) if again else block
                steps.append(partial(run, around=known[block.config], turn=turn))
            wide = 4 * tokens.x.shape[1:].numel()
            apart = too_many(tokens.x, wide) and not self.training and not hooked(stage)
            apart = apart and all(a.shared for around in known.values() for a in around.values())
            # samples that pass a stage a few at a time pass all of it, unless each block is shown
            for run in [[step] for step in steps] if "states" in show else [steps]:
                through = partial(passed, run)
                x = in_pieces(through, tokens.x, wide) if apart else through(tokens.x)
                tokens = tokens.replace(x=x)
                if "states" in show:
                    shown.states.append(tokens.x)
            if stages:
                left.append(tokens)
        shown.attention += maps or []
        shown.aux += aux or []
        tokens = tokens.replace(x=self.norm(tokens.x))
        return tokens.replace(stages=(*left[:-1], tokens)) if stages else tokens


def passed(steps: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
    """(B, T, D) -> (B, T, D): through each of the steps."""
    for step in steps:
        x = step(x)
    return x


def hooked(module: nn.Module) -> bool:
    """Whether some hook sees what passes a module, or one within: it shall see all samples."""
    every = every_module._global_forward_hooks or every_module._global_forward_pre_hooks
    return bool(every) or any(p._forward_hooks or p._forward_pre_hooks for p in module.modules())


def surroundings(part: nn.Module, tokens: Tokens, source: Tokens | None, base: Around) -> Around:
    """Tokens of (B, T, D) -> what a sublayer has to know of them."""
    if not isinstance(part, Attention):
        return base
    if hasattr(part, "kv"):
        if source is None:
            raise OptionError("Backbone with cross-attention takes a source; got none", "source")
        return Around(Mask(keep=source.keep), source=source.x, maps=base.maps)
    c, keep, places, positions = part.config, tokens.keep, tokens.positions, tokens.positions
    if positions is None and c.position is not None and tokens.grid is None:
        got = f"the position {c.position.kind} and none"
        raise ShapeError(f"Backbone with a position takes Tokens that have positions; got {got}")
    layout, allowed, rope = c.grouping.layout(tokens), None, None
    if layout is not None:
        axes = 3 if positions is None else positions.shape[-1]
        places, allowed = layout.coordinates[:, -axes:], layout.allowed
        keep = None if keep is None else split(keep[..., None], layout)[..., 0]
    if positions is not None and c.position is not None and c.position.rotates:
        if layout is not None:
            positions = split(positions.expand(tokens.x.shape[0], -1, -1), layout)
        rope = c.position.rotation(positions[:, None], part.width)  # one for all heads
    band = layout is None and (c.left is not None or c.right is not None)
    order = order_of(tokens) if band else None
    mask = Mask(keep, c.causal, c.left, c.right, tokens.sample, allowed, order)
    own = {"layout": layout, "places": places, "prefix": 0 if layout else tokens.prefix}
    return replace(base, mask=mask, rope=rope, **own)


# Plain names that mean more than one option of a backbone, or one of several.
SHORT = {"dropout": ("block.dropout",), "norm": ("block.norm", "norm"), "eps": ("block.eps", "eps")}


def one_stage(*, bias: bool = True, **options: Any) -> BackboneConfig:
    """`depth` equal blocks of `dim` and `heads`; other options by name, as in `Backbone`.

    `bias=False` takes it from every Linear; `norm` and `eps` mean all norms.
    """
    sizes = {name: options.pop(name, None) for name in ("dim", "depth", "heads")}
    dim, depth, heads = (1 if size is None else size for size in sizes.values())
    attn = AttentionConfig(heads, bias="qkv" if bias else "none", out_bias=bias)
    config = BackboneConfig((Stage(depth, BlockConfig(dim, attn, MlpConfig(bias=bias))),))
    for name, value in options.items():
        for path in SHORT.get(name) or match(name, option_paths(config), "Backbone", sizes):
            config = set_option(config, path, value)
    missing = [name for name, size in sizes.items() if size is None]
    wants = "Backbone needs the options dim, depth, heads"
    require(not missing, f"{wants}; {', '.join(missing)} are not given", "".join(missing[:1]))
    return config


def option_paths(config: BackboneConfig) -> list[str]:
    """The whole paths of a backbone's options; those that start with "block." mean all blocks."""
    own = [path for path in paths(config) if path != "stages"]
    return own + [f"block.{path}" for path in paths(config.stages[0].block)]


def set_option(config: BackboneConfig, path: str, value: Any) -> BackboneConfig:
    """A copy with the option at a whole path set, in every block if it is a block's: in those too
    that have a value of their own for it or for what it is part of."""
    if not path.startswith("block."):
        return put(config, path, value)
    stages, inner = [], path.removeprefix("block.")
    for stage in config.stages:
        change = {**stage.change}
        for i, own in stage.change.items():
            within = any(f"{inner}.".startswith(f"{name}.") for name in own)
            if within and inner in paths(stage.config_of(i)):
                change[i] = {**own, inner: value}
        stages.append(replace(put(stage, path, value), change=change))
    return replace(config, stages=tuple(stages))
