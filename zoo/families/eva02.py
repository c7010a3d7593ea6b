"""EVA-02 (Fang et al. 2023, arXiv:2303.11331); timm's names: eva02_small_patch14_336."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.convert import Rule
from zoo.families import clip
from zoo.families.eva02_layouts import FACTS, RULES, RULES_LARGER
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "mu":    dict(dim=32,  depth=2,  heads=2),
    "tiny":  dict(dim=192, depth=12, heads=3),
    "small": dict(dim=384, depth=12, heads=6),
}
LARGER = {  # q, k and v apart, and a norm in the MLP
    "mu_base": dict(dim=32,   depth=2,  heads=2,  inner_norm="layer"),
    "base":    dict(dim=768,  depth=12, heads=12, inner_norm="layer"),
    "large":   dict(dim=1024, depth=24, heads=16, inner_norm="layer"),
}


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, inner_norm: str = "none",
          channels: int = 3, classes: int = 1000) -> Configs:
    """Columns -> configs: positions are added, and turn q and k by places of a grid of 16 x 16."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, extent=16.0)
    dotted: dict[str, Any] = {"attn.bias": "qv", "mlp.inner_norm": inner_norm}
    body = one_stage(dim=dim, depth=depth, heads=heads, hidden=int(dim * 4 * 2 / 3), gated=True,
                     activation="silu", position="rope", **dotted)
    head = ClassifyConfig(dim=dim, classes=classes, pool="mean", norm="layer")
    return stem, replace(body, norm="none"), head


def family(name: str, sizes: Mapping[str, Mapping[str, Any]],
           rules: Mapping[str, tuple[Rule, ...]], *names: str) -> Family:
    """Of one make of block."""
    pattern = r"eva02_(?P<row>\w+)_patch(?P<patch>\d+)_(?P<size>\d+)"
    return Family(name, sizes, build, rules, clip.PREPROCESS, pattern, names, FACTS)


EVA02 = family("eva02", SIZES, RULES, "eva02_mu_patch8_32", "eva02_tiny_patch14_336",
               "eva02_small_patch14_336")
EVA02_LARGER = family("eva02_larger", LARGER, RULES_LARGER, "eva02_mu_base_patch8_32",
                      "eva02_base_patch14_448", "eva02_large_patch14_448")
# fmt: on
