"""SigLIP's picture tower (Zhai et al. 2023, arXiv:2303.15343); timm's names:
vit_base_patch16_siglip_224."""

from collections.abc import Mapping
from typing import Any

from zoo.adapters import PatchesConfig
from zoo.convert import Rule
from zoo.families import vit
from zoo.families.family import Configs, Family, Sides
from zoo.families.siglip_layouts import RULES
from zoo.heads import ClassifyConfig
from zoo.nn import MlpConfig
from zoo.nn.backbone import one_stage
from zoo.shapes import pair

# fmt: off
SIZES = {
    "mu":     dict(dim=32,   depth=2,  heads=2,  hidden=64),
    "base":   dict(dim=768,  depth=12, heads=12),
    "large":  dict(dim=1024, depth=24, heads=16),
    "so400m": dict(dim=1152, depth=27, heads=16, hidden=4304, activation="gelu_tanh"),
}
LISTED = {"mu": "8_{}_32", "base": "16_{}_224 16_{}_256 16_{}_384 16_{}_512",
          "large": "16_{}_256 16_{}_384", "so400m": "14_{}_224 14_{}_384"}
# timm's entries of these all say exact GELU.
GAP = {row: {**columns, "pool": "mean", "activation": "gelu"} for row, columns in SIZES.items()}
LISTED_GAP = {**LISTED, "so400m": "14_{}_224 14_{}_378 14_{}_384 14_{}_448 14_{}_896 16_{}_256"}


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, hidden: int | None = None,
          channels: int = 3, classes: int | None = None, activation: str = "gelu",
          pool: str = "attention") -> Configs:
    """Columns -> configs: no class token; a learned query gathers the answer, or the mean is it."""
    rest = any(s % p for s, p in zip(pair(size), pair(patch), strict=True))  # 384 by 14: cut off
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, class_token=False,
                         stride=patch if rest else None)
    body = one_stage(dim=dim, depth=depth, heads=heads, hidden=hidden, activation=activation)
    gather = {"heads": heads, "pool_mlp": MlpConfig(hidden, activation)}
    more = gather if pool == "attention" else {}
    return stem, body, ClassifyConfig(dim=dim, classes=classes, pool=pool, **more)


def family(name: str, sizes: Mapping[str, Mapping[str, Any]], listed: Mapping[str, str],
           rules: Mapping[str, tuple[Rule, ...]], facts: Mapping[str, Mapping[str, Any]]) -> Family:
    """Of one way to pool: by attention, or by the mean."""
    names = tuple(f"vit_{row}_patch{end.format(name)}" for row, ends in listed.items()
                  for end in ends.split())
    pattern = rf"vit_(?P<row>\w+)_patch(?P<patch>\d+)_{name}_(?P<size>\d+)"
    return Family(name, sizes, build, rules, vit.PREPROCESS, pattern, names, facts)


# timm's entries say exact GELU for all but so400m.
HF = {"activation": "gelu_tanh", "resize": "plain"}
FACTS = {"big_vision": {"activation": "gelu_tanh"}, "hf": HF, "hf_whole": HF,
         "hf_classes": {**HF, "pool": "mean"}}
SIGLIP = family("siglip", SIZES, LISTED, RULES, FACTS)
SIGLIP_GAP = family("siglip_gap", GAP, LISTED_GAP, {"timm": RULES["timm"]}, {})
# fmt: on
