"""GPT-2 (Radford et al. 2019): gpt2_small to gpt2_xl."""

from typing import Any

from zoo.adapters import SubwordsConfig
from zoo.convert import Rule
from zoo.families.family import BLOCK, Configs, Family
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
BODY: dict[str, Any] = dict(causal=True, activation="gelu_tanh", eps=1e-5, init="depth_scaled")
SIZES = {
    "gpt2_mu":     dict(dim=32,   depth=2,  heads=2, vocabulary=64, length=48),
    "gpt2_small":  dict(dim=768,  depth=12, heads=12),
    "gpt2_medium": dict(dim=1024, depth=24, heads=16),
    "gpt2_large":  dict(dim=1280, depth=36, heads=20),
    "gpt2_xl":     dict(dim=1600, depth=48, heads=25),
}
HF = (
    Rule("wte.weight",                "adapter.embed"),
    Rule("wpe.weight",                "adapter.position"),
    Rule("h.{i}.ln_1.*",              f"{BLOCK}.attn_norm.*"),
    Rule("h.{i}.attn.c_attn.*",       f"{BLOCK}.attn.qkv.*", transpose=True),
    Rule("h.{i}.attn.c_proj.*",       f"{BLOCK}.attn.out.*", transpose=True),
    Rule("h.{i}.ln_2.*",              f"{BLOCK}.mlp_norm.*"),
    Rule("h.{i}.mlp.c_fc.*",          f"{BLOCK}.mlp.up.*", transpose=True),
    Rule("h.{i}.mlp.c_proj.*",        f"{BLOCK}.mlp.down.*", transpose=True),
    Rule("ln_f.*",                    "backbone.norm.*"),
)


def build(dim: int, depth: int, heads: int, vocabulary: int = 50257, length: int = 1024,
          classes: int | None = None) -> Configs:
    """Columns -> configs."""
    body = one_stage(dim=dim, depth=depth, heads=heads, **BODY)
    head = None if classes is None else ClassifyConfig(dim, classes, pool="last")
    return SubwordsConfig(dim=dim, vocabulary=vocabulary, length=length), body, head
# fmt: on


GPT = Family("gpt", SIZES, build, {"hf": HF})
