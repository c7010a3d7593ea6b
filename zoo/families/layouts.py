"""Names that libraries give to what every ViT has."""

from dataclasses import replace

from zoo.convert import Rule
from zoo.families.family import BLOCK

Rules = tuple[Rule, ...]
INNER = ("attn_norm", "attn.qkv", "attn.out", "mlp_norm", "mlp.up", "mlp.down")


def front(token: str, position: str, registers: str = "-") -> Rules:
    """Their class token, positions and registers, (1, rows, D) -> rules."""
    theirs = {token: "token", position: "position", registers: "registers"}
    return tuple(Rule(name, f"adapter.{ours}", lead=1) for name, ours in theirs.items())


def encoder(stem: str, block: str, *names: str, prefix: str = "", last: str = "norm") -> Rules:
    """Their stem, block and its six parts in the order of INNER (three names for split q, k and v),
    and the last norm -> rules. A `*` in a name stands where it has its weight and bias."""
    ends = {stem: "adapter.stem", last: "backbone.norm"}
    rules = [Rule(f"{prefix}{theirs}.*", f"{ours}.*") for theirs, ours in ends.items()]
    for theirs, ours in zip(names, INNER, strict=True):
        whole = (f"{prefix}{block}.{n}" + ("" if "*" in n else ".*") for n in theirs.split())
        rules.append(Rule(tuple(whole), f"{BLOCK}.{ours}.*"))
    return tuple(rules)


def body_of(rules: Rules, prefix: str) -> Rules:
    """The names in files of a body alone, which lack the prefix."""
    return tuple(
        replace(rule, theirs=tuple(key.removeprefix(prefix) for key in rule.keys)) for rule in rules
    )


# fmt: off
TIMM = (
    *front("cls_token", "pos_embed", "reg_token"),
    *encoder("patch_embed.proj", "blocks.{i}", "norm1", "attn.qkv", "attn.proj", "norm2",
             "mlp.fc1", "mlp.fc2"),
    Rule("blocks.{i}.ls1.gamma", f"{BLOCK}.attn_scale"),
    Rule("blocks.{i}.ls2.gamma", f"{BLOCK}.mlp_scale"),
    Rule("fc_norm.*", "head.norm.*"),
    Rule("head.*", "head.out.*"),
)


def torchvision(*mlp: str) -> Rules:
    """torchvision's ViTs; the published files still have the older names of their MLPs."""
    return (
        *front("class_token", "encoder.pos_embedding"),
        *encoder("conv_proj", "encoder.layers.encoder_layer_{i}", "ln_1",
                 "self_attention.in_proj_*", "self_attention.out_proj", "ln_2", *mlp,
                 last="encoder.ln"),
        Rule("heads.head.*", "head.out.*"),
    )


def hf(prefix: str, version: int = 5) -> Rules:
    """transformers: names within its models since version 5, and in files, where they are those of
    version 4."""
    table = f"{prefix}embeddings.position_embeddings"
    ends = (*front(f"{prefix}embeddings.cls_token", table), Rule("classifier.*", "head.out.*"),
            Rule(f"{prefix}embeddings.mask_token", None), Rule(f"{prefix}pooler.dense.*", None))
    if version == 5:
        qkv, out = " ".join(f"attention.{n}_proj" for n in "qkv"), "attention.o_proj"
        block, mlp = "layers.{i}", ("mlp.fc1", "mlp.fc2")
    else:
        qkv = " ".join(f"attention.attention.{n}" for n in ("query", "key", "value"))
        block, out = "encoder.layer.{i}", "attention.output.dense"
        mlp = ("intermediate.dense", "output.dense")
    names = ("layernorm_before", qkv, out, "layernorm_after", *mlp)
    stem = "embeddings.patch_embeddings.projection"
    return ends + encoder(stem, block, *names, prefix=prefix, last="layernorm")
# fmt: on
