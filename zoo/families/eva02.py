"""EVA-02 (Fang et al. 2023, arXiv:2303.11331); timm's names: eva02_small_patch14_336."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.convert import Rule
from zoo.families import clip, layouts
from zoo.families.family import BLOCK, Configs, Family, Sides
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
ATTN = f"{BLOCK}.attn"
# They turn neighbouring channels of a head, we turn one half with the other.
TURNED = "(H j p2) -> (H p2 j)"
ROWS = "(H j p2) d -> (H p2 j) d"
ENDS = (
    Rule("blocks.{i}.attn.proj.weight", f"{ATTN}.out.weight", form="d (H j p2) -> d (H p2 j)"),
    Rule("blocks.{i}.mlp.norm.*", f"{BLOCK}.mlp.norm.*"),
    *layouts.TIMM,
)
TIMM = (
    Rule("blocks.{i}.attn.qkv.weight", f"{ATTN}.qkv.weight",
         form="(n3 H j p2) d -> (n3 H p2 j) d"),
    Rule("blocks.{i}.attn.q_bias", f"{ATTN}.qkv.q_bias", form=TURNED),
    Rule("blocks.{i}.attn.v_bias", f"{ATTN}.qkv.v_bias", form=TURNED),
    *ENDS,
)
QKV = tuple(f"blocks.{{i}}.attn.{n}_proj.weight" for n in "qkv")
TIMM_LARGER = (
    Rule(QKV, f"{ATTN}.qkv.weight", form=ROWS),
    Rule("blocks.{i}.attn.q_proj.bias", f"{ATTN}.qkv.q_bias", form=TURNED),
    Rule("blocks.{i}.attn.v_proj.bias", f"{ATTN}.qkv.v_bias", form=TURNED),
    Rule(("blocks.{i}.mlp.fc1_g.*", "blocks.{i}.mlp.fc1_x.*"), f"{BLOCK}.mlp.up.*"),
    *ENDS,
)


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, inner_norm: str = "none",
          channels: int = 3, classes: int = 1000) -> Configs:
    """Columns -> configs: positions are added, and turn q and k by places of a grid of 16 x 16."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, extent=16.0)
    dotted: dict[str, Any] = {"attn.bias": "qv", "mlp.inner_norm": inner_norm}
    body = one_stage(dim=dim, depth=depth, heads=heads, hidden=int(dim * 4 * 2 / 3), gated=True,
                     activation="silu", position="rope", **dotted)
    head = ClassifyConfig(dim=dim, classes=classes, pool="mean", norm="layer")
    return stem, replace(body, norm="none"), head


def family(name: str, sizes: Mapping[str, Mapping[str, Any]], rules: tuple[Rule, ...],
           *names: str) -> Family:
    """Of one make of block."""
    pattern = r"eva02_(?P<row>\w+)_patch(?P<patch>\d+)_(?P<size>\d+)"
    return Family(name, sizes, build, {"timm": rules}, clip.PREPROCESS, pattern, names)


EVA02 = family("eva02", SIZES, TIMM, "eva02_mu_patch8_32", "eva02_tiny_patch14_336",
               "eva02_small_patch14_336")
EVA02_LARGER = family("eva02_larger", LARGER, TIMM_LARGER, "eva02_mu_base_patch8_32",
                      "eva02_base_patch14_448", "eva02_large_patch14_448")
# fmt: on
