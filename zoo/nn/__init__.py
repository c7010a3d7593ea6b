"""The shared backbone and what it is made of."""

from zoo.nn.attention import Around, Attention, AttentionConfig, use_path
from zoo.nn.backbone import Backbone, BackboneConfig, Stage
from zoo.nn.block import Block, BlockConfig
from zoo.nn.grouping import Axes, Everything, Grouping, Windows
from zoo.nn.init import initialise, owned
from zoo.nn.layers import Linear, make_norm
from zoo.nn.merge import Merge, MergeConfig
from zoo.nn.mlp import Experts, Mlp, MlpConfig
from zoo.nn.part import Part
from zoo.nn.position import Alibi, Buckets, Continuous, GridTable, Position, Rope, WindowTable
from zoo.nn.pyramid import Levels, MapNorm, Pyramid, PyramidConfig
