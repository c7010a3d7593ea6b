"""Names that libraries give to SigLIP's picture tower, and to the text tower, which is carried."""

from zoo.convert import Rule
from zoo.families import layouts
from zoo.families.clip_layouts import IN_LAYER, trunk
from zoo.families.jax_layouts import SIGLIP

# fmt: off
POOL = ("gather.q", "gather.kv", "gather.out", "pool_norm", "mlp.up", "mlp.down")
TIMM = (
    *layouts.TIMM,
    Rule("attn_pool.latent", "head.query", lead=1),
    *(Rule(f"attn_pool.{theirs}.*", f"head.{ours}.*") for theirs, ours in zip(
        ("q", "kv", "proj", "norm", "mlp.fc1", "mlp.fc2"), POOL, strict=True)),
)


def hf(prefix: str = "") -> tuple[Rule, ...]:
    """transformers' names of the tower alone, or within a whole SigLIP."""
    head = f"{prefix}head"
    return (
        *layouts.encoder("embeddings.patch_embedding", "encoder.layers.{i}", *IN_LAYER,
                         prefix=prefix, last="post_layernorm"),
        Rule(f"{prefix}embeddings.position_embedding.weight", "adapter.position"),
        Rule(f"{head}.probe", "head.query", lead=1),
        Rule(f"{head}.attention.in_proj_*", "head.gather.q.*", piece=(0, 1, 3)),
        Rule(f"{head}.attention.in_proj_*", "head.gather.kv.*", piece=(1, 3, 3)),
        *(Rule(f"{head}.{theirs}.*", f"head.{ours}.*") for theirs, ours in zip(
            ("attention.out_proj", "layernorm", "mlp.fc1", "mlp.fc2"), POOL[2:], strict=True)),
    )


WHOLE = (
    *hf("vision_model."),
    *layouts.carried(
        "text_model.encoder.layers.{i}", IN_LAYER, "logit_scale", "logit_bias",
        *(f"text_model.{name}" for name in (
            "embeddings.token_embedding.weight", "embeddings.position_embedding.weight",
            "final_layer_norm.*", "head.*"))),
)
GATHER = ("probe", "attention.in_proj_*", "attention.out_proj.*", "layernorm.*", "mlp.fc1.*",
          "mlp.fc2.*")
CLASSES = (*hf("vision_model."), Rule("classifier.*", "head.out.*"),
           *(Rule(f"vision_model.head.{name}", None) for name in GATHER))
RULES = {"timm": TIMM, "trunk": trunk(TIMM), "big_vision": SIGLIP, "hf": hf(),
         "hf_whole": WHOLE, "hf_classes": CLASSES}
# fmt: on
