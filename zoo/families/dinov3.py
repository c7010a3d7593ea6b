"""DINOv3 (Simeoni et al. 2025, arXiv:2508.10104); timm's names: vit_small_patch16_dinov3_qkvb."""

import math
from collections.abc import Mapping
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.convert import Rule
from zoo.families import dinov2
from zoo.families.dinov3_layouts import RULES, RULES_GATED
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn import Rope
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "mu":    dict(dim=32,   depth=2,  heads=2, size=32),
    "small": dict(dim=384,  depth=12, heads=6),
    "base":  dict(dim=768,  depth=12, heads=12),
    "large": dict(dim=1024, depth=24, heads=16),
}
PLUS = {  # gated MLPs
    "mu_plus":    dict(dim=32,   depth=2,  heads=2,  size=32, hidden=128),
    "small_plus": dict(dim=384,  depth=12, heads=6,  hidden=1536),
    "huge_plus":  dict(dim=1280, depth=32, heads=20, hidden=5120),
}


def build(dim: int, depth: int, heads: int, patch: int, size: Sides = 256,
          hidden: int | None = None, channels: int = 3, classes: int | None = None,
          bias: str = "qv", pool: str = "class") -> Configs:
    """Columns -> configs: q and k turn by the patches' middles, two turns from edge to edge."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, registers=4,
                         position="none", extent=4 * math.pi, centred=True)
    gated = {"gated": True, "activation": "silu", "hidden": hidden} if hidden else {}
    body = one_stage(dim=dim, depth=depth, heads=heads, eps=1e-5, layer_scale=1e-5,
                     position=Rope(base=100.0), **{"attn.bias": bias, **gated})
    return stem, body, None if classes is None else ClassifyConfig(dim, classes, pool=pool)


PATTERN = r"vit_(?P<row>\w+?)_patch(?P<patch>\d+)_dinov3"
FACTS = {"timm": {"pool": "mean"}}  # there the mean of the patches answers


def family(name: str, sizes: Mapping[str, Mapping[str, Any]], rules: Mapping[str, tuple[Rule, ...]],
           bias: str) -> Family:
    """Of one kind of MLP, with the biases or, as in timm by the plain names, without."""
    end = "_qkvb" if bias == "qv" else ""
    names = (f"vit_{row}_patch{8 if 'mu' in row else 16}_dinov3{end}" for row in sizes)
    return Family(name + end, {row: {**size, "bias": bias} for row, size in sizes.items()}, build,
                  rules, dinov2.PREPROCESS, PATTERN + end, tuple(names), FACTS)


DINOV3 = tuple(family(*kind, bias) for bias in ("qv", "none")
               for kind in (("dinov3", SIZES, RULES), ("dinov3_plus", PLUS, RULES_GATED)))
# fmt: on
