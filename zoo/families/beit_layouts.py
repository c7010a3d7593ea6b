"""Names that libraries give to BEiT."""

import torch
from torch import Tensor

from zoo.convert import Parts, Rule
from zoo.families import hf_layouts, layouts
from zoo.families.family import BLOCK
from zoo.ops import relative_index

# fmt: off
QKV, TABLE = f"{BLOCK}.attn.qkv", f"{BLOCK}.attn.position.table"


def index(parts: Parts, i: int = 0) -> Tensor:
    """-> (1 + N, 1 + N) int64: the row of the table for each pair; the last three for the first."""
    inner = relative_index(parts.backbone.stages[0].block.attn.position.grid, torch.device("cpu"))
    rows = int(inner.max()) + 1
    whole = torch.full((len(inner) + 1,) * 2, rows)
    whole[1:, 0], whole[0, 0], whole[1:, 1:] = rows + 1, rows + 2, inner
    return whole


BODY = (*layouts.BIASES, *layouts.GAMMAS, *layouts.TIMM)
TIMM = (Rule("blocks.{i}.attn.relative_position_bias_table", TABLE), *BODY)
INDEX = Rule("blocks.{i}.attn.relative_position_index", TABLE, make=index)
# Pretrained by masked pictures: one table for all blocks, a norm of all tokens, and what guessed at
# those left out.
MIM = (Rule("rel_pos_bias.relative_position_bias_table", TABLE),
       Rule("rel_pos_bias.relative_position_index", None, make=index),
       Rule("mask_token", None), Rule("lm_head.*", None), *BODY)


def hf(version: int, prefix: str = "beit.") -> tuple[Rule, ...]:
    """transformers' names of what BEiT has beyond a ViT, and the rest."""
    block, _, qkv, *_ = hf_layouts.HF[version]
    layer, (q, _, v) = prefix + block, qkv.split()
    bias = f"{layer}.{'attention.attention.' * (version == 4)}relative_position_bias"
    return (
        Rule(f"{layer}.{q}.bias", f"{QKV}.q_bias"),
        Rule(f"{layer}.{v}.bias", f"{QKV}.v_bias"),
        Rule(f"{bias}.relative_position_bias_table", TABLE),
        Rule(f"{bias}.relative_position_index", None, make=index),
        *layouts.scales(f"{layer}.lambda_1", f"{layer}.lambda_2"),
        Rule(f"{prefix}pooler.layernorm.*", "head.norm.*"),
        *hf_layouts.hf(prefix, version),
    )


RULES = {
    "timm": TIMM,
    "microsoft": (INDEX, *TIMM),
    "microsoft_mim": MIM,
    "hf": hf(5),
    "hf_v4": hf(4),
    "hf_body": hf(5, ""),
    "hf_body_v4": hf(4, ""),
}
FACTS = {"microsoft_mim": {"backbone.norm": "layer"}}
# fmt: on
