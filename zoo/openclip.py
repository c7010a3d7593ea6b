"""OpenCLIP's open_clip_config.json: what it says of a picture tower, and one of ours in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.errors import UserError, some
from zoo.families.clip import PREPROCESS
from zoo.weights import OPENCLIP_CONFIG

KEYS = {"width": "dim", "layers": "depth", "patch_size": "patch", "image_size": "size"}
# How options begin that the weights tell, or that change no answer; of a tower of timm's as well.
SILENT = ("head_width", "mlp_ratio", "timm_", "patch_dropout", "attn_pooler_")
# What theirs must say of the rest, where they say it.
NEEDS = {"pos_embed_type": "learnable", "pool_type": "tok", "block_type": "default"}
MODES = {"shortest": "crop", "squash": "squash", "longest": "pad"}  # their words, and ours


def columns(config: Mapping[str, Any], place: Path) -> tuple[str, dict[str, Any], str | None]:
    """A config -> any name of the family, its columns, and how the tower pools where timm built it
    so, in timm's word. UserError for what ours has not."""
    whole = config["model_cfg"]
    tower = {"image_size": 224} | whole["vision_cfg"]
    if tower.get("timm_model_name"):
        own = tower.get("timm_proj", "linear") in ("linear", "mlp")  # then timm's usual pool serves
        pool = None if own else tower.get("timm_pool", "avg")
        return tower["timm_model_name"], {"size": sides(tower["image_size"])}, pool
    tower = {"width": 768, "layers": 12, "patch_size": 16} | tower
    rest = {key: value for key, value in tower.items()
            if key not in KEYS and not key.startswith(SILENT)}  # fmt: skip
    other = [f"{key} {value!r}" for key, value in rest.items()
             if value and value != NEEDS.get(key)]  # fmt: skip
    if other or not isinstance(tower["layers"], int):
        has = some(other) if other else f"layers {tower['layers']!r}, a convolutional one"
        raise UserError(f"load takes a picture tower as OpenAI built it; {place} has {has}")
    found = {ours: sides(tower[key]) for key, ours in KEYS.items()}
    found["heads"] = found["dim"] // tower.get("head_width", 64)
    found["hidden"] = int(found["dim"] * tower.get("mlp_ratio", 4.0))
    quick = "_quickgelu" if whole.get("quick_gelu") else ""
    return f"vit_base_patch16_clip{quick}_224", found, None


def sides(value: Any) -> Any:
    """JSON has no tuples; equal sides are one number."""
    value = tuple(value) if isinstance(value, list) else value
    return value[0] if isinstance(value, tuple) and len({*value}) == 1 else value


def of_pictures(config: Mapping[str, Any], place: Path) -> dict[str, Any]:
    """A preprocess_cfg -> arguments of Preprocess, with what theirs does where it says nothing.
    UserError for a way to resize that ours has not."""
    told = {**PREPROCESS, "resize_mode": "shortest", "fill_color": 0}
    told |= {key: value for key, value in config.items() if value is not None}
    mode = told["resize_mode"]
    if mode not in MODES:
        wants = f"load takes pictures that are resized by {', '.join(MODES)}"
        raise UserError(f"{wants}; {place / OPENCLIP_CONFIG} says {mode!r}")
    found = {key: tuple(told[key]) for key in ("mean", "std")}
    found |= {"mode": MODES[mode], "crop": 1.0}  # "random" filters are training's alone
    found["interpolation"] = told["interpolation"].replace("random", "bicubic")
    return found | ({"background": (told["fill_color"],) * 3} if mode == "longest" else {})


def pictures(prepare: Any) -> dict[str, Any]:
    """A Preprocess -> their preprocess_cfg; {} where theirs cannot do so."""
    words = {ours: theirs for theirs, ours in MODES.items()}
    if prepare is None or prepare.crop != 1:
        return {}
    mode = prepare.mode.removesuffix("_early")
    padded = mode == "pad"
    if padded and len({*prepare.background}) > 1:
        return {}
    told = {"mean": list(prepare.mean), "std": list(prepare.std), "resize_mode": words[mode],
            "interpolation": prepare.interpolation}  # fmt: skip
    return told | ({"fill_color": prepare.background[0]} if padded else {})
