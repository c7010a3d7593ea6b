"""Names of the ViTs that Google wrote as `.npz`: augreg's, big_vision's, and SigLIP."""

from zoo.convert import Rule
from zoo.families.family import BLOCK
from zoo.families.layouts import headless


# fmt: off
def layer(theirs: str, ours: str, name: str = "kernel") -> tuple[Rule, ...]:
    """A Linear, or by "scale" a norm: its weight and its bias."""
    return (Rule(f"{theirs}/{name}", f"{ours}.weight", transpose=name == "kernel"),
            Rule(f"{theirs}/bias", f"{ours}.bias"))


def jax(prefix: str = "", attn: int = 1, norm: int = 2, mlp: int = 3,
        places: str = "Transformer/posembed_input/pos_embedding") -> tuple[Rule, ...]:
    """Kernels are (in, out), those of attention with an axis of heads; the numbers are Flax's."""
    block = f"{prefix}Transformer/encoderblock_{{i}}"
    attention = f"{block}/MultiHeadDotProductAttention_{attn}"
    norms = {f"{block}/LayerNorm_0": f"{BLOCK}.attn_norm",
             f"{block}/LayerNorm_{norm}": f"{BLOCK}.mlp_norm",
             f"{prefix}Transformer/encoder_norm": "backbone.norm"}
    linears = {f"{block}/MlpBlock_{mlp}/Dense_0": f"{BLOCK}.mlp.up",
               f"{block}/MlpBlock_{mlp}/Dense_1": f"{BLOCK}.mlp.down", f"{prefix}head": "head.out"}
    qkv = [f"{attention}/{name}" for name in ("query", "key", "value")]
    return (
        Rule(f"{prefix}cls", "adapter.token", lead=1),
        Rule(f"{prefix}{places}", "adapter.position", lead=1),
        Rule(f"{prefix}embedding/kernel", "adapter.stem.weight", form="h w c d -> d c h w"),
        Rule(f"{prefix}embedding/bias", "adapter.stem.bias"),
        Rule(tuple(f"{name}/kernel" for name in qkv), f"{BLOCK}.attn.qkv.weight",
             form="d H k -> (H k) d"),
        Rule(tuple(f"{name}/bias" for name in qkv), f"{BLOCK}.attn.qkv.bias",
             form="H k -> (H k)"),
        Rule(f"{attention}/out/kernel", f"{BLOCK}.attn.out.weight", form="H k d -> d (H k)"),
        Rule(f"{attention}/out/bias", f"{BLOCK}.attn.out.bias"),
        *(rule for theirs, ours in norms.items() for rule in layer(theirs, ours, "scale")),
        *(rule for theirs, ours in linears.items() for rule in layer(theirs, ours)),
    )


JAX = jax()
JAX_PRE_LOGITS = headless(JAX, *(f"{name}/{end}" for name in ("pre_logits", "head")
                                 for end in ("kernel", "bias")))
BIG_VISION = jax("params/", attn=0, norm=1, mlp=0, places="pos_embedding")
TEXT_BLOCK = (*(f"LayerNorm_{{s}}/{end}" for end in ("scale", "bias")),
              *(f"MultiHeadDotProductAttention_0/{name}/{end}"
                for name in ("query", "key", "value", "out") for end in ("kernel", "bias")),
              *(f"MlpBlock_0/Dense_{{s}}/{end}" for end in ("kernel", "bias")))
TEXT = ("Embed_0/embedding", "pos_embedding", "head/kernel", "head/bias",
        *(f"Encoder_0/encoder_norm/{end}" for end in ("scale", "bias")),
        *(f"Encoder_0/encoderblock_{{i}}/{name}" for name in TEXT_BLOCK))
MAP = "params/img/MAPHead_0"
HEADS = f"{MAP}/MultiHeadDotProductAttention_0"
SIGLIP = (
    *jax("params/img/", attn=0, norm=1, mlp=0, places="pos_embedding"),
    Rule(f"{MAP}/probe", "head.query", lead=1),
    *(rule for names, ours in ((("query",), "head.gather.q"), (("key", "value"), "head.gather.kv"))
      for rule in (
          Rule(tuple(f"{HEADS}/{name}/kernel" for name in names), f"{ours}.weight",
               form="d H k -> (H k) d"),
          Rule(tuple(f"{HEADS}/{name}/bias" for name in names), f"{ours}.bias",
               form="H k -> (H k)"))),
    Rule(f"{HEADS}/out/kernel", "head.gather.out.weight", form="H k d -> d (H k)"),
    Rule(f"{HEADS}/out/bias", "head.gather.out.bias"),
    *layer(f"{MAP}/LayerNorm_0", "head.pool_norm", "scale"),
    *layer(f"{MAP}/MlpBlock_0/Dense_0", "head.mlp.up"),
    *layer(f"{MAP}/MlpBlock_0/Dense_1", "head.mlp.down"),
    *(Rule(f"params/txt/{name}", None) for name in TEXT), Rule("params/t", None),
    Rule("params/b", None),
)
# fmt: on
