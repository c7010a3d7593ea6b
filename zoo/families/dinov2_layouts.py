"""Names that libraries give to DINOv2."""

from zoo.convert import Rule
from zoo.families import layouts
from zoo.families.family import BLOCK

# fmt: off
MASK = Rule("mask_token", None)
FB = (Rule("register_tokens", "adapter.registers", lead=1), MASK, *layouts.TIMM)
FB_GIANT = (Rule("blocks.{i}.mlp.w12.*", f"{BLOCK}.mlp.up.*"),
            Rule("blocks.{i}.mlp.w3.*", f"{BLOCK}.mlp.down.*"), *FB)


def hf(up: str, down: str, version: int = 5, prefix: str = "") -> tuple[Rule, ...]:
    """transformers' names, see `hf_layouts.HF`."""
    embed, layer = f"{prefix}embeddings", f"{prefix}encoder.layer.{{i}}"
    qkv, out = ("query", "key", "value"), "attention.output.dense"
    split = (f"attention.{n[0]}_proj" if version == 5 else f"attention.attention.{n}" for n in qkv)
    names = ("norm1", " ".join(split), "attention.o_proj" if version == 5 else out, "norm2")
    return (
        *layouts.front(f"{embed}.cls_token", f"{embed}.position_embeddings",
                       f"{embed}.register_tokens"),
        *layouts.encoder("embeddings.patch_embeddings.projection", "encoder.layer.{i}", *names, up,
                         down, prefix=prefix, last="layernorm"),
        *layouts.scales(*(f"{layer}.layer_scale{n}.lambda1" for n in (1, 2))),
        Rule(f"{embed}.mask_token", None),
        *([Rule("classifier.*", "head.out.*")] if prefix else []),
    )


# By layout: the prefix of a body with a head for classes, and the version of the names.
CLASSES = {f"hf_{kind}{end}": (f"{prefix}.", version)
           for kind, prefix in (("classes", "dinov2"), ("reg_classes", "dinov2_with_registers"))
           for end, version in (("", 5), ("_v4", 4))}
MLP = {5: ("mlp.fc1", "mlp.fc2"), 4: ("mlp.fc1", "mlp.fc2")}
MLP_GIANT = {5: ("mlp.gate_proj mlp.up_proj", "mlp.down_proj"),
             4: ("mlp.weights_in", "mlp.weights_out")}
RULES, RULES_GIANT = (
    {"timm": layouts.TIMM, "fb": fb, "hf": hf(*mlp[5]), "hf_v4": hf(*mlp[4], 4),
     **{name: hf(*mlp[version], version, prefix) for name, (prefix, version) in CLASSES.items()}}
    for fb, mlp in ((FB, MLP), (FB_GIANT, MLP_GIANT)))
# fmt: on
