"""Swin v2 (Liu et al. 2021, arXiv:2111.09883); timm's names: swinv2_tiny_window8_256,
swinv2_base_window12to16_192to256."""

from zoo.adapters import SwinPatches, SwinPatchesConfig
from zoo.convert import Rule
from zoo.families import swin, vit
from zoo.families.family import Configs, Family, Sides
from zoo.families.layouts import body_of
from zoo.families.swin_layouts import FLAT, INDEX, MASK, OFFSETS, SPLIT_V4, layout
from zoo.heads import ClassifyConfig
from zoo.nn import BackboneConfig

# fmt: off
NAMES = tuple(f"swinv2_{end}" for end in (
    "mu_window4_64", "mu_window16_64", "mu_window8to16_32to64",
    "tiny_window8_256", "tiny_window16_256", "small_window8_256", "small_window16_256",
    "base_window8_256", "base_window16_256", "base_window12_192", "large_window12_192",
    "base_window12to16_192to256", "base_window12to24_192to384",
    "large_window12to16_192to256", "large_window12to24_192to384",
))
QKV = {"attn.q_bias": "attn.qkv.q_bias", "attn.v_bias": "attn.qkv.v_bias"}
HF_QKV = {f"attention.self.{n}.bias": f"attn.qkv.{n[0]}_bias" for n in ("query", "value")}


def position(prefix: str, mlp: str) -> tuple[Rule, ...]:
    """Their names of the learned scale and of the bias's MLP."""
    return (Rule(f"{prefix}.logit_scale", "attn.log_scale", form="h 1 1 -> h"),
            Rule(f"{prefix}.{mlp}.0.*", "attn.position.up.*"),
            Rule(f"{prefix}.{mlp}.2.weight", "attn.position.down.weight"))


CPB = position("attn", "cpb_mlp")
TIMM = (*CPB, *(Rule(*pair) for pair in QKV.items()))
SHARES = (Rule("attn.qkv.bias", "attn.qkv.q_bias", piece=(0, 1, 3)),  # its key share is not used
          Rule("attn.qkv.bias", "attn.qkv.v_bias", piece=(2, 3, 3)))
V2 = (swin.HF.replace("swin.", "swinv2."), swin.HF_BLOCK.replace("swin.", "swinv2."))
RULES = {
    "timm": layout(f"{swin.STEM} head.fc", "layers.{0}.blocks.{{i}}", swin.TIMM,
                   "layers.{0}.downsample", *TIMM),
    "timm_old": layout(f"{swin.STEM} head", "layers.{0}.blocks.{{i}}", swin.TIMM,
                       "layers.{1}.downsample", *TIMM, INDEX, OFFSETS, MASK),
    "torchvision": layout(
        "features.0.0 features.0.2 norm head", "features.{3}.{{i}}",
        "norm1 attn.qkv attn.proj norm2 mlp.0 mlp.3", "features.{2}", *CPB, *SHARES, FLAT, OFFSETS),
    "hf": layout(*V2, f"layernorm_before {SPLIT_V4} attention.output.dense layernorm_after "
                 "intermediate.dense output.dense", swin.HF_MERGE.replace("swin.", "swinv2."),
                 *position("attention.self", "continuous_position_bias_mlp"),
                 *(Rule(*pair) for pair in HF_QKV.items())),
}


RULES["hf_body"] = body_of(RULES["hf"], "swinv2.")


def build(dim: int, depths: tuple[int, ...], heads: tuple[int, ...], window: int, size: Sides,
          trained: int | None = None, trained_size: int | None = None, patch: int = 4,
          channels: int = 3, classes: int = 1000, pad: str = "mask", clamp: bool = True,
          moves: str = "each", cut: bool = False) -> Configs:
    """Columns -> configs."""
    adapter = SwinPatchesConfig(
        dim=dim, depths=depths, heads=heads, window=(window,) * 2, patch=(patch,) * 2, size=size,
        channels=channels, pad=pad, clamp=clamp, cut=cut, moves=moves, version=2,
        trained=None if trained is None else (trained,) * 2, trained_size=trained_size)
    body = BackboneConfig(SwinPatches.stages_of(adapter), eps=adapter.eps)
    return adapter, body, ClassifyConfig(dim * 2 ** (len(depths) - 1), classes, pool="mean")


PATTERN = (r"swinv2_(?P<row>\w+)_window((?P<trained>\d+)to)?(?P<window>\d+)_"
           r"((?P<trained_size>\d+)to)?(?P<size>\d+)")
FACTS = swin.FACTS | {
    key: {**swin.BEFORE, "moves": "native"} for key in swin.FACTS if key.startswith("hf")}
# fmt: on
SWINV2 = Family("swinv2", swin.SIZES, build, RULES, vit.IMAGENET, PATTERN, NAMES, FACTS)
