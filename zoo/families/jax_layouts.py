"""Names of the ViTs that Google wrote as `.npz`: augreg's, and big_vision's."""

from zoo.convert import Rule
from zoo.families.family import BLOCK


# fmt: off
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
        *(Rule(f"{theirs}/scale", f"{ours}.weight") for theirs, ours in norms.items()),
        *(Rule(f"{theirs}/kernel", f"{ours}.weight", transpose=True)
          for theirs, ours in linears.items()),
        *(Rule(f"{theirs}/bias", f"{ours}.bias") for theirs, ours in (norms | linears).items()),
    )
# fmt: on


JAX = jax()
BIG_VISION = jax("params/", attn=0, norm=1, mlp=0, places="pos_embedding")
