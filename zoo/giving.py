"""What a model is given back as: the weights, and the config.json of timm or transformers beside
them."""

import contextlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from zoo import facts, hf
from zoo.convert import ConversionError
from zoo.errors import OptionError
from zoo.extend import families
from zoo.shapes import pair

Given = tuple[dict[str, Tensor], dict[str, dict[str, Any]]]  # tensors, and JSON files by name

CLASSIFIERS = {"swin": "head.fc", "swinv2": "head.fc"}  # timm's key of the last Linear, else "head"
MASKED = {"dinov2": 1, "dinov2_with_registers": 1, "dinov3_vit": 2}  # axes before the width
# By model_type and layout: transformers' class, and what it is the picture tower of.
TOPS = {
    ("deit", "hf_single"): ("DeiTForImageClassification", ""),
    ("siglip_vision_model", "hf_classes"): ("SiglipForImageClassification", "siglip"),
    ("clip_vision_model", "hf_classes"): ("CLIPForImageClassification", "clip"),
}


def timm_files(model: Any) -> Given:
    """What `timm.create_model("local-dir:FOLDER", pretrained=True)` reads beside the weights."""
    record, adapter = model.record, model.adapter.config
    if record.name is None:
        wants = "save in timm's layout takes a model with a name"
        raise OptionError(f"{wants}; this has none", "layout")
    classes = count_of(model) or 0
    told: dict[str, Any] = {
        "num_classes": classes,
        "input_size": [adapter.channels, *pair(adapter.size)],
        "first_conv": "patch_embed.proj",
        "classifier": CLASSIFIERS.get(record.family, "head"),
    }
    if record.preprocess is not None:
        told |= facts.timm_facts(record.preprocess)
    if record.labels is not None:
        told["label_names"] = list(record.labels)
    name, _, tag = record.name.partition(".")
    sized = {"img_size": list(pair(adapter.size)), "in_chans": adapter.channels}
    config = {"architecture": name, "num_classes": classes, "num_features": model.backbone.dim,
              "pretrained_cfg": {**told, "tag": tag}, "model_args": sized}  # fmt: skip
    return model.state_for("timm"), {"config.json": config}


def count_of(model: Any) -> int | None:
    """How many classes a model's head has; None where there is no Linear for them."""
    return getattr(getattr(model.head, "config", None), "classes", None)


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
    return state, files


def layout_for(model: Any, kind: hf.Kind, wanted: str) -> str:
    """The first of transformers' layouts that has a place for all of a model and whose class has
    such a head; those that the model carries tensors of come first. What it carries of a text tower
    or a decoder is left out. OptionError where there is none."""
    family = next(family for family in families() if family.name == kind.family)
    takes, known = inspect.signature(family.build).parameters, family.parse(kind.name)
    classes = {"classes": 1} if "classes" in takes else {}
    usual, carried = family.build(**{**(known or {}), **classes})[2], model.record.carried
    every = [name for name in family.rules if name.startswith("hf") and "whole" not in name]
    for layout in sorted(every, key=lambda name: (name not in carried, name != wanted)):
        told = family.facts.get(layout, {})
        if (head := model.head) is not None:
            pool = told.get("pool", told.get("head.pool", usual.pool))
            two = told.get("head.distilled", usual.distilled)
            own = head.config
            if (getattr(own, "pool", None), getattr(own, "distilled", None)) != (pool, two):
                continue
        with contextlib.suppress(ConversionError):
            model.state_for(layout)
            return layout
    wants = f"save in transformers' layout takes a {family.name} with a head that its class has"
    raise OptionError(f"{wants}; this model's is none of those", "layout")


def torchvision_files(model: Any) -> Given:
    """A state dict alone."""
    return model.state_for("torchvision"), {}


WRITERS: Mapping[str, Callable[[Any], Given]] = {
    "timm": timm_files,
    "hf": hf_files,
    "hf_v4": partial(hf_files, wanted="hf_v4"),
    "torchvision": torchvision_files,
}
