"""BEiT (Bao et al. 2021, arXiv:2106.08254) and BEiT v2 (Peng et al. 2022, arXiv:2208.06366); timm's
names: beitv2_base_patch16_224."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.convert import Parts
from zoo.families import vit
from zoo.families.beit_layouts import FACTS, RULES
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn import GridTable
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "mu":    dict(dim=32,   depth=2,  heads=2),
    "base":  dict(dim=768,  depth=12, heads=12),
    "large": dict(dim=1024, depth=24, heads=16),
}


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, channels: int = 3,
          classes: int = 1000, eps: float = 1e-6) -> Configs:
    """Columns -> configs: no position is added, each block has a bias per offset."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, position="none")
    dotted: dict[str, Any] = {"attn.bias": "qv"}
    body = one_stage(dim=dim, depth=depth, heads=heads, eps=eps, layer_scale=1e-5,
                     position=GridTable(Parts(stem).grid), **dotted)
    head = ClassifyConfig(dim=dim, classes=classes, pool="mean", norm="layer", eps=eps)
    return stem, replace(body, norm="none"), head


def family(name: str, preprocess: Mapping[str, Any], *ends: str) -> Family:
    """Of one way of training."""
    pattern = name + r"_(?P<row>\w+)_patch(?P<patch>\d+)_(?P<size>\d+)"
    names = tuple(f"{name}_{end}" for end in ("mu_patch8_32", *ends))
    return Family(name, SIZES, build, RULES, preprocess, pattern, names, vit.FACTS | FACTS)


BEIT = family("beit", vit.PREPROCESS, "base_patch16_224", "base_patch16_384", "large_patch16_224",
              "large_patch16_384", "large_patch16_512")
BEITV2 = family("beitv2", vit.IMAGENET, "base_patch16_224", "large_patch16_224")
# fmt: on
