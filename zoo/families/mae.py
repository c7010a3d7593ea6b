"""Masked autoencoders' encoders (He et al. 2021, arXiv:2111.06377); timm's names:
vit_base_patch16_224.mae."""

from dataclasses import replace

from zoo.convert import Rule
from zoo.families import hf_layouts, layouts, vit
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig

# fmt: off
SIZES = {row: vit.SIZES[row] for row in ("mu", "base", "large", "huge")}
INNER = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
ENDS = ("mask_token", "decoder_pos_embed", "decoder_embed.*", "decoder_norm.*", "decoder_pred.*")


def decoder(prefix: str, block: str, inner: tuple[str, ...]) -> tuple[Rule, ...]:
    """The names of a decoder, which is carried."""
    return layouts.carried(prefix + block, inner, *(prefix + name for name in ENDS))


RULES = {
    "timm": (*layouts.TIMM, Rule("norm.*", None)),
    "fb": layouts.TIMM + decoder("", "decoder_blocks.{i}", INNER),
    "hf": hf_layouts.hf("vit."),
    "hf_body": hf_layouts.hf(""),
    "hf_body_v4": hf_layouts.hf("", 4),
    **{f"hf_whole{end}": hf_layouts.hf("vit.", n) + decoder("decoder.", block, hf_layouts.HF[n][1:])
       for end, n, block in (("", 5, "decoder_layers.{i}"),
                             ("_v4", 4, "decoder_encoder.layer.{i}"))},
}


def build(dim: int, depth: int, heads: int, ratio: float, patch: Sides, size: Sides,
          channels: int = 3, classes: int | None = None, eps: float = 1e-6) -> Configs:
    """Columns -> configs: without classes the encoder and its norm, with them the mean of its
    tokens, a norm, a Linear."""
    stem, body, _ = vit.build(dim, depth, heads, ratio, patch, size, channels, eps=eps)
    if classes is None:
        return stem, body, None
    head = ClassifyConfig(dim=dim, classes=classes, pool="mean", norm="layer", eps=eps)
    return stem, replace(body, norm="none"), head
# fmt: on


NAMES = tuple(
    f"vit_{end}.mae"
    for end in ("mu_patch8_32", "base_patch16_224", "large_patch16_224", "huge_patch14_224")
)
FACTS = vit.FACTS | dict.fromkeys(("hf_whole", "hf_whole_v4"), vit.HF_FACTS)
MAE = Family("mae", SIZES, build, RULES, vit.IMAGENET, rf"{vit.PATTERN}\.mae", NAMES, FACTS)
