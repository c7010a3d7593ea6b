"""The backbone: stages of blocks, and a last norm."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.errors import OptionError
from zoo.nn.around import Around
from zoo.nn.attention import Attention, AttentionConfig
from zoo.nn.block import Block, BlockConfig
from zoo.nn.config import match, paths, put
from zoo.nn.init import initialise
from zoo.nn.merge import Merge, MergeConfig
from zoo.nn.mlp import MlpConfig
from zoo.nn.norm import make_norm
from zoo.nn.part import Part
from zoo.nn.position import Position
from zoo.ops import Mask, drop_tokens
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
        wrong = [i for i in stage.change if i not in range(stage.depth // stage.share)]
        if stage.depth % stage.share or wrong:
            got = f"share {stage.share} of {stage.depth}, changes of blocks {list(stage.change)}"
            wants = "a share that divides its depth, and changes of its own blocks"
            raise OptionError(f"Stage takes {wants}; got {got}", "share")
        self.merge = None if stage.merge is None else Merge(dim, stage.block.dim, stage.merge)
        own = range(stage.depth // stage.share)
        blocks = (Block(stage.config_of(i), rates[i * stage.share], source) for i in own)
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.share = stage.share
        heads = stage.block.attn.heads
        self.position = None if stage.position is None else stage.position.bias(heads)
        if stage.position is not None and self.position is None:
            got = stage.position.kind
            raise OptionError(f"Stage takes a position that makes a bias; got {got}", "position")


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
        if not c.stages or c.stages[0].merge is not None:
            wants = "Backbone takes stages, the first without a merge"
            raise OptionError(f"{wants}; got {len(c.stages)} stages", "stages")
        depth = sum(stage.depth for stage in c.stages)
        rates = [c.drop_path * i / max(depth - 1, 1) for i in range(depth)]
        dims = [c.stages[0].block.dim, *(stage.block.dim for stage in c.stages)]
        starts = [sum(stage.depth for stage in c.stages[:i]) for i in range(len(c.stages))]
        stages = (
            BackboneStage(s, dims[i], rates[starts[i] : starts[i] + s.depth], c.source)
            for i, s in enumerate(c.stages)
        )
        self.stages = nn.ModuleList(stages)  # type: ignore[assignment]
        self.dim_in, self.dim = dims[0], dims[-1]
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
    ) -> Tokens:
        """Tokens of (B, T, D) -> Tokens of (B, T', D'), after the last norm.

        `source` is what cross-attention reads; `bias` (..., H, T, T) is added to the scores of
        every block;
        `details` receives what `show` names: "states", "attention", "aux".
        """
        tokens = drop_tokens(tokens, self.config.drop_tokens, self.training)
        shown = Details() if details is None else details
        looking = Around(
            maps=shown.attention if "attention" in show else None,
            aux=shown.aux if "aux" in show else None,
        )
        if "states" in show:
            shown.states.append(tokens.x)
        for stage in self.stages:
            tokens = tokens if stage.merge is None else stage.merge(tokens)
            shared = bias
            if stage.position is not None:
                own = stage.position(tokens.positions, tokens.positions)
                shared = own if bias is None else own + bias
            known: dict[Any, Around] = {}
            base = replace(looking, bias=shared, keep=tokens.keep)
            for block in (b for b in stage.blocks for _ in range(stage.share)):
                around = {
                    name: surroundings(getattr(block, name), tokens, source, base, known)
                    for name in block.order
                }
                if self.config.checkpoint and self.training and torch.is_grad_enabled():
                    x = checkpoint(block, tokens.x, around, use_reentrant=False)
                else:
                    x = block(tokens.x, around)
                tokens = tokens.replace(x=x)
                if "states" in show:
                    shown.states.append(x)
        return tokens.replace(x=self.norm(tokens.x))


def surroundings(
    part: nn.Module, tokens: Tokens, source: Tokens | None, base: Around, known: dict[Any, Around]
) -> Around:
    """Tokens of (B, T, D) -> what a sublayer has to know of them; once for those of one setting."""
    if not isinstance(part, Attention):
        return base
    c = part.config
    if hasattr(part, "kv"):
        if source is None:
            raise OptionError("Backbone with cross-attention takes a source; got none", "source")
        return Around(Mask(keep=source.keep), source=source.x, maps=base.maps)
    key = (c.grouping, c.position, c.causal, c.left, c.right, part.width)
    if key in known:
        return known[key]
    x, prefix, positions, keep = tokens.x, tokens.prefix, tokens.positions, tokens.keep
    layout, places, allowed = c.grouping.layout(tokens), tokens.positions, None
    if layout is not None:
        allowed = layout.allowed
        axes = 3 if positions is None else positions.shape[-1]
        places = layout.coordinates[:, -axes:]
        if positions is not None:
            rows = c.grouping.split(positions, layout, prefix)
            positions = rows.repeat(len(x) // len(positions), 1, 1)
        keep = None if keep is None else c.grouping.split(keep[..., None], layout, prefix)[..., 0]
    mask = Mask(keep, c.causal, c.left, c.right, tokens.sample, allowed)
    rope = None
    if c.position is not None and positions is not None:
        rope = c.position.rotation(positions, part.width)
        rope = None if rope is None else rope[:, None]  # the same for all heads
    known[key] = replace(base, mask=mask, layout=layout, prefix=prefix, places=places, rope=rope)
    return known[key]


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
        every = option_paths(config)
        for path in SHORT.get(name) or match(name, every, "Backbone", sizes):
            config = set_option(config, path, value)
    missing = [name for name, size in sizes.items() if size is None]
    if missing:
        raise OptionError(
            f"Backbone needs the options dim, depth, heads; {', '.join(missing)} are not given",
            missing[0],
        )
    return config


def option_paths(config: BackboneConfig) -> list[str]:
    """The whole paths of a backbone's options; those that start with "block." mean all blocks."""
    own = [path for path in paths(config) if path != "stages"]
    return own + [f"block.{path}" for path in paths(config.stages[0].block)]


def set_option(config: BackboneConfig, path: str, value: Any) -> BackboneConfig:
    """A copy with the option at a whole path set, in every stage if it is a block's."""
    if not path.startswith("block."):
        return put(config, path, value)
    return replace(config, stages=tuple(put(stage, path, value) for stage in config.stages))
