"""DeiT, distilled or not (Touvron et al. 2020, arXiv:2012.12877), and DeiT-3 (2022,
arXiv:2204.07118); timm's names: deit_small_distilled_patch16_224, deit3_small_patch16_224."""

from collections.abc import Mapping
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.convert import Rule
from zoo.families import hf_layouts, layouts, vit
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "mu":     dict(dim=32,   depth=2,  heads=2),
    "tiny":   dict(dim=192,  depth=12, heads=3),
    "small":  dict(dim=384,  depth=12, heads=6),
    "medium": dict(dim=512,  depth=12, heads=8),
    "base":   dict(dim=768,  depth=12, heads=12),
    "large":  dict(dim=1024, depth=24, heads=16),
    "huge":   dict(dim=1280, depth=32, heads=16),
}
LISTED = {"mu": "8_32", "tiny": "16_224", "small": "16_224", "base": "16_224 16_384"}
LISTED3 = {"mu": "8_32", "small": "16_224 16_384", "medium": "16_224", "base": "16_224 16_384",
           "large": "16_224 16_384", "huge": "14_224"}
DISTILLED = (Rule("dist_token", "adapter.registers", lead=1), Rule("head_dist.*", "head.second.*"),
             *layouts.TIMM)
BOTH = (Rule("cls_classifier.*", "head.out.*"), Rule("distillation_classifier.*", "head.second.*"))


def hf(version: int, *heads: Rule, prefix: str = "deit.") -> tuple[Rule, ...]:
    """transformers' names, with two Linears, one or none."""
    token = Rule(f"{prefix}embeddings.distillation_token", "adapter.registers", lead=1)
    return (token, *heads, *hf_layouts.hf(prefix, version))


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, channels: int = 3,
          classes: int = 1000, eps: float = 1e-6, distilled: bool = False,
          version: int = 1) -> Configs:
    """Columns -> configs; version 3 scales its branches and gives the class token no position."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels,
                         registers=int(distilled), position_prefix=version < 3)
    body = one_stage(dim=dim, depth=depth, heads=heads, eps=eps,
                     layer_scale=1e-6 if version == 3 else None)
    return stem, body, ClassifyConfig(dim=dim, classes=classes, distilled=distilled)


def family(name: str, listed: dict[str, str], rules: dict[str, tuple[Rule, ...]],
           facts: Mapping[str, Mapping[str, Any]] = vit.FACTS, **columns: int) -> Family:
    """One of the three: its names, its layouts, its columns."""
    names = tuple(name.format(row) + f"_patch{end}" for row, ends in listed.items()
                  for end in ends.split())
    pattern = name.format(r"(?P<row>\w+)") + r"_patch(?P<patch>\d+)_(?P<size>\d+)"
    sizes = {row: {**size, **columns} for row, size in SIZES.items()}
    return Family(name.replace("_{}", ""), sizes, build, rules, vit.IMAGENET, pattern, names,
                  facts)


SINGLE = {**vit.HF_FACTS, "head.distilled": False}
DEIT = family("deit_{}", LISTED, vit.RULES)
DEIT_DISTILLED = family("deit_{}_distilled", LISTED, {
    "timm": DISTILLED, "hf": hf(5, *BOTH), "hf_v4": hf(4, *BOTH),
    "hf_single": hf(5), "hf_single_v4": hf(4),  # two tokens, of which one is read
    "hf_body": hf(5, prefix=""), "hf_body_v4": hf(4, prefix="")},
    {**vit.FACTS, "hf_single": SINGLE, "hf_single_v4": SINGLE}, distilled=True)
DEIT3 = family("deit3_{}", LISTED3, {"timm": layouts.TIMM, "fb": layouts.GAMMAS + layouts.TIMM},
               version=3)
# fmt: on
