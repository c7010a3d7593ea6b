"""ViTs of timm for pictures of any shape (NaFlex: Dehghani et al. 2023, arXiv:2307.06304); timm's
names: naflexvit_base_patch16_gap."""

from dataclasses import replace

from zoo.adapters import PatchesConfig
from zoo.families import layouts, vit
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "mu":   dict(dim=32,  depth=2,  heads=2,  size=32),
    "base": dict(dim=768, depth=12, heads=12, size=256),
}


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, registers: int = 4,
          channels: int = 3, classes: int = 1000) -> Configs:
    """Columns -> configs; `size` is that of the table of positions, 16 patches a side."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, class_token=False,
                         registers=registers, position_prefix=False)
    body = one_stage(dim=dim, depth=depth, heads=heads, layer_scale=1e-5)
    head = ClassifyConfig(dim=dim, classes=classes, pool="mean", norm="layer")
    return stem, replace(body, norm="none"), head
# fmt: on


PATTERN = r"naflexvit_(?P<row>\w+)_patch(?P<patch>\d+)_gap"
NAMES = ("naflexvit_mu_patch2_gap", "naflexvit_base_patch16_gap")
PREPROCESS = {**vit.PREPROCESS, "crop": 1.0}
RULES = {"timm": layouts.NAFLEX}
NAFLEX = Family("naflex", SIZES, build, RULES, PREPROCESS, PATTERN, NAMES)
