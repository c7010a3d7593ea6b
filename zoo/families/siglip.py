"""SigLIP's picture tower (Zhai et al. 2023, arXiv:2303.15343); timm's names:
vit_base_patch16_siglip_224."""

from zoo.adapters import PatchesConfig
from zoo.convert import Rule
from zoo.families import layouts, vit
from zoo.families.family import Configs, Family, Sides
from zoo.heads import ClassifyConfig
from zoo.nn import MlpConfig
from zoo.nn.backbone import one_stage
from zoo.shapes import pair

# fmt: off
SIZES = {
    "mu":     dict(dim=32,   depth=2,  heads=2,  hidden=64),
    "base":   dict(dim=768,  depth=12, heads=12),
    "large":  dict(dim=1024, depth=24, heads=16),
    "so400m": dict(dim=1152, depth=27, heads=16, hidden=4304, activation="gelu_tanh"),
}
LISTED = {"mu": "8_siglip_32", "base": "16_siglip_224 16_siglip_256 16_siglip_384 16_siglip_512",
          "large": "16_siglip_256 16_siglip_384", "so400m": "14_siglip_224 14_siglip_384"}
POOL = ("gather.q", "gather.kv", "gather.out", "pool_norm", "mlp.up", "mlp.down")
TIMM = (
    *layouts.TIMM,
    Rule("attn_pool.latent", "head.query", lead=1),
    *(Rule(f"attn_pool.{theirs}.*", f"head.{ours}.*") for theirs, ours in zip(
        ("q", "kv", "proj", "norm", "mlp.fc1", "mlp.fc2"), POOL, strict=True)),
)
QKV = " ".join(f"self_attn.{n}_proj" for n in "qkv")
INNER = ("layer_norm1", QKV, "self_attn.out_proj", "layer_norm2", "mlp.fc1", "mlp.fc2")


def hf(prefix: str = "") -> tuple[Rule, ...]:
    """transformers' names of the tower alone, or within a whole SigLIP."""
    head = f"{prefix}head"
    return (
        *layouts.encoder("embeddings.patch_embedding", "encoder.layers.{i}", *INNER,
                         prefix=prefix, last="post_layernorm"),
        Rule(f"{prefix}embeddings.position_embedding.weight", "adapter.position"),
        Rule(f"{head}.probe", "head.query", lead=1),
        Rule(f"{head}.attention.in_proj_*", "head.gather.q.*", piece=(0, 1, 3)),
        Rule(f"{head}.attention.in_proj_*", "head.gather.kv.*", piece=(1, 3, 3)),
        *(Rule(f"{head}.{theirs}.*", f"head.{ours}.*") for theirs, ours in zip(
            ("attention.out_proj", "layernorm", "mlp.fc1", "mlp.fc2"), POOL[2:], strict=True)),
    )


TEXT = (*(f"encoder.layers.{{i}}.{n}.*" for part in INNER for n in part.split()),
        "embeddings.token_embedding.weight", "embeddings.position_embedding.weight",
        "final_layer_norm.*", "head.*")
WHOLE = (*hf("vision_model."), *(Rule(f"text_model.{name}", None) for name in TEXT),
         Rule("logit_scale", None), Rule("logit_bias", None))
RULES = {"timm": TIMM, "hf": hf(), "hf_whole": WHOLE}


def build(dim: int, depth: int, heads: int, patch: Sides, size: Sides, hidden: int | None = None,
          channels: int = 3, classes: int | None = None, activation: str = "gelu") -> Configs:
    """Columns -> configs: no class token; a learned query gathers the answer."""
    rest = any(s % p for s, p in zip(pair(size), pair(patch), strict=True))  # 384 by 14: cut off
    stem = PatchesConfig(dim=dim, size=size, patch=patch, channels=channels, class_token=False,
                         stride=patch if rest else None)
    body = one_stage(dim=dim, depth=depth, heads=heads, hidden=hidden, activation=activation)
    head = ClassifyConfig(dim=dim, classes=classes, pool="attention", heads=heads,
                          pool_mlp=MlpConfig(hidden, activation))
    return stem, body, head


NAMES = tuple(f"vit_{row}_patch{end}" for row, ends in LISTED.items() for end in ends.split())
PATTERN = r"vit_(?P<row>\w+)_patch(?P<patch>\d+)_siglip_(?P<size>\d+)"
# timm's entries say exact GELU for all but so400m.
HF = {"activation": "gelu_tanh", "resize": "plain"}
FACTS = {"hf": HF, "hf_whole": HF}
SIGLIP = Family("siglip", SIZES, build, RULES, vit.PREPROCESS, PATTERN, NAMES, FACTS)
# fmt: on
