"""What a model is given back as: the weights, and the config of timm, transformers or OpenCLIP
beside them."""

import contextlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo import facts, hf, openclip
from zoo.checkpoint import WEIGHTS
from zoo.configs import find
from zoo.convert import ConversionError
from zoo.errors import OptionError
from zoo.families import Family
from zoo.matching import check_same, count_of
from zoo.shapes import pair

# Tensors, JSON files by name, and the name of the file of the tensors.
Given = tuple[dict[str, Tensor], dict[str, dict[str, Any]], str]

ARGS = {
    "patch_size": "patch",
    "window_size": "window",
    "embed_dim": "dim",
    "depth": "depth",
    "depths": "depths",
    "num_heads": "heads",
}  # timm's words of model_args, and our columns
POOLS = {"token": "class", "avg": "mean", "map": "attention"}  # timm's words, and ours
# Where timm's builder puts the last norm: as it is told (`fc_norm`), or behind a mean and before
# any other pool; of other families it stays where it is.
TOLD = {"vit", "vit_gap", "deit", "deit3", "mae", "dinov2", "dinov2_giant",
        "siglip", "siglip_gap", "clip", "clip_quickgelu"}  # fmt: skip
BY_POOL = {"eva", "eva02", "eva02_larger", "beit", "beitv2"}
# timm's keys of the last Linear, else "head", and of the first, else "patch_embed.proj".
CLASSIFIERS, STEMS = {"swin": "head.fc", "swinv2": "head.fc"}, {"naflex": "embeds.proj"}
MASKED = {"dinov2": 1, "dinov2_with_registers": 1, "dinov3_vit": 2}  # axes before the width
# By model_type and layout: transformers' class, and what it is the picture tower of.
TOPS = {
    ("deit", "hf_single"): ("DeiTForImageClassification", ""),
    ("siglip_vision_model", "hf_classes"): ("SiglipForImageClassification", "siglip"),
    ("clip_vision_model", "hf_classes"): ("CLIPForImageClassification", "clip"),
}


def timm_files(model: Any) -> Given:
    """What `timm.create_model("local-dir:FOLDER", pretrained=True)` reads beside the weights."""
    config, own, family = described(model, "timm")
    record, sized = model.record, config["model_args"]
    if record.family in STEMS:  # there a table is of another size than pictures, unless it is unset
        sized["pos_embed_grid_size"] = None
    words, pooled = timm_pool(model, family)
    sized |= words
    check_same(model, record.name, {**family.facts.get("timm", {}), **own, **pooled}, "timm")
    state = model.state_for("timm")
    if model.head is not None and not getattr(model.head.config, "bias", True):
        classifier = config["pretrained_cfg"]["classifier"]
        for key in [f"{classifier}.weight", "head_dist.weight"]:  # theirs have a bias
            if key in state:
                state[key.replace("weight", "bias")] = state[key].new_zeros(len(state[key]))
    return state, {"config.json": config}, WEIGHTS


def described(model: Any, library: str) -> tuple[dict[str, Any], dict[str, Any], Family]:
    """-> (a config.json as timm writes it: its name, how pictures are read, labels, and what its
    name does not say; the same of that in our columns; its family)."""
    record, adapter = model.record, model.adapter.config
    if record.name is None:
        wants = f"save in the layout of {library} takes a model with a name"
        raise OptionError(f"{wants}; this has none", "layout")
    classes, prepare = count_of(model) or 0, record.preprocess
    told: dict[str, Any] = {
        "num_classes": classes,
        "input_size": [adapter.channels, *(prepare.size if prepare else pair(adapter.size))],
        "first_conv": STEMS.get(record.family, "patch_embed.proj"),
        "classifier": CLASSIFIERS.get(record.family, "head"),
    }
    if prepare is not None:
        told |= facts.timm_facts(prepare)
    if record.labels is not None:
        told["label_names"] = list(record.labels)
    name, _, tag = record.name.partition(".")
    family, known = find(record.name)
    sized: dict[str, Any] = {"img_size": list(pair(adapter.size)), "in_chans": adapter.channels}
    own: dict[str, Any] = {"size": square(adapter.size), "channels": adapter.channels}
    takes = inspect.signature(family.build).parameters
    has = columns_of(model)
    for word, column in ARGS.items():
        value = has.get(column)
        if column in takes and value is not None and value != known.get(column, value):
            sized[word] = own[column] = value
    config = {"architecture": name, "num_classes": classes, "num_features": model.backbone.dim,
              "pretrained_cfg": {**told, "tag": tag}, "model_args": sized}  # fmt: skip
    return config, own, family


