"""Swin (Liu et al. 2021, arXiv:2103.14030); timm's names: swin_tiny_patch4_window7_224."""

import re
from typing import Any

from zoo.adapters import SwinPatches, SwinPatchesConfig
from zoo.convert import Rule
from zoo.families.family import Family
from zoo.heads import ClassifyConfig
from zoo.nn import BackboneConfig

# fmt: off
SIZES = {
    "mu":    dict(dim=16,  depths=(2, 2),        heads=(1, 2)),
    "tiny":  dict(dim=96,  depths=(2, 2, 6, 2),  heads=(3, 6, 12, 24)),
    "small": dict(dim=96,  depths=(2, 2, 18, 2), heads=(3, 6, 12, 24)),
    "base":  dict(dim=128, depths=(2, 2, 18, 2), heads=(4, 8, 16, 32)),
    "large": dict(dim=192, depths=(2, 2, 18, 2), heads=(6, 12, 24, 48)),
}
NAMES = tuple(f"swin_{end}" for end in (
    "mu_patch4_window4_64",    "tiny_patch4_window7_224",  "small_patch4_window7_224",
    "base_patch4_window7_224", "base_patch4_window12_384", "large_patch4_window7_224",
    "large_patch4_window12_384",
))
BLOCK = "backbone.stages.{s}.blocks.{i}"
TIMM = (
    Rule("patch_embed.proj.*",                 "adapter.stem.*"),
    Rule("patch_embed.norm.*",                 "adapter.norm.*"),
    Rule("layers.{s}.downsample.norm.*",       "backbone.stages.{s}.merge.norm.*"),
    Rule("layers.{s}.downsample.reduction.*",  "backbone.stages.{s}.merge.project.*"),
    Rule("layers.{s}.blocks.{i}.norm1.*",      f"{BLOCK}.attn_norm.*"),
    Rule("layers.{s}.blocks.{i}.attn.relative_position_bias_table", f"{BLOCK}.attn.position.table"),
    Rule("layers.{s}.blocks.{i}.attn.qkv.*",   f"{BLOCK}.attn.qkv.*"),
    Rule("layers.{s}.blocks.{i}.attn.proj.*",  f"{BLOCK}.attn.out.*"),
    Rule("layers.{s}.blocks.{i}.norm2.*",      f"{BLOCK}.mlp_norm.*"),
    Rule("layers.{s}.blocks.{i}.mlp.fc1.*",    f"{BLOCK}.mlp.up.*"),
    Rule("layers.{s}.blocks.{i}.mlp.fc2.*",    f"{BLOCK}.mlp.down.*"),
    Rule("norm.*",                             "backbone.norm.*"),
    Rule("head.fc.*",                          "head.out.*"),
)


def parse(name: str) -> dict[str, Any] | None:
    """swin_SIZE_patchP_windowW_RESOLUTION -> its columns."""
    found = re.fullmatch(rf"swin_({'|'.join(SIZES)})_patch(\d+)_window(\d+)_(\d+)", name)
    if found is None:
        return None
    patch, window, size = (int(n) for n in found.groups()[1:])
    return {**SIZES[found[1]], "patch": patch, "window": window, "size": size}


def build(
    dim: int, depths: tuple[int, ...], heads: tuple[int, ...], patch: int, window: int,
    size: int | tuple[int, int], channels: int = 3, classes: int = 1000, pad: str = "mask",
) -> tuple[SwinPatchesConfig, BackboneConfig, ClassifyConfig]:
    """Columns -> configs."""
    adapter = SwinPatchesConfig(
        dim, tuple(depths), tuple(heads), (window,) * 2, (patch,) * 2, size, channels, pad=pad
    )
    backbone = BackboneConfig(SwinPatches.stages_of(adapter), eps=adapter.eps)
    end = dim * 2 ** (len(depths) - 1)
    return adapter, backbone, ClassifyConfig(dim=end, classes=classes, pool="mean")


PREPROCESS = {
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "interpolation": "bicubic",
    "crop": 0.9,
}
SWIN = Family("swin", parse, build, NAMES, {"timm": TIMM}, PREPROCESS)
