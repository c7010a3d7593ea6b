"""A config.json of transformers -> the name and columns of our families."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.errors import UserError

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
    if "intermediate_size" in config:
        found["ratio"] = config["intermediate_size"] / config["hidden_size"]
    return name, found
