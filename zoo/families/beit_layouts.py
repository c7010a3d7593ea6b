"""Names that libraries give to BEiT."""

import torch
from torch import Tensor

from zoo.convert import Parts, Rule
from zoo.families import layouts
from zoo.families.family import BLOCK
from zoo.ops import relative_index

# fmt: off
ATTN, OURS = f"{BLOCK}.attn", f"{BLOCK}.attn.position.table"


def index(parts: Parts, i: int = 0) -> Tensor:
    """-> (1 + N, 1 + N) int64: the row of the table for each pair; the last three for the first."""
    inner = relative_index(parts.backbone.stages[0].block.attn.position.grid, torch.device("cpu"))
    rows = int(inner.max()) + 1
    whole = torch.full((len(inner) + 1,) * 2, rows)
    whole[1:, 0], whole[0, 0], whole[1:, 1:] = rows + 1, rows + 2, inner
    return whole


TIMM = (
    *(Rule(f"blocks.{{i}}.attn.{n}_bias", f"{ATTN}.qkv.{n}_bias") for n in "qv"),
    Rule("blocks.{i}.attn.relative_position_bias_table", OURS),
    Rule("blocks.{i}.gamma_1", f"{BLOCK}.attn_scale"),
    Rule("blocks.{i}.gamma_2", f"{BLOCK}.mlp_scale"),
    *layouts.TIMM,
)
PARTS = {5: ("layers.{i}", "attention.q_proj attention.v_proj", ""),
         4: ("encoder.layer.{i}", "attention.attention.query attention.attention.value",
             "attention.attention.")}
INDEX = Rule("blocks.{i}.attn.relative_position_index", OURS, make=index)


def hf(version: int, prefix: str = "beit.") -> tuple[Rule, ...]:
    """transformers' names of what BEiT has beyond a ViT, and the rest."""
    block, qkv, part = PARTS[version]
    layer, (q, v) = prefix + block, qkv.split()
    bias = f"{part}relative_position_bias"
    return (
        Rule(f"{layer}.{q}.bias", f"{ATTN}.qkv.q_bias"),
        Rule(f"{layer}.{v}.bias", f"{ATTN}.qkv.v_bias"),
        Rule(f"{layer}.{bias}.relative_position_bias_table", OURS),
        Rule(f"{layer}.{bias}.relative_position_index", None, make=index),
        Rule(f"{layer}.lambda_1", f"{BLOCK}.attn_scale"),
        Rule(f"{layer}.lambda_2", f"{BLOCK}.mlp_scale"),
        Rule(f"{prefix}pooler.layernorm.*", "head.norm.*"),
        *layouts.hf(prefix, version),
    )


RULES = {
    "timm": TIMM,
    "microsoft": (INDEX, *TIMM),
    "hf": hf(5),
    "hf_v4": hf(4),
    "hf_body": hf(5, ""),
    "hf_body_v4": hf(4, ""),
}
# fmt: on
