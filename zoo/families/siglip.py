"""SigLIP's picture tower (Zhai et al. 2023, arXiv:2303.15343); timm's names:
vit_base_patch16_siglip_224."""

from zoo.adapters import PatchesConfig
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
LISTED = {"mu": "8_siglip_32", "base": "16_siglip_224 16_siglip_256 16_siglip_384 16_siglip_512",
          "large": "16_siglip_256 16_siglip_384", "so400m": "14_siglip_224 14_siglip_384"}


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, hidden: int | None = None,
          channels: int = 3, classes: int | None = None, activation: str = "gelu",
          pool: str = "attention") -> Configs:
    """Columns -> configs: no class token; a learned query gathers the answer."""
    rest = any(s % p for s, p in zip(pair(size), pair(patch), strict=True))  # 384 by 14: cut off
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, class_token=False,
                         stride=patch if rest else None)
    body = one_stage(dim=dim, depth=depth, heads=heads, hidden=hidden, activation=activation)
    gather = {"heads": heads, "pool_mlp": MlpConfig(hidden, activation)}
    more = gather if pool == "attention" else {}
    return stem, body, ClassifyConfig(dim=dim, classes=classes, pool=pool, **more)


NAMES = tuple(f"vit_{row}_patch{end}" for row, ends in LISTED.items() for end in ends.split())
PATTERN = r"vit_(?P<row>\w+)_patch(?P<patch>\d+)_siglip_(?P<size>\d+)"
# timm's entries say exact GELU for all but so400m.
HF = {"activation": "gelu_tanh", "resize": "plain"}
FACTS = {"big_vision": {"activation": "gelu_tanh"}, "hf": HF, "hf_whole": HF,
         "hf_classes": {**HF, "pool": "mean"}}
SIGLIP = Family("siglip", SIZES, build, RULES, vit.PREPROCESS, PATTERN, NAMES, FACTS)
# fmt: on
