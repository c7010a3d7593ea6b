"""A config.json of transformers -> the name and columns of our families."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.errors import OptionError, UserError, cut, some
from zoo.shapes import pair


@dataclass(frozen=True)
class Kind:
    """What transformers calls a model of one of our families."""

    type: str
    """Its model_type."""
    name: str
    """Any name of our family."""
    family: str
    keys: Mapping[str, str]
    """Our columns -> their keys."""
    needs: Mapping[str, Any]
    """What theirs must say, where they say it."""
    classes: tuple[str, str]
    """Their class with a head, and without."""


# fmt: off
SQUARE = dict(patch="patch_size", size="image_size", channels="num_channels")
VIT = dict(dim="hidden_size", depth="num_hidden_layers", heads="num_attention_heads", **SQUARE)
EPS, RATIO = dict(eps="layer_norm_eps"), dict(ratio="intermediate_size")
HIDDEN, REGISTERS = dict(hidden="intermediate_size"), dict(registers="num_register_tokens")
SWIN = dict(dim="embed_dim", depths="depths", heads="num_heads", window="window_size", **SQUARE)
GELU = {"hidden_act": "gelu", "qkv_bias": True}
PLAIN = {**GELU, "mlp_ratio": 4, "layer_norm_eps": 1e-6}
WINDOWS = {**GELU, "mlp_ratio": 4.0, "layer_norm_eps": 1e-5, "use_absolute_embeddings": False}
BIASES = {"hidden_act": "gelu", "use_relative_position_bias": True, "use_mean_pooling": True,
          "use_shared_relative_position_bias": False, "use_absolute_position_embeddings": False}
TURNED = {"layer_norm_eps": 1e-5, "rope_theta": 100.0, "num_register_tokens": 4, "key_bias": False,
          "proj_bias": True, "mlp_bias": True}
DINOV3 = ("DINOv3ViTModel", "DINOv3ViTModel")
CLIP = ("CLIPVisionModelWithProjection", "CLIPVisionModel")
SIGLIP = ("SiglipVisionModel", "SiglipVisionModel")


def names(start: str, end: str = "ForImageClassification") -> tuple[str, str]:
    """Their class with a head, and without."""
    return f"{start}{end}", f"{start}Model"


KINDS = (
    Kind("vit", "vit_tiny_patch16_224", "vit", VIT | EPS | RATIO, GELU, names("ViT")),
    Kind("deit", "deit_tiny_distilled_patch16_224", "deit_distilled", VIT | EPS, GELU,
         names("DeiT", "ForImageClassificationWithTeacher")),
    Kind("vit_mae", "vit_base_patch16_224.mae", "mae", VIT | EPS | RATIO, GELU,
         ("", "ViTMAEModel")),
    *(Kind(f"dinov2{end}", f"vit_{row}_patch14_{reg}dinov2", family, VIT | more,
           {**PLAIN, "use_swiglu_ffn": row == "giant"}, names(f"Dinov2{start}"))
      for row, family in (("small", "dinov2"), ("giant", "dinov2_giant"))
      for end, reg, more, start in (("", "", {}, ""),
                                    ("_with_registers", "reg4_", REGISTERS, "WithRegisters"))),
    *(Kind("dinov3_vit", f"vit_small{plus}_patch16_dinov3{end}", f"dinov3{plus}{end}", VIT | more,
           {**TURNED, **needs, "query_bias": bool(end), "value_bias": bool(end)}, DINOV3)
      for plus, more, needs in (
          ("", {}, {"use_gated_mlp": False, "hidden_act": "gelu"}),
          ("_plus", HIDDEN, {"use_gated_mlp": True, "hidden_act": "silu"}))
      for end in ("_qkvb", "")),
    Kind("beit", "beit_base_patch16_224", "beit", VIT | EPS, BIASES, names("Beit")),
    Kind("siglip_vision_model", "vit_base_patch16_siglip_224", "siglip",
         {**VIT, **HIDDEN, "activation": "hidden_act"}, {"layer_norm_eps": 1e-6}, SIGLIP),
    *(Kind("clip_vision_model", f"vit_base_patch32_{name}_224", name, VIT | HIDDEN,
           {"layer_norm_eps": 1e-5, "hidden_act": act}, CLIP)
      for name, act in (("clip_quickgelu", "quick_gelu"), ("clip", "gelu"))),
    Kind("swin", "swin_tiny_patch4_window7_224", "swin", SWIN, WINDOWS, names("Swin")),
    Kind("swinv2", "swinv2_tiny_window8_256", "swinv2",
         {**SWIN, "trained": "pretrained_window_sizes"}, WINDOWS, names("Swinv2")),
)
# Pictures and texts together: the type of their picture tower, and what it is unless it says so.
TOWER = dict(num_hidden_layers=12, num_attention_heads=12, num_channels=3, image_size=224,
             hidden_size=768, intermediate_size=3072)
TOWERS: dict[str, dict[str, Any]] = {
    "siglip": {**TOWER, "model_type": "siglip_vision_model", "patch_size": 16,
               "hidden_act": "gelu_pytorch_tanh"},
    "clip": {**TOWER, "model_type": "clip_vision_model", "patch_size": 32,
             "hidden_act": "quick_gelu"},
}
LISTS = ("size", "patch", "window", "depths", "heads", "trained")  # may have several numbers
ACTIVATIONS = {"gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "quick_gelu": "quick_gelu"}
# fmt: on


def columns(config: Mapping[str, Any], place: Path) -> tuple[str, dict[str, Any]]:
    """-> (a name of the family, {column: value}). UserError for what is not known."""
    if config["model_type"] in TOWERS:
        tower = config.get("vision_config") or {}
        config = {**TOWERS[config["model_type"]], **(tower if isinstance(tower, Mapping) else {})}
    type_ = config["model_type"]
    known = [kind for kind in KINDS if kind.type == type_]
    if not known:
        types = ", ".join(dict.fromkeys([*(kind.type for kind in KINDS), *TOWERS]))
        got = f"that of {place} is of {cut(repr(type_))}"
        raise UserError(f"load takes config.json of {types}; {got}")
    wrong = [[k for k, v in kind.needs.items() if config.get(k, v) != v] for kind in known]
    other = min(wrong, key=len)
    kind = known[wrong.index(other)]
    if other:
        has = some(f"{k} {config[k]!r}" for k in other)
        raise UserError(f"load takes a usual {type_}; {place} has {has}")
    lacks = [key for key in kind.keys.values() if key not in config]
    if lacks:
        raise UserError(f"load takes a whole config.json; that of {place} lacks {some(lacks)}")
    found: dict[str, Any] = {column: config[key] for column, key in kind.keys.items()}
    found = {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}
    if "activation" in found:
        found["activation"] = ACTIVATIONS.get(found["activation"], found["activation"])
    odd = [f"{kind.keys[k]} {v!r}" for k, v in found.items()
           if not (v in ACTIVATIONS.values() if k == "activation"
                   else isinstance(v, (int, float, *([tuple] if k in LISTS else []))))]  # fmt: skip
    if odd:
        raise UserError(f"load takes a config.json of numbers; {place} has {some(odd)}")
    hidden = config.get("intermediate_size", 4 * found["dim"])
    if "ratio" in found:
        found["ratio"] = hidden / found["dim"]
    elif not {"hidden", "depths"} & found.keys() and hidden != 4 * found["dim"]:
        got = f"MLPs of {hidden} for a width of {found['dim']}"
        raise UserError(f"load takes a usual {type_}; {place} has {got}")
    if kind.family == "dinov2_giant":  # two thirds, in steps of 8
        found["hidden"] = (found["dim"] * 4 * 2 // 3 + 7) // 8 * 8
    if "trained" in found:
        found |= trained(found, place)
    return kind.name, found


def trained(found: Mapping[str, Any], place: Path) -> dict[str, Any]:
    """The windows of an earlier training by stage -> the window, and the size of its pictures."""
    windows, count = found["trained"], len(found["depths"])
    windows = windows[:count] if isinstance(windows, tuple) else (windows,) * count
    if not any(windows):
        return {"trained": None}
    last = 2 ** (len(windows) - 1)  # how much coarser the last stage's grid is
    sides = [max(windows[-1] * last // 2**stage, windows[-1]) for stage in range(len(windows))]
    if windows != tuple(min(windows[0], side) for side in sides):
        raise UserError(f"load takes windows that a picture cuts; {place} has {cut(windows)}")
    return {"trained": windows[0], "trained_size": windows[-1] * last * found["patch"]}


def kind_of(model: Any) -> Kind:
    """What a model is given back as. OptionError where there is nothing."""
    family, registers = model.record.family, getattr(model.adapter.config, "registers", 0)
    kinds = [kind for kind in KINDS if kind.family == family]
    if not kinds:
        takes = ", ".join(dict.fromkeys(kind.family for kind in KINDS))
        todo = "state_for('hf') gives the tensors alone"
        wants = f"save in transformers' layout takes {takes}"
        raise OptionError(f"{wants}; got {family}: {todo}", "layout")
    return next((k for k in kinds if bool(registers) == ("registers" in k.keys)), kinds[0])


def values_of(model: Any) -> dict[str, Any]:
    """Our columns of a model's configs."""
    adapter, stages = model.adapter.config, model.backbone.config.stages
    block = stages[0].block
    size, patch = pair(adapter.size), pair(adapter.patch)
    hidden, words = block.mlp.hidden or 4 * adapter.dim, {v: k for k, v in ACTIVATIONS.items()}
    own = {
        "dim": adapter.dim, "channels": adapter.channels, "eps": block.eps,
        "depth": stages[0].depth, "heads": block.attn.heads, "hidden": hidden, "ratio": hidden,
        "size": size[0] if size[0] == size[1] else size, "patch": patch[0],
        "registers": getattr(adapter, "registers", 0),
        "activation": words.get(block.mlp.activation),
    }  # fmt: skip
    if hasattr(adapter, "depths"):
        before = [getattr(stage.block.attn.position, "trained", None) for stage in stages]
        own |= {"depths": adapter.depths, "heads": adapter.heads, "window": adapter.window[0],
                "trained": [window[0] if window else 0 for window in before]}  # fmt: skip
    return own
