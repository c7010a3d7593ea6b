"""Names that transformers gives to what every ViT has."""

from zoo.convert import Rule
from zoo.families import layouts

# fmt: off
# transformers' block and its parts: within its models since version 5, and in files, where the
# names are those of version 4.
HF = {
    5: ("layers.{i}", "layernorm_before", " ".join(f"attention.{n}_proj" for n in "qkv"),
        "attention.o_proj", "layernorm_after", "mlp.fc1", "mlp.fc2"),
    4: ("encoder.layer.{i}", "layernorm_before",
        " ".join(f"attention.attention.{n}" for n in ("query", "key", "value")),
        "attention.output.dense", "layernorm_after", "intermediate.dense", "output.dense"),
}


def hf(prefix: str, version: int = 5) -> layouts.Rules:
    """transformers' ViTs, see `HF`."""
    embed = f"{prefix}embeddings"
    return (
        *layouts.front(f"{embed}.cls_token", f"{embed}.position_embeddings"),
        Rule("classifier.*", "head.out.*"), Rule(f"{embed}.mask_token", None),
        Rule(f"{prefix}pooler.dense.*", None),
        *layouts.encoder("embeddings.patch_embeddings.projection", *HF[version], prefix=prefix,
                 last="layernorm"),
    )
# fmt: on
