"""Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929); timm's names:
vit_base_patch16_224."""

import re
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.convert import Rule
from zoo.families.family import Family
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import BackboneConfig, one_stage

# fmt: off
SIZES = {
    "mu":       dict(dim=32,   depth=2,  heads=2,  ratio=2),
    "tiny":     dict(dim=192,  depth=12, heads=3,  ratio=4),
    "small":    dict(dim=384,  depth=12, heads=6,  ratio=4),
    "base":     dict(dim=768,  depth=12, heads=12, ratio=4),
    "large":    dict(dim=1024, depth=24, heads=16, ratio=4),
    "huge":     dict(dim=1280, depth=32, heads=16, ratio=4),
    "giant":    dict(dim=1408, depth=40, heads=16, ratio=48 / 11),
    "gigantic": dict(dim=1664, depth=48, heads=16, ratio=64 / 13),
}
NAMES = tuple(f"vit_{end}" for end in (
    "mu_patch8_32",      "tiny_patch16_224",  "tiny_patch16_384",  "small_patch32_224",
    "small_patch32_384", "small_patch16_224", "small_patch16_384", "small_patch8_224",
    "base_patch32_224",  "base_patch32_384",  "base_patch16_224",  "base_patch16_384",
    "base_patch8_224",   "large_patch32_224", "large_patch32_384", "large_patch16_224",
    "large_patch16_384", "large_patch14_224", "huge_patch14_224",  "giant_patch14_224",
    "gigantic_patch14_224",
))
BLOCK = "backbone.stages.0.blocks.{i}"
TIMM = (
    Rule("cls_token",              "adapter.token", lead=1),
    Rule("reg_token",              "adapter.registers", lead=1),
    Rule("pos_embed",              "adapter.position", lead=1),
    Rule("patch_embed.proj.*",     "adapter.stem.*"),
    Rule("blocks.{i}.norm1.*",     f"{BLOCK}.attn_norm.*"),
    Rule("blocks.{i}.attn.qkv.*",  f"{BLOCK}.attn.qkv.*"),
    Rule("blocks.{i}.attn.proj.*", f"{BLOCK}.attn.out.*"),
    Rule("blocks.{i}.ls1.gamma",   f"{BLOCK}.attn_scale"),
    Rule("blocks.{i}.norm2.*",     f"{BLOCK}.mlp_norm.*"),
    Rule("blocks.{i}.mlp.fc1.*",   f"{BLOCK}.mlp.up.*"),
    Rule("blocks.{i}.mlp.fc2.*",   f"{BLOCK}.mlp.down.*"),
    Rule("blocks.{i}.ls2.gamma",   f"{BLOCK}.mlp_scale"),
    Rule("norm.*",                 "backbone.norm.*"),
    Rule("fc_norm.*",              "head.norm.*"),
    Rule("head.*",                 "head.out.*"),
)


def parse(name: str) -> dict[str, Any] | None:
    """vit_SIZE_patchP_RESOLUTION -> its columns."""
    found = re.fullmatch(rf"vit_({'|'.join(SIZES)})_patch(\d+)_(\d+)", name)
    if found is None:
        return None
    return {**SIZES[found[1]], "patch": int(found[2]), "size": int(found[3])}


def build(
    dim: int, depth: int, heads: int, ratio: float, patch: int | tuple[int, int],
    size: int | tuple[int, int],
    channels: int = 3, classes: int = 1000,
) -> tuple[PatchesConfig, BackboneConfig, ClassifyConfig]:
    """Columns -> configs; `ratio` is the MLP's width over the model's."""
    return (
        PatchesConfig(dim=dim, size=size, patch=patch, channels=channels),
        one_stage(dim=dim, depth=depth, heads=heads, hidden=int(dim * ratio)),
        ClassifyConfig(dim=dim, classes=classes),
    )


PREPROCESS = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "interpolation": "bicubic"}
VIT = Family("vit", parse, build, NAMES, {"timm": TIMM}, PREPROCESS)
