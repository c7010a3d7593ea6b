"""From Tokens to answers and losses, one head per task."""

from zoo.heads.classify import Classify, ClassifyConfig, Several, SeveralConfig
from zoo.heads.detect import Detect, DetectConfig, Points
from zoo.heads.reconstruct import Rebuilt, Reconstruct, ReconstructConfig
from zoo.heads.segment import Segment, SegmentConfig
