"""From Tokens to answers and losses, one head per task."""

from zoo.heads.classify import Classify, ClassifyConfig, Several, SeveralConfig
