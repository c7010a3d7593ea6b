"""The shared backbone and what it is made of."""

from zoo.nn.attention import Attention
from zoo.nn.backbone import Backbone, BackboneConfig, Stage
from zoo.nn.block import Block, BlockConfig
from zoo.nn.init import initialise
from zoo.nn.mlp import Mlp
from zoo.nn.norm import make_norm
from zoo.nn.part import Part

__all__ = [
    "Attention",
    "Backbone",
    "BackboneConfig",
    "Block",
    "BlockConfig",
    "Mlp",
    "Part",
    "Stage",
    "initialise",
    "make_norm",
]
