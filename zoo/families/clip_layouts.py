"""Names that libraries give to CLIP's picture tower, and to the text tower, which is carried."""

from dataclasses import replace

import torch
from torch import Tensor

from zoo.convert import Parts, Rule
from zoo.families import layouts

# fmt: off
TIMM = (*layouts.TIMM, Rule("norm_pre.*", "adapter.norm.*"))
IN_BLOCK = ("ln_1", "attn.in_proj_*", "attn.out_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")
IN_LAYER = ("layer_norm1", " ".join(f"self_attn.{n}_proj" for n in "qkv"), "self_attn.out_proj",
            "layer_norm2", "mlp.fc1", "mlp.fc2")


def trunk(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """timm's names within a file of OpenCLIP, whose text tower is carried."""
    inner = (replace(rule, theirs=tuple(f"visual.trunk.{key}" for key in rule.keys))
             for rule in rules)
    return (PROJ, *inner, *TEXT)


PROJ = Rule("visual.head.proj.weight", "head.out.weight")
TEXT = layouts.carried(
    "text.transformer.resblocks.{i}", IN_BLOCK, "text.positional_embedding",
    "text.token_embedding.weight", "text.ln_final.*", "text.text_projection",
    "text.text_projection.*", "text.attn_mask", "logit_scale", "logit_bias")
OPENAI = (
    *layouts.encoder("conv1", "transformer.resblocks.{i}", *IN_BLOCK, prefix="visual.",
                     last="ln_post"),
    Rule("visual.class_embedding", "adapter.token", form="d -> 1 d"),
    Rule("visual.positional_embedding", "adapter.position"),
    Rule("visual.ln_pre.*", "adapter.norm.*"),
    Rule("visual.proj", "head.out.weight", transpose=True),
    *layouts.carried(
        "transformer.resblocks.{i}", IN_BLOCK, "positional_embedding", "text_projection",
        "logit_scale", "token_embedding.weight", "ln_final.*", "attn_mask"),
)
OPENCLIP = (*OPENAI, *TEXT)  # where the text tower is a part by itself


def places(parts: Parts) -> Tensor:
    """-> (1, T) int64, in older files."""
    h, w = parts.grid
    return torch.arange(h * w + 1)[None]


VISION = "vision_model."
HF = (
    *layouts.encoder("embeddings.patch_embedding", "encoder.layers.{i}", *IN_LAYER,
                     prefix=VISION, last="post_layernorm"),
    Rule(f"{VISION}embeddings.class_embedding", "adapter.token", form="d -> 1 d"),
    Rule(f"{VISION}embeddings.position_embedding.weight", "adapter.position"),
    Rule(f"{VISION}embeddings.position_ids", None, make=places),
    Rule(f"{VISION}pre_layrnorm.*", "adapter.norm.*"),
)
PROJECTED = (*HF, Rule("visual_projection.weight", "head.out.weight"))
CLASSES = (*HF, Rule("classifier.*", "head.out.*"), Rule(f"{VISION}post_layernorm.*", None))
WHOLE = (
    *PROJECTED,
    *layouts.carried(
        "text_model.encoder.layers.{i}", IN_LAYER, "logit_scale", "text_projection.weight",
        "text_model.final_layer_norm.*",
        *(f"text_model.embeddings.{name}" for name in (
            "token_embedding.weight", "position_embedding.weight", "position_ids"))),
)
RULES = {"timm": TIMM, "openai": OPENAI, "openclip": OPENCLIP, "trunk": trunk(TIMM),
         "hf": PROJECTED, "hf_whole": WHOLE, "hf_body": layouts.body_of(HF, VISION),
         "hf_classes": CLASSES}
# fmt: on
