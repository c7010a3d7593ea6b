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
        rules.append(Rule(whole(f"{prefix}{block}", theirs), f"{BLOCK}.{ours}.*"))
    return tuple(rules)


def whole(block: str, names: str) -> tuple[str, ...]:
    """Names within a block, with blanks between them -> whole keys."""
    return tuple(f"{block}.{name}" + ("" if "*" in name else ".*") for name in names.split())


def carried(block: str, names: tuple[str, ...], *others: str) -> Rules:
    """The blocks of a part that is not ours, such as a text tower, and what else it has."""
    keys = (key for each in names for key in whole(block, each))
    return tuple(Rule(key, None) for key in (*keys, *others))


def scales(attn: str, mlp: str) -> Rules:
    """Their layer scales."""
    return Rule(attn, f"{BLOCK}.attn_scale"), Rule(mlp, f"{BLOCK}.mlp_scale")


def headless(rules: Rules, *names: str) -> Rules:
    """The rules of a body whose head reads a layer that ours has not: `names` are carried."""
    kept = (rule for rule in rules if not (rule.ours or "").startswith("head.out."))
    return (*kept, *(Rule(name, None) for name in names))


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
    *scales("blocks.{i}.ls1.gamma", "blocks.{i}.ls2.gamma"),
    Rule("fc_norm.*", "head.norm.*"),
    Rule("head.*", "head.out.*"),
)
GAMMAS = scales("blocks.{i}.gamma_1", "blocks.{i}.gamma_2")  # as Meta, Microsoft and BAAI write it
BIASES = tuple(Rule(f"blocks.{{i}}.attn.{n}_bias", f"{BLOCK}.attn.qkv.{n}_bias") for n in "qv")
# timm's NaFlex: a Linear on patches whose colours run fastest, and positions as a grid.
NAFLEX = (
    Rule("embeds.pos_embed", "adapter.position", form="1 Y X d -> (Y X) d"),
    *front("embeds.cls_token", "-", "embeds.reg_token"),
    Rule("embeds.proj.weight", "adapter.stem.weight", form="d (P Q c) -> d c P Q"),
    Rule("embeds.proj.bias", "adapter.stem.bias"),
    *TIMM,
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
# fmt: on
