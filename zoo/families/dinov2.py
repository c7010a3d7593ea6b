"""DINOv2 (Oquab et al. 2023, arXiv:2304.07193), with registers too (Darcet et al. 2023,
arXiv:2309.16588); timm's names: vit_small_patch14_dinov2, vit_small_patch14_reg4_dinov2."""

from zoo.adapters import PatchesConfig
from zoo.convert import Rule
from zoo.families import vit
from zoo.families.dinov2_layouts import CLASSES, RULES, RULES_GIANT
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "mu":    dict(dim=32,   depth=2,  heads=2, size=32),
    "small": dict(dim=384,  depth=12, heads=6),
    "base":  dict(dim=768,  depth=12, heads=12),
    "large": dict(dim=1024, depth=24, heads=16),
}
GIANT = {  # its MLPs are gated
    "mu_giant": dict(dim=32,   depth=2,  heads=2, size=32, hidden=88),
    "giant":   dict(dim=1536, depth=40, heads=24, hidden=4096),
}


def build(dim: int, depth: int, heads: int, patch: int, size: Sides = 518, registers: int = 0,
          hidden: int | None = None, channels: int = 3, classes: int | None = None,
          class_row: bool = False, resize: str = "antialias", pool: str = "class") -> Configs:
    """Columns -> configs; `class_row`: registers, and yet a position for the class token. With
    registers every library fits the table alike, whatever `resize` says."""
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, registers=registers,
                         position_prefix=class_row or not registers, position_registers=False,
                         resize="antialias" if registers else resize)
    gated = {"gated": True, "activation": "silu", "hidden": hidden} if hidden else {}
    body = one_stage(dim=dim, depth=depth, heads=heads, layer_scale=1e-5, **gated)
    return stem, body, None if classes is None else ClassifyConfig(dim, classes, pool=pool)


PATTERN = r"vit_(?P<row>\w+?)_patch(?P<patch>\d+)(_reg(?P<registers>\d+))?_dinov2"
HF = {"class_row": True, "resize": "plain"}
FACTS = {"fb": {"class_row": True, "resize": "offset"}, "hf": HF, "hf_v4": HF,
         **{name: {**HF, "pool": "class_mean"} for name in CLASSES}}
PREPROCESS = {**vit.IMAGENET, "crop": 1.0}


def family(name: str, sizes: dict[str, dict[str, int]],
           rules: dict[str, tuple[Rule, ...]]) -> Family:
    """Of one kind of MLP."""
    names = tuple(f"vit_{row}_patch{8 if 'mu' in row else 14}{reg}_dinov2"
                  for row in sizes for reg in ("", "_reg4"))
    return Family(name, sizes, build, rules, PREPROCESS, PATTERN, names, FACTS)


DINOV2 = family("dinov2", SIZES, RULES)
DINOV2_GIANT = family("dinov2_giant", GIANT, RULES_GIANT)
# fmt: on
