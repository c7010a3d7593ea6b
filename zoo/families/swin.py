"""Swin (Liu et al. 2021, arXiv:2103.14030); timm's names: swin_tiny_patch4_window7_224."""

from zoo.adapters import SwinPatches, SwinPatchesConfig
from zoo.convert import Rule
from zoo.families.family import Configs, Family, Sides
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


def build(dim: int, depths: tuple[int, ...], heads: tuple[int, ...], patch: int, window: int,
          size: Sides, channels: int = 3, classes: int = 1000, pad: str = "mask") -> Configs:
    """Columns -> configs."""
    adapter = SwinPatchesConfig(
        dim=dim, depths=depths, heads=heads, window=(window,) * 2, patch=(patch,) * 2,
        size=size, channels=channels, pad=pad,
    )
    body = BackboneConfig(SwinPatches.stages_of(adapter), eps=adapter.eps)
    head = ClassifyConfig(dim=dim * 2 ** (len(depths) - 1), classes=classes, pool="mean")
    return adapter, body, head


PATTERN = r"swin_(?P<row>\w+)_patch(?P<patch>\d+)_window(?P<window>\d+)_(?P<size>\d+)"
PREPROCESS = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225),
              "interpolation": "bicubic", "crop": 0.9}
# fmt: on
SWIN = Family("swin", SIZES, build, {"timm": TIMM}, PREPROCESS, PATTERN, NAMES)
