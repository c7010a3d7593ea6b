"""ViTs without a class token, whose mean answers: what I-JEPA trained (Assran et al. 2023,
arXiv:2301.08243); timm's names: vit_huge_patch14_gap_224."""

from dataclasses import replace
from functools import wraps
from typing import Any

from zoo.families import layouts, vit
from zoo.families.family import Configs, Family


@wraps(vit.build)
def build(**columns: Any) -> Configs:
    """Columns -> configs."""
    stem, body, head = vit.build(**columns)
    return replace(stem, class_token=False), body, replace(head, pool="mean")


ENDS = "mu_patch8_gap_32 base_patch16_gap_224 huge_patch14_gap_224 huge_patch16_gap_448"
SIZES = {**vit.SIZES, "base": {**vit.SIZES["base"], "heads": 16}}  # as in timm
NAMES = tuple(f"vit_{end}" for end in (*ENDS.split(), "giant_patch16_gap_224"))
PATTERN = vit.PATTERN.replace("_(?P<size>", "_gap_(?P<size>")
RULES = {"timm": layouts.TIMM}
VIT_GAP = Family("vit_gap", SIZES, build, RULES, vit.IMAGENET, PATTERN, NAMES)
