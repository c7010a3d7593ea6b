"""What stands beside the weights when a model is given back: the config.json of timm and of
transformers."""

from collections.abc import Callable, Mapping
from typing import Any

from zoo import hf
from zoo.errors import OptionError
from zoo.shapes import pair

CLASSIFIERS = {"swin": "head.fc", "swinv2": "head.fc"}  # timm's key of the last Linear, else "head"
# By model_type: transformers' class with a head, and without.
HF_CLASSES = {
    "vit": ("ViTForImageClassification", "ViTModel"),
    "deit": ("DeiTForImageClassificationWithTeacher", "DeiTModel"),
    "swin": ("SwinForImageClassification", "SwinModel"),
    "dinov2": ("Dinov2ForImageClassification", "Dinov2Model"),
    "dinov2_with_registers": (
        "Dinov2WithRegistersForImageClassification",
        "Dinov2WithRegistersModel",
    ),
}
RESAMPLE = {"nearest": 0, "bilinear": 2, "bicubic": 3}  # Pillow's numbers


def timm_files(model: Any) -> dict[str, dict[str, Any]]:
    """What `timm.create_model("local-dir:FOLDER", pretrained=True)` reads beside the weights."""
    record, adapter = model.record, model.adapter.config
    if record.name is None:
        wants = "save in timm's layout takes a model with a name"
        raise OptionError(f"{wants}; this has none", "layout")
    classes = 0 if model.head is None else model.head.config.classes
    facts: dict[str, Any] = {
        "num_classes": classes,
        "input_size": [adapter.channels, *pair(adapter.size)],
        "first_conv": "patch_embed.proj",
        "classifier": CLASSIFIERS.get(record.family, "head"),
    }
    if record.preprocess is not None:
        p = record.preprocess
        facts |= {"interpolation": p.interpolation, "crop_pct": p.crop, "mean": list(p.mean),
                  "std": list(p.std)}  # fmt: skip
    if record.labels is not None:
        facts["label_names"] = list(record.labels)
    name, _, tag = record.name.partition(".")
    sized = {"img_size": list(pair(adapter.size)), "in_chans": adapter.channels}
    config = {"architecture": name, "num_classes": classes, "num_features": model.backbone.dim,
              "pretrained_cfg": {**facts, "tag": tag}, "model_args": sized}  # fmt: skip
    return {"config.json": config}


def hf_files(model: Any) -> dict[str, dict[str, Any]]:
    """What `transformers.AutoModel...from_pretrained(FOLDER)` reads beside the weights."""
    kind = hf.kind_of(model)
    _, keys, needs = hf.TYPES[kind]
    values = hf.values_of(model)
    config: dict[str, Any] = {"model_type": kind, **needs}
    config |= {key: values[column] for column, key in keys.items()}
    if kind in ("vit", "deit"):
        config["intermediate_size"] = values["hidden"]
    config["architectures"] = [HF_CLASSES[kind][model.head is None]]
    if model.head is not None:
        labels = model.record.labels or [f"LABEL_{i}" for i in range(model.head.config.classes)]
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
    files = {"config.json": config}
    if (p := model.record.preprocess) is not None:
        files["preprocessor_config.json"] = {
            "image_processor_type": "ViTImageProcessor", "do_resize": True, "do_rescale": True,
            "do_normalize": True, "rescale_factor": 1 / 255, "image_mean": list(p.mean),
            "image_std": list(p.std), "resample": RESAMPLE.get(p.interpolation, 3),
            "size": {"height": p.size[0], "width": p.size[1]},
        }  # fmt: skip
    return files


WRITERS: Mapping[str, Callable[[Any], dict[str, dict[str, Any]]]] = {
    "timm": timm_files,
    "hf": hf_files,
    "hf_v4": hf_files,
    "torchvision": lambda model: {},
}