def timm_pool(model: Any, family: Family) -> tuple[dict[str, Any], dict[str, Any]]:
    """timm's words for how a model's tokens become one answer, and ours for what it then builds; of
    a model without a head, those that leave it the last norm. Nothing for a pool without a word."""
    head: Any = getattr(model.head, "config", None)
    first = getattr(model.adapter.config, "class_token", False)
    pool = ("class" if first else "mean") if head is None else getattr(head, "pool", None)
    word = next((word for word, ours in POOLS.items() if ours == pool), None)
    own = getattr(head, "bias", None)
    bias = {} if own is None else {"head.bias": own}
    if word is None or family.name == "deit_distilled":  # which always reads both tokens there
        return {}, bias
    words, ours = {"global_pool": word}, {pool_key(family): pool}
    behind = head is not None and getattr(head, "norm", "none") == "layer"
    if family.name in TOLD:
        words |= {"fc_norm": behind}
    elif family.name in BY_POOL:
        behind = word == "avg" and head is not None
    elif head is not None:
        behind = None
    if behind is not None:
        ours |= norms(behind, model.backbone.config.eps)
    return words, ours | bias


def pool_key(family: Family) -> str:
    """Our option of how a family pools."""
    return "pool" if "pool" in inspect.signature(family.build).parameters else "head.pool"


def norms(behind: bool, eps: float) -> dict[str, Any]:
    """Our options where the last norm is behind the pool, or before it."""
    there = {"head.norm": "layer", "head.eps": eps, "backbone.norm": "none"}
    return there if behind else {"head.norm": "none", "backbone.norm": "layer"}


def columns_of(model: Any) -> dict[str, Any]:
    """What timm has words for, of a model, by our columns."""
    adapter = model.adapter.config
    sides = {"patch": adapter.patch, "window": getattr(adapter, "window", None)}
    return hf.values_of(model) | {column: square(value) for column, value in sides.items()}


def square(sides: Any) -> Any:
    """Equal sides as one number, as families take them."""
    same = isinstance(sides, tuple) and len({*sides}) == 1
    return sides[0] if same else sides


def hf_files(model: Any, wanted: str = "hf") -> Given:
    """What `transformers.AutoModel...from_pretrained(FOLDER)` reads."""
    kind = hf.kind_of(model)
    layout = layout_for(model, kind, wanted)
    state, values, plain = model.state_for(layout), hf.values_of(model), layout.removesuffix("_v4")
    config: dict[str, Any] = {"model_type": kind.type, **kind.needs}
    config |= {key: values[column] for column, key in kind.keys.items()}
    if "mlp_ratio" not in kind.needs:
        config["intermediate_size"] = values["hidden"]
    if kind.type in MASKED:  # it stands for covered patches in pretraining, and starts as zeros
        inner = {"hf_classes": "dinov2.", "hf_reg_classes": "dinov2_with_registers."}
        embed, axes = f"{inner.get(plain, '')}embeddings", MASKED[kind.type]
        state.setdefault(f"{embed}.mask_token", torch.zeros(*[1] * axes, values["dim"]))
        places = state.get(f"{embed}.position_embeddings")
        if places is not None and not model.adapter.config.position_prefix:
            none = places.new_zeros(1, 1, values["dim"])  # the class token's is part of the token
            state[f"{embed}.position_embeddings"] = torch.cat((none, places), 1)
    family, _ = find(kind.name)
    _, own = hf.columns(config | {"architectures": []}, Path("it"))
    moot = frozenset({"position_prefix"} if kind.type in MASKED else ())  # a row of zeros is added
    check_same(model, kind.name, {**family.facts.get(layout, {}), **own}, "transformers", moot)
    count = count_of(model)
    top, whole = TOPS.get((kind.type, plain), (kind.classes[count is None], ""))
    labelled: dict[str, Any] = {"architectures": [top]}
    if count is not None:
        labels = model.record.labels or [f"LABEL_{i}" for i in range(count)]
        labelled |= {"id2label": {str(i): label for i, label in enumerate(labels)},
                     "label2id": {label: i for i, label in enumerate(labels)}}  # fmt: skip
        config["projection_dim"] = count
    config = {"model_type": whole, "vision_config": config} if whole else config
    files = {"config.json": config | labelled}
    prepare = model.record.preprocess
    if prepare is not None and (told := facts.processor(prepare)) is not None:
        files[facts.PROCESSOR] = told
    return state, files, WEIGHTS


