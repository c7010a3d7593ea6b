"""Llama (Touvron et al. 2023, arXiv:2302.13971; Llama 3: arXiv:2407.21783), and what shares its
make."""

from typing import Any

from zoo.adapters import SubwordsConfig
from zoo.convert import Rule
from zoo.families.family import BLOCK, Configs, Family
from zoo.heads import ClassifyConfig
from zoo.nn import BackboneConfig, Rope
from zoo.nn.backbone import one_stage

# fmt: off
BODY: dict[str, Any] = dict(causal=True, norm="rms", activation="silu", gated=True, bias=False)
V3 = dict(vocabulary=128256, base=5e5)
SIZES = {
    "llama_mu":     dict(dim=32,   depth=2,  heads=4,  kv_heads=2,  hidden=48,    vocabulary=64),
    "tinyllama_1b": dict(dim=2048, depth=22, heads=32, kv_heads=4,  hidden=5632,  vocabulary=32000),
    "llama2_7b":    dict(dim=4096, depth=32, heads=32, kv_heads=32, hidden=11008, vocabulary=32000),
    "llama2_13b":   dict(dim=5120, depth=40, heads=40, kv_heads=40, hidden=13824, vocabulary=32000),
    "llama2_70b":   dict(dim=8192, depth=80, heads=64, kv_heads=8,  hidden=28672, vocabulary=32000),
    "llama3_8b":    dict(dim=4096, depth=32, heads=32, kv_heads=8,  hidden=14336, **V3),
    "llama3_70b":   dict(dim=8192, depth=80, heads=64, kv_heads=8,  hidden=28672, **V3),
}


def parts(config: BackboneConfig) -> tuple[int, int, int]:
    """Rows of q, k and v in the fused projection."""
    block = config.stages[0].block
    width = block.attn.width or block.dim // block.attn.heads
    kv = (block.attn.kv_heads or block.attn.heads) * width
    return block.attn.heads * width, kv, kv


QKV = tuple(f"layers.{{i}}.self_attn.{n}_proj.*" for n in "qkv")
GATED = tuple(f"layers.{{i}}.mlp.{n}_proj.*" for n in ("gate", "up"))
HF = (
    Rule("embed_tokens.weight",                    "adapter.embed"),
    Rule("layers.{i}.input_layernorm.*",           f"{BLOCK}.attn_norm.*"),
    Rule(QKV,                                      f"{BLOCK}.attn.qkv.*", sizes=parts),
    Rule("layers.{i}.self_attn.o_proj.*",          f"{BLOCK}.attn.out.*"),
    Rule("layers.{i}.post_attention_layernorm.*",  f"{BLOCK}.mlp_norm.*"),
    Rule(GATED,                                    f"{BLOCK}.mlp.up.*"),
    Rule("layers.{i}.mlp.down_proj.*",             f"{BLOCK}.mlp.down.*"),
    Rule("norm.*",                                 "backbone.norm.*"),
)


def build(dim: int, depth: int, heads: int, kv_heads: int, hidden: int, vocabulary: int,
          base: float = 1e4, eps: float = 1e-5, classes: int | None = None) -> Configs:
    """Columns -> configs."""
    body = one_stage(dim=dim, depth=depth, heads=heads, kv_heads=kv_heads, hidden=hidden, eps=eps,
                     position=Rope(base), **BODY)
    head = None if classes is None else ClassifyConfig(dim, classes, pool="last", bias=False)
    return SubwordsConfig(dim=dim, vocabulary=vocabulary, position="none"), body, head
# fmt: on


LLAMA = Family("llama", SIZES, build, {"hf": HF})
