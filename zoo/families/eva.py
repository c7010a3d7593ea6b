"""EVA (Fang et al. 2022, arXiv:2211.07636); timm's names: eva_giant_patch14_336."""

from dataclasses import replace
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.families import clip, layouts
from zoo.families.eva02_layouts import FACTS, GUESS
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "mu":    dict(dim=32,   depth=2,  heads=2,  hidden=64),
    "giant": dict(dim=1408, depth=40, heads=16, hidden=6144),
}


def build(dim: int, depth: int, heads: int, hidden: int, patch: Sides, size: Sides,
          channels: int = 3, classes: int = 1000) -> Configs:
    """Columns -> configs: a ViT whose keys have no bias, and whose mean answers."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels)
    dotted: dict[str, Any] = {"attn.bias": "qv"}
    body = one_stage(dim=dim, depth=depth, heads=heads, hidden=hidden, **dotted)
    head = ClassifyConfig(dim=dim, classes=classes, pool="mean", norm="layer")
    return stem, replace(body, norm="none"), head
# fmt: on


TIMM = layouts.BIASES + layouts.TIMM
RULES = {"timm": TIMM, "baai_mim": GUESS + TIMM}
PATTERN = r"eva_(?P<row>\w+)_patch(?P<patch>\d+)_(?P<size>\d+)"
NAMES = tuple(f"eva_{end}" for end in ("mu_patch8_32", "giant_patch14_224", "giant_patch14_336",
                                       "giant_patch14_560"))  # fmt: skip
EVA = Family("eva", SIZES, build, RULES, clip.PREPROCESS, PATTERN, NAMES, FACTS)