def layout_for(model: Any, kind: hf.Kind, wanted: str) -> str:
    """The first of transformers' layouts that has a place for all of a model and whose class has
    such a head; those that the model carries tensors of come first. What it carries of a text tower
    or a decoder is left out. OptionError where there is none."""
    (family, known), carried = find(kind.name), model.record.carried
    more = {"classes": 1} if "classes" in inspect.signature(family.build).parameters else {}
    usual = family.build(**{**known, **more})[2]
    pools: set[str] = set()
    every = [name for name in family.rules if name.startswith("hf") and "whole" not in name]
    for layout in sorted(every, key=lambda name: (name not in carried, name != wanted)):
        told = family.facts.get(layout, {})
        if (head := model.head) is not None:
            pool = told.get("pool", told.get("head.pool", usual.pool))
            pools.add(repr(pool))
            two = told.get("head.distilled", usual.distilled)
            own = head.config
            if (getattr(own, "pool", None), getattr(own, "distilled", None)) != (pool, two):
                continue
        with contextlib.suppress(ConversionError):
            model.state_for(layout)
            return layout
    wants = f"save in transformers' layout takes a {family.name} with a head that its class has"
    has = (
        "" if model.head is None else f": its pool is {getattr(model.head.config, 'pool', None)!r}"
    )
    takes = f", theirs {' or '.join(sorted(pools))}" if pools else ""
    raise OptionError(f"{wants}; this model's is none of those{has}{takes}", "layout")


def torchvision_files(model: Any) -> Given:
    """What torchvision's `load_state_dict` takes, and beside it what `zoo.load` reads of it."""
    config, own, family = described(model, "torchvision")
    state = model.state_for("torchvision")
    if count_of(model) is None:
        wants = "save in the layout of torchvision takes a model with a last Linear, for classes"
        raise OptionError(f"{wants}; this has none: save it in ours", "layout")
    own |= {"channels": 3, **family.facts["torchvision"]}  # theirs have no others
    if not hasattr(model.adapter.config, "window") and isinstance(own["size"], tuple):
        del own["size"]  # theirs with a table of positions are square
    check_same(model, model.record.name, own, "torchvision")
    return state, {"config.json": config}, "model.pth"


def openclip_files(model: Any) -> Given:
    """What `open_clip.create_model("local-dir:FOLDER")` reads; of a model that carries no text
    tower, which theirs has, what its `visual` takes."""
    kind, has, count = hf.kind_of(model), hf.values_of(model), count_of(model)
    if count is None:
        wants = "save in the layout of OpenCLIP takes a model with a projection, its last Linear"
        raise OptionError(f"{wants}; this has none: save it in ours", "layout")
    told = {k: has[k] for k in ("dim", "depth", "heads", "hidden", "size", "patch")}
    check_same(model, kind.name, told, "OpenCLIP")
    inner = "text." if "openclip" in model.record.carried else ""  # where the text tower stands
    state = model.state_for("openclip" if inner else "openai")
    config: dict[str, Any] = {
        "embed_dim": count, "quick_gelu": has["activation"] == "quick_gelu",
        "custom_text": bool(inner), "vision_cfg": {
            "image_size": has["size"], "patch_size": has["patch"], "layers": has["depth"],
            "width": has["dim"], "head_width": has["dim"] // has["heads"],
            "mlp_ratio": has["hidden"] / has["dim"]}}  # fmt: skip
    words = state.get(f"{inner}token_embedding.weight")
    places = state.get(f"{inner}positional_embedding")
    if words is not None and places is not None:
        config["text_cfg"] = {
            "context_length": len(places), "vocab_size": len(words), "width": words.shape[1],
            "heads": max(words.shape[1] // 64, 1),  # as OpenAI and they build them
            "layers": sum(k.startswith(f"{inner}tr") and k.endswith("ln_1.weight") for k in state),
        }  # fmt: skip
    if "logit_bias" in state:
        config["init_logit_bias"] = 0.0  # that there is one; the weights say which
    prepare = model.record.preprocess
    files = {"model_cfg": config, "preprocess_cfg": openclip.pictures(prepare)}
    if prepare is not None and not files["preprocess_cfg"]:
        facts.unsaid(prepare, openclip.OPENCLIP_CONFIG)
    return state, {openclip.OPENCLIP_CONFIG: files}, "open_clip_model.safetensors"


WRITERS: Mapping[str, Callable[[Any], Given]] = {
    "timm": timm_files,
    "hf": hf_files,
    "hf_v4": partial(hf_files, wanted="hf_v4"),
    "torchvision": torchvision_files,
    "openclip": openclip_files,
}
