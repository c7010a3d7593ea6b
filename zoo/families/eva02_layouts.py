"""Names that libraries give to EVA-02."""

from functools import partial

import torch
from torch import Tensor

from zoo.convert import Parts, Rule
from zoo.families import layouts
from zoo.families.family import BLOCK
from zoo.ops import grid_places, rope_table

# fmt: off
ATTN = f"{BLOCK}.attn"
# They turn neighbouring channels of a head, we turn one half with the other.
TURNED = "(H j p2) -> (H p2 j)"
ROWS = "(H j p2) d -> (H p2 j) d"
ENDS = (
    Rule("blocks.{i}.attn.proj.weight", f"{ATTN}.out.weight", form="d (H j p2) -> d (H p2 j)"),
    Rule("blocks.{i}.mlp.norm.*", f"{BLOCK}.mlp.norm.*"),
    *layouts.TIMM,
)
TIMM = (
    Rule("blocks.{i}.attn.qkv.weight", f"{ATTN}.qkv.weight",
         form="(n3 H j p2) d -> (n3 H p2 j) d"),
    Rule("blocks.{i}.attn.q_bias", f"{ATTN}.qkv.q_bias", form=TURNED),
    Rule("blocks.{i}.attn.v_bias", f"{ATTN}.qkv.v_bias", form=TURNED),
    *ENDS,
)
QKV = tuple(f"blocks.{{i}}.attn.{n}_proj.weight" for n in "qkv")
TIMM_LARGER = (
    Rule(QKV, f"{ATTN}.qkv.weight", form=ROWS),
    Rule("blocks.{i}.attn.q_proj.bias", f"{ATTN}.qkv.q_bias", form=TURNED),
    Rule("blocks.{i}.attn.v_proj.bias", f"{ATTN}.qkv.v_bias", form=TURNED),
    Rule(("blocks.{i}.mlp.fc1_g.*", "blocks.{i}.mlp.fc1_x.*"), f"{BLOCK}.mlp.up.*"),
    *ENDS,
)


def turns(kind: int, parts: Parts) -> Tensor:
    """-> (N, K): BAAI's files hold the cosines and the sines of all places, each twice."""
    block, extent = parts.backbone.stages[0].block, parts.adapter.extent
    places = grid_places((1, *parts.grid), 0, torch.device("cpu"), extent)[..., -2:]
    width = block.dim // block.attn.heads // 2
    table = rope_table(places.reshape(-1, 2), (width, width))
    return table[:, kind].repeat_interleave(2, -1)


MLP = "blocks.{i}.mlp"
STORED = tuple(Rule(f"{at}rope.freqs_{name}", None, make=partial(turns, kind))
               for at in ("", "blocks.{i}.attn.") for kind, name in enumerate(("cos", "sin")))
BAAI = (Rule(f"{MLP}.w12.*", f"{BLOCK}.mlp.up.*"), Rule(f"{MLP}.w3.*", f"{BLOCK}.mlp.down.*"),
        *STORED, *TIMM)
BAAI_LARGER = (
    Rule("blocks.{i}.attn.q_bias", f"{ATTN}.qkv.q_bias", form=TURNED),
    Rule("blocks.{i}.attn.v_bias", f"{ATTN}.qkv.v_bias", form=TURNED),
    Rule((f"{MLP}.w1.*", f"{MLP}.w2.*"), f"{BLOCK}.mlp.up.*"),
    Rule(f"{MLP}.ffn_ln.*", f"{BLOCK}.mlp.norm.*"),
    Rule(f"{MLP}.w3.*", f"{BLOCK}.mlp.down.*"),
    *STORED, *TIMM_LARGER,
)
# Pretrained by masked pictures: a norm of all tokens, and what guessed at those left out.
GUESS = (Rule("mask_token", None), Rule("lm_head.*", None))
RULES = {"timm": TIMM, "baai": BAAI, "baai_mim": GUESS + BAAI}
RULES_LARGER = {"timm": TIMM_LARGER, "baai": BAAI_LARGER, "baai_mim": GUESS + BAAI_LARGER}
FACTS = {"baai_mim": {"backbone.norm": "layer"}}
# fmt: on
