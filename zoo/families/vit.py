"""Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929); timm's names:
vit_base_patch16_224."""

from zoo.adapters import PatchesConfig
from zoo.families import hf_layouts, layouts
from zoo.families.family import Configs, Family, Sides
from zoo.families.jax_layouts import BIG_VISION, JAX, JAX_PRE_LOGITS
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

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
LISTED = {
    "mu": "8_32", "tiny": "16_224 16_384", "small": "32_224 32_384 16_224 16_384 8_224",
    "base": "32_224 32_384 16_224 16_384 8_224", "large": "32_224 32_384 16_224 16_384 14_224",
    "huge": "14_224", "giant": "14_224", "gigantic": "14_224",
}
NAMES = tuple(f"vit_{row}_patch{end}" for row, ends in LISTED.items() for end in ends.split())
RULES = {
    "timm": layouts.TIMM,
    "hf": hf_layouts.hf("vit."),
    "hf_v4": hf_layouts.hf("vit.", 4),
    "hf_body": hf_layouts.hf(""),
    "hf_body_v4": hf_layouts.hf("", 4),
    "torchvision": layouts.torchvision("mlp.0", "mlp.3"),
    "torchvision_old": layouts.torchvision("mlp.linear_1", "mlp.linear_2"),
    "jax": JAX,
    "jax_pre_logits": JAX_PRE_LOGITS,
    "big_vision": BIG_VISION,
    # Trained on ImageNet-21k with one more layer before the head.
    "timm_pre_logits": layouts.headless(layouts.TIMM, "pre_logits.fc.*", "head.*"),
    "naflex": layouts.NAFLEX,
}


def build(dim: int, depth: int, heads: int, ratio: float, patch: Sides, size: Sides,
          channels: int = 3, classes: int = 1000, eps: float = 1e-6) -> Configs:
    """Columns -> configs; `ratio` is the MLP's width over the model's."""
    return (
        PatchesConfig(dim=dim, size=size, patch=patch, channels=channels),
        one_stage(dim=dim, depth=depth, heads=heads, hidden=int(dim * ratio), eps=eps),
        ClassifyConfig(dim=dim, classes=classes),
    )
# fmt: on


PATTERN = r"vit_(?P<row>\w+)_patch(?P<patch>\d+)_(?P<size>\d+)"
HF_FACTS = {"eps": 1e-12, "resize": "plain"}  # of every configuration there
CORNERS, PATCHES = {"resize": "corners"}, {"position_prefix": False}
FACTS = {"hf": HF_FACTS, "hf_v4": HF_FACTS, "hf_body": HF_FACTS, "hf_body_v4": HF_FACTS,
         "torchvision": CORNERS, "torchvision_old": CORNERS,
         "big_vision": PATCHES, "naflex": PATCHES}  # fmt: skip
PREPROCESS = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "interpolation": "bicubic"}
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225),
            "interpolation": "bicubic", "crop": 0.9}  # fmt: skip
VIT = Family("vit", SIZES, build, RULES, PREPROCESS, PATTERN, NAMES, FACTS)
