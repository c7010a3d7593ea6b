"""Swin (Liu et al. 2021, arXiv:2103.14030); timm's names: swin_tiny_patch4_window7_224."""

from dataclasses import replace

from zoo.adapters import SwinPatches, SwinPatchesConfig
from zoo.families import vit
from zoo.families.family import Configs, Family, Sides
from zoo.families.layouts import body_of
from zoo.families.swin_layouts import FLAT, INDEX, MASK, SPLIT, SPLIT_V4, TABLE, layout
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
TIMM = "norm1 attn.qkv attn.proj norm2 mlp.fc1 mlp.fc2"
STEM = "patch_embed.proj patch_embed.norm norm"
HF = "swin.embeddings.patch_embeddings.projection swin.embeddings.norm swin.layernorm classifier"
HF_BLOCK, HF_MERGE = "swin.encoder.layers.{0}.blocks.{{i}}", "swin.encoder.layers.{1}.downsample"
BIAS = "relative_position_bias_table"
RULES = {
    "timm": layout(f"{STEM} head.fc", "layers.{0}.blocks.{{i}}", TIMM, "layers.{0}.downsample",
                   TABLE),
    "timm_old": layout(f"{STEM} head", "layers.{0}.blocks.{{i}}", TIMM, "layers.{1}.downsample",
                       TABLE, INDEX, MASK),
    "torchvision": layout(
        "features.0.0 features.0.2 norm head", "features.{3}.{{i}}",
        "norm1 attn.qkv attn.proj norm2 mlp.0 mlp.3", "features.{2}", TABLE, FLAT),
    "hf": layout(HF, HF_BLOCK, f"layernorm_before {SPLIT} attention.o_proj layernorm_after mlp.fc1 "
                 "mlp.fc2", HF_MERGE,
                 replace(TABLE, theirs=f"attention.relative_position_bias.{BIAS}")),
    "hf_v4": layout(HF, HF_BLOCK, f"layernorm_before {SPLIT_V4} attention.output.dense "
                    "layernorm_after intermediate.dense output.dense", HF_MERGE,
                    replace(TABLE, theirs=f"attention.self.{BIAS}")),
}


for each in ("hf", "hf_v4"):
    RULES[each.replace("hf", "hf_body")] = body_of(RULES[each], "swin.")


def build(dim: int, depths: tuple[int, ...], heads: tuple[int, ...], patch: int, window: int,
          size: Sides, channels: int = 3, classes: int = 1000, pad: str = "mask",
          clamp: bool = False, moves: str = "each", cut: bool = False) -> Configs:
    """Columns -> configs."""
    adapter = SwinPatchesConfig(
        dim=dim, depths=depths, heads=heads, window=(window,) * 2, patch=(patch,) * 2,
        size=size, channels=channels, pad=pad, clamp=clamp, moves=moves, cut=cut,
    )
    body = BackboneConfig(SwinPatches.stages_of(adapter), eps=adapter.eps)
    head = ClassifyConfig(dim=dim * 2 ** (len(depths) - 1), classes=classes, pool="mean")
    return adapter, body, head


PATTERN = r"swin_(?P<row>\w+)_patch(?P<patch>\d+)_window(?P<window>\d+)_(?P<size>\d+)"
BEFORE = {"pad": "attend"}  # padding comes before the shift, and is attended
FACTS = {"timm": {"pad": "attend_after", "clamp": True}, "torchvision": {**BEFORE, "cut": True},
         **{key: {**BEFORE, "moves": "all"} for key in RULES if key.startswith("hf")}}
# fmt: on
SWIN = Family("swin", SIZES, build, RULES, vit.IMAGENET, PATTERN, NAMES, FACTS)
