"""Video Swin (Liu et al. 2021, arXiv:2106.13230), as torchvision has it: swin3d_tiny."""

from zoo.adapters import SwinPatches, SwinPatchesConfig
from zoo.families import swin
from zoo.families.family import Configs, Family, Sides
from zoo.families.swin_layouts import INDEX, TABLE, layout
from zoo.heads import ClassifyConfig
from zoo.nn import BackboneConfig

# fmt: off
SIZES = {
    "swin3d_mu":    dict(**swin.SIZES["mu"], window=(2, 4, 4), size=32, classes=7),
    "swin3d_tiny":  swin.SIZES["tiny"],
    "swin3d_small": swin.SIZES["small"],
    "swin3d_base":  swin.SIZES["base"],
}
RULES = {"torchvision": layout(
    f"{swin.STEM} head", "features.{2}.{{i}}", "norm1 attn.qkv attn.proj norm2 mlp.0 mlp.3",
    "features.{4}", TABLE, INDEX)}


def build(dim: int, depths: tuple[int, ...], heads: tuple[int, ...],
          window: tuple[int, int, int] = (8, 7, 7), patch: tuple[int, int, int] = (2, 4, 4),
          size: Sides = 224, channels: int = 3, classes: int = 400, pad: str = "mask") -> Configs:
    """Columns -> configs; windows and patches reach over time."""
    adapter = SwinPatchesConfig(dim=dim, depths=depths, heads=heads, window=window, patch=patch,
                                size=size, channels=channels, pad=pad)
    body = BackboneConfig(SwinPatches.stages_of(adapter), eps=adapter.eps)
    return adapter, body, ClassifyConfig(dim * 2 ** (len(depths) - 1), classes, pool="mean")
# fmt: on


SWIN3D = Family("swin3d", SIZES, build, RULES, facts={"torchvision": swin.BEFORE})
