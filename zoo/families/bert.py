"""BERT (Devlin et al. 2018, arXiv:1810.04805): bert_base, bert_large and the small ones
(arXiv:1908.08962)."""

from dataclasses import replace

from zoo.adapters import SubwordsConfig
from zoo.convert import Rule
from zoo.families.family import BLOCK, Configs, Family
from zoo.heads import ClassifyConfig
from zoo.nn.backbone import one_stage

# fmt: off
SIZES = {
    "bert_mu":     dict(dim=32,   depth=2,  heads=2, vocabulary=64, length=48),
    "bert_tiny":   dict(dim=128,  depth=2,  heads=2),
    "bert_mini":   dict(dim=256,  depth=4,  heads=4),
    "bert_small":  dict(dim=512,  depth=4,  heads=8),
    "bert_medium": dict(dim=512,  depth=8,  heads=8),
    "bert_base":   dict(dim=768,  depth=12, heads=12),
    "bert_large":  dict(dim=1024, depth=24, heads=16),
}
QKV = tuple(f"encoder.layer.{{i}}.attention.self.{n}.*" for n in ("query", "key", "value"))
HF = (
    Rule("embeddings.word_embeddings.weight",         "adapter.embed"),
    Rule("embeddings.position_embeddings.weight",     "adapter.position"),
    Rule("embeddings.token_type_embeddings.weight",   "adapter.segment"),
    Rule("embeddings.LayerNorm.*",                    "adapter.norm.*"),
    Rule(QKV,                                         f"{BLOCK}.attn.qkv.*"),
    Rule("encoder.layer.{i}.attention.output.dense.*",     f"{BLOCK}.attn.out.*"),
    Rule("encoder.layer.{i}.attention.output.LayerNorm.*", f"{BLOCK}.attn_norm.*"),
    Rule("encoder.layer.{i}.intermediate.dense.*",    f"{BLOCK}.mlp.up.*"),
    Rule("encoder.layer.{i}.output.dense.*",          f"{BLOCK}.mlp.down.*"),
    Rule("encoder.layer.{i}.output.LayerNorm.*",      f"{BLOCK}.mlp_norm.*"),
    Rule("pooler.dense.*",                            None),
)


def build(dim: int, depth: int, heads: int, vocabulary: int = 30522, length: int = 512,
          classes: int | None = None) -> Configs:
    """Columns -> configs: norms behind the sums, none at the end."""
    text = SubwordsConfig(
        dim=dim, vocabulary=vocabulary, length=length, segments=2, norm="layer", eps=1e-12
    )
    body = one_stage(dim=dim, depth=depth, heads=heads, place="post", eps=1e-12)
    head = None if classes is None else ClassifyConfig(dim=dim, classes=classes)
    return text, replace(body, norm="none"), head
# fmt: on


BERT = Family("bert", SIZES, build, {"hf": HF})
