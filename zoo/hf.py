"""A config.json of transformers -> the name and columns of our families."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.errors import OptionError, UserError
from zoo.shapes import pair

# By model_type: our family's start of a name, our columns by their keys, and what theirs must say.
# fmt: off
VIT = dict(dim="hidden_size", depth="num_hidden_layers", heads="num_attention_heads",
           patch="patch_size", size="image_size", channels="num_channels", eps="layer_norm_eps")
DINOV2 = {k: v for k, v in VIT.items() if k != "eps"}
SWIN = dict(dim="embed_dim", depths="depths", heads="num_heads", patch="patch_size",
            window="window_size", size="image_size", channels="num_channels")
PLAIN = {"hidden_act": "gelu", "qkv_bias": True, "mlp_ratio": 4, "layer_norm_eps": 1e-6,
         "use_swiglu_ffn": False}
TYPES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "vit":  ("vit_tiny_patch16_224", VIT, {"hidden_act": "gelu", "qkv_bias": True}),
    "deit": ("deit_tiny_distilled_patch16_224", VIT, {"hidden_act": "gelu", "qkv_bias": True}),
    "dinov2": ("vit_small_patch14_dinov2", DINOV2, PLAIN),
    "dinov2_with_registers": ("vit_small_patch14_reg4_dinov2",
                              {**DINOV2, "registers": "num_register_tokens"}, PLAIN),
    "swin": ("swin_tiny_patch4_window7_224", SWIN,
             {"hidden_act": "gelu", "qkv_bias": True, "mlp_ratio": 4.0,
              "use_absolute_embeddings": False}),
}
# fmt: on


def columns(config: Mapping[str, Any], place: Path) -> tuple[str, dict[str, Any]]:
    """-> (a name of the family, {column: value}). UserError for what is not known."""
    kind = config["model_type"]
    if kind not in TYPES:
        known = ", ".join(TYPES)
        raise UserError(f"load takes config.json of {known}; that of {place} is of {kind!r}")
    name, keys, needs = TYPES[kind]
    other = [f"{k} {config[k]!r}" for k, v in needs.items() if config.get(k, v) != v]
    if other:
        raise UserError(f"load takes a usual {kind}; {place} has {', '.join(other)}")
    lacks = [key for key in keys.values() if key not in config]
    if lacks:
        raise UserError(f"load takes a whole config.json; that of {place} lacks {', '.join(lacks)}")
    found = {column: config[key] for column, key in keys.items()}
    found = {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}
    odd = [f"{keys[k]} {v!r}" for k, v in found.items() if not isinstance(v, (int, float, tuple))]
    if odd:
        raise UserError(f"load takes a config.json of numbers; {place} has {', '.join(odd)}")
    wide = config.get("intermediate_size", 0) / config.get("hidden_size", 1)
    if kind == "vit":
        found["ratio"] = wide
    elif wide not in (0, 4):
        raise UserError(f"load takes a usual {kind}; {place} has MLPs of {wide:g} times the width")
    return name, found


def kind_of(model: Any) -> str:
    """The model_type that a model is given back as. OptionError where there is none."""
    family, registers = model.record.family, getattr(model.adapter.config, "registers", 0)
    kinds = {"vit": "vit", "swin": "swin", "deit_distilled": "deit",
             "dinov2": "dinov2_with_registers" if registers else "dinov2"}  # fmt: skip
    if family not in kinds:
        raise OptionError(f"save in transformers' layout takes {', '.join(kinds)}; got {family}",
                          "layout")  # fmt: skip
    return kinds[family]


def values_of(model: Any) -> dict[str, Any]:
    """Our columns of a model's configs."""
    adapter, stages = model.adapter.config, model.backbone.config.stages
    block = stages[0].block
    size, patch = pair(adapter.size), pair(adapter.patch)
    own = {
        "dim": adapter.dim, "channels": adapter.channels, "eps": block.eps,
        "depth": stages[0].depth, "heads": block.attn.heads,
        "hidden": block.mlp.hidden or 4 * adapter.dim,
        "size": size[0] if size[0] == size[1] else list(size), "patch": patch[0],
        "registers": getattr(adapter, "registers", 0),
    }  # fmt: skip
    if len(stages) > 1:
        own |= {"depths": list(adapter.depths), "heads": list(adapter.heads),
                "window": adapter.window[0]}  # fmt: skip
    return own
