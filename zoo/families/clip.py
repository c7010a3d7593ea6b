"""CLIP's picture tower (Radford et al. 2021, arXiv:2103.00020); timm's names:
vit_base_patch16_clip_224, and vit_base_patch16_clip_quickgelu_224 for OpenAI's own weights."""

from collections.abc import Mapping
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.families.clip_layouts import RULES
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "mu":    dict(dim=32,   depth=2,  heads=2,  classes=16),
    "base":  dict(dim=768,  depth=12, heads=12, classes=512),
    "large": dict(dim=1024, depth=24, heads=16, classes=768),
    "huge":  dict(dim=1280, depth=32, heads=16, classes=1024),
}
QUICK = {row: dict(**columns, activation="quick_gelu") for row, columns in SIZES.items()}
LISTED = {"mu": "8_{}_32", "base": "32_{}_224 16_{}_224", "large": "14_{}_224 14_{}_336",
          "huge": "14_{}_224"}


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, classes: int,
          channels: int = 3, activation: str = "gelu", bias: bool = False,
          hidden: int | None = None) -> Configs:
    """Columns -> configs; the classes of the public weights are the axes of the shared space."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, bias=False,
                         norm="layer", eps=1e-5)
    body = one_stage(dim=dim, depth=depth, heads=heads, eps=1e-5, activation=activation,
                     hidden=hidden)
    return stem, body, ClassifyConfig(dim=dim, classes=classes, bias=bias)


def family(name: str, kind: str, sizes: Mapping[str, Mapping[str, Any]]) -> Family:
    """Of one activation."""
    names = tuple(f"vit_{row}_patch{end}" for row, ends in LISTED.items()
                  for end in ends.format(*[kind] * 2).split())
    pattern = rf"vit_(?P<row>\w+)_patch(?P<patch>\d+)_{kind}_(?P<size>\d+)"
    return Family(name, sizes, build, RULES, PREPROCESS, pattern, names, FACTS)


HF = {"resize": "plain"}
# Their classifier reads the mean of the patches before the last norm.
CLASSES = {**HF, "bias": True, "head.pool": "mean", "backbone.norm": "none"}
FACTS = {"hf": HF, "hf_whole": HF, "hf_body": HF, "hf_classes": CLASSES}
PREPROCESS = {"mean": (0.48145466, 0.4578275, 0.40821073),
              "std": (0.26862954, 0.26130258, 0.27577711), "interpolation": "bicubic"}
CLIP = family("clip", "clip", SIZES)
CLIP_QUICK = family("clip_quickgelu", "clip_quickgelu", QUICK)
# fmt: on
