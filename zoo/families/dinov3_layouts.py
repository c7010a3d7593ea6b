"""Names that libraries give to DINOv3."""

import torch
from torch import Tensor

from zoo.convert import Parts, Rule
from zoo.families import layouts
from zoo.families.family import BLOCK

# fmt: off
ATTN = f"{BLOCK}.attn"


def periods(parts: Parts) -> Tensor:
    """-> (K / 4,): what Meta's files say of the wavelengths."""
    block = parts.backbone.stages[0].block
    quarter = block.dim // block.attn.heads // 4
    return block.attn.position.base ** (torch.arange(quarter) / quarter)


TIMM = (*layouts.GAMMAS, *layouts.BIASES, *layouts.TIMM)
FB = (
    Rule("storage_tokens", "adapter.registers", lead=1),
    Rule("blocks.{i}.attn.qkv.bias", f"{ATTN}.qkv.q_bias", piece=(0, 1, 3)),
    Rule("blocks.{i}.attn.qkv.bias", f"{ATTN}.qkv.v_bias", piece=(2, 3, 3)),
    Rule("blocks.{i}.attn.qkv.bias_mask", None),
    Rule("mask_token", None),
    Rule("rope_embed.periods", "backbone.stages.0.blocks.0.attn_norm.weight", make=periods),
    *layouts.TIMM,
)


def hf(layer: str, up: str) -> tuple[Rule, ...]:
    """transformers' names; `layer` differs between its models and its files."""
    qkv = " ".join(f"attention.{n}_proj" for n in "qkv")
    return (
        *layouts.front("embeddings.cls_token", "-", "embeddings.register_tokens"),
        *layouts.encoder("embeddings.patch_embeddings", layer, "norm1", qkv, "attention.o_proj",
                         "norm2", up, "mlp.down_proj"),
        *(Rule(f"{layer}.attention.{n}_proj.bias", f"{ATTN}.qkv.{n}_bias") for n in "qv"),
        *layouts.scales(*(f"{layer}.layer_scale{n}.lambda1" for n in (1, 2))),
        Rule("embeddings.mask_token", None),
    )


MLP = "blocks.{i}.mlp"
TIMM_GATED = (Rule((f"{MLP}.fc1_g.*", f"{MLP}.fc1_x.*"), f"{BLOCK}.mlp.up.*"), *TIMM)
FB_GATED = (Rule((f"{MLP}.w1.*", f"{MLP}.w2.*"), f"{BLOCK}.mlp.up.*"),
            Rule(f"{MLP}.w3.*", f"{BLOCK}.mlp.down.*"), *FB)
RULES = {"timm": TIMM, "fb": FB, "hf": hf("model.layer.{i}", "mlp.up_proj"),
         "hf_v4": hf("layer.{i}", "mlp.up_proj")}
UP = "mlp.gate_proj mlp.up_proj"
RULES_GATED = {"timm": TIMM_GATED, "fb": FB_GATED, "hf": hf("model.layer.{i}", UP),
               "hf_v4": hf("layer.{i}", UP)}
# fmt: on
