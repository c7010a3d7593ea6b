"""How pictures are read is a fact of a checkpoint: from what timm and transformers write beside
weights, from timm's list of its own, and back."""

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.errors import OptionError, UserError, cut, some
from zoo.families.clip import PREPROCESS
from zoo.shapes import pair

log = logging.getLogger("zoo")
PROCESSOR, PROCESSORS = "preprocessor_config.json", "processor_config.json"
MODES = {"center": "crop", "squash": "squash", "border": "pad"}  # timm's words
FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # by Pillow's numbers
ASKED = ("mean", "std", "interpolation")  # what is guessed where nothing says it
SAID = {"mean": "mean", "std": "std", "interpolation": "interpolation", "crop_pct": "crop"}


def of_timm(config: Mapping[str, Any]) -> dict[str, Any]:
    """A pretrained_cfg of timm -> arguments of Preprocess, those that it says."""
    found = {ours: config[key] for key, ours in SAID.items() if config.get(key) is not None}
    sides = config.get("input_size")
    if sides is not None:
        found["size"] = tuple(sides[1:])
    found["mode"] = MODES.get(config.get("crop_mode") or "center", "crop")
    if found["mode"] == "pad" and len(found.get("mean", ())) == 3:  # it fills with the mean
        found["background"] = tuple(round(255 * v) for v in found["mean"])
    return {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}


# To what torchvision resizes the shorter side before it cuts, for its first weights of each model.
RESIZED = {
    "vit_base_patch16_224": 256, "vit_base_patch32_224": 256, "vit_large_patch16_224": 242,
    "vit_large_patch32_224": 256, "swin_tiny_patch4_window7_224": 232,
    "swin_small_patch4_window7_224": 246, "swin_base_patch4_window7_224": 238,
    "swinv2_tiny_window8_256": 260, "swinv2_small_window8_256": 260, "swinv2_base_window8_256": 272,
}  # fmt: skip


def of_torchvision(name: str, size: tuple[int, int]) -> dict[str, Any]:
    """A name of ours, (height, width) -> arguments of Preprocess, as the first weights that
    torchvision has of it for ImageNet-1k are read; those of other sizes are not cut."""
    told = {ours: tuple(IMAGENET[f"image_{ours}"]) for ours in ("mean", "std")}
    resized = RESIZED.get(name)
    how = "bilinear" if resized and name.startswith("vit") else "bicubic"
    crop = share(size[0], resized or size[0])
    return {**told, "mode": "crop", "interpolation": how, "crop": crop}


def known_to_timm(name: str) -> dict[str, Any]:
    """A name of timm with a tag, "vit_base_patch16_224.augreg_in1k" -> arguments of Preprocess.

    OptionError where timm has no such tag.
    """
    import timm  # which takes a second, and is asked for nothing else

    try:
        config = timm.get_pretrained_cfg(name)
    except RuntimeError:  # it knows the model, not the tag
        config = None
    if config is None:
        plain, _, tag = name.partition(".")
        tags = [n.partition(".")[2] for n in timm.list_pretrained(f"{plain}.*")]
        has = f"those of {plain} are {', '.join(tags)}" if tags else f"there are none of {plain}"
        raise OptionError(f"load takes the tags of timm; {tag!r} is none: {has}", "name")
    return of_timm(config.to_dict())


HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
OPENAI = {f"image_{key}": list(PREPROCESS[key]) for key in ("mean", "std")}
EDGE = {**OPENAI, "size": {"shortest_edge": 224}, "crop_size": 224, "resample": 3,
        "do_center_crop": True}  # fmt: skip
# What a processor of transformers does where its file says nothing, by its class.
PROCESSORS_OF: dict[str, Mapping[str, Any]] = {
    "ViT": {**HALF, "size": 224, "resample": 2},
    "DINOv3ViT": {**IMAGENET, "size": 224, "resample": 2},
    "Beit": {**HALF, "size": 224, "resample": 3, "crop_size": 224},
    "Siglip": {**HALF, "size": 224, "resample": 3},
    "DeiT": {**HALF, "size": 256, "resample": 3, "crop_size": 224, "do_center_crop": True},
    "CLIP": EDGE,
    "Bit": EDGE,  # DINOv2's
}
SIDES = ("height", "width")
SHORTEST = ("CLIP", "Bit", "Siglip")  # a size that is one number is the shorter side's


def of_transformers(folder: Path) -> dict[str, Any]:
    """A folder's preprocessor_config.json, or what processor_config.json says of pictures, and
    beyond it what its class does -> arguments of Preprocess; {} where there is no such file.

    UserError for a picture processor that does what Preprocess cannot.
    """
    given = read(folder / PROCESSOR) or read(folder / PROCESSORS).get("image_processor") or {}
    if not isinstance(given, Mapping) or not given:
        return {}
    named = str(given.get("image_processor_type") or given.get("feature_extractor_type") or "ViT")
    kind = re.sub("(ImageProcessor(Fast|Pil)?|FeatureExtractor)$", "", named)
    known = PROCESSORS_OF.get(kind, {})
    told = {**known, **{key: value for key, value in given.items() if value is not None}}
    lacks = [k for k in ("size", "resample", *HALF) if k not in told]
    size, cropped = told.get("size"), told.get("crop_size")
    if isinstance(size, int) and kind in SHORTEST:
        size = {"shortest_edge": size}
    named_by = {k for k, v in size.items() if v} if isinstance(size, Mapping) else {*SIDES}
    edge = named_by == {"shortest_edge"}
    resized = sides(size) or (0, 0)
    kept = (sides(cropped) or (0, 0)) if told.get("do_center_crop") else resized
    for wrong, what in (
        (lacks, f"whose file tells {', '.join(lacks)}, or of {', '.join(PROCESSORS_OF)}"),
        (told.get("do_resize") is False or told.get("do_pad"), "that resizes and does not pad"),
        (told.get("crop_pct") is not None, "without crop_pct"),
        (0 in (*resized, *kept) or not (edge or named_by == {*SIDES}),
         "of a size in pixels, of the shorter side or of both"),
        (edge and not told.get("do_center_crop"), "whose pictures are all of one size"),
        (edge and kept[0] != kept[1], "that cuts a square of the shorter side"),
        (any(k > r for k, r in zip(kept, resized, strict=True)), "that cuts no more than there is"),
        (kept[0] * resized[1] != kept[1] * resized[0], "that cuts the same share of both sides"),
    ):  # fmt: skip
        if wrong:
            got = f"that of {folder} is {cut(named)} and does otherwise"
            raise UserError(f"load takes a picture processor {what}; {got}: remove its file, and "
                            "pictures are read as the model's family reads them")  # fmt: skip
    found: dict[str, Any] = {"mean": told["image_mean"], "std": told["image_std"]}
    found = {k: v if isinstance(v, (list, tuple)) else (v,) for k, v in found.items()}
    if told.get("do_normalize") is False:
        found = {"mean": (0.0,), "std": (1.0,)}
    rescaled = told.get("do_rescale") is not False
    white = 255 * told.get("rescale_factor", 1 / 255) if rescaled else 255  # what white becomes
    if abs(white - 1) > 1e-6:
        found = {key: [v / white for v in values] for key, values in found.items()}
    if told["resample"] in range(len(FILTERS)):
        found["interpolation"] = FILTERS[told["resample"]]
    found |= {"mode": "crop_early" if edge else "squash", "size": kept}
    found["crop"] = share(kept[0], resized[0])
    return {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}


def read(file: Path, broken: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """A JSON object, {} where there is no file, or `broken` where it is none; without that,
    UserError."""
    reason = "it is none"
    try:
        found = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        found, reason = None, str(error)
    if isinstance(found, Mapping):
        return found
    if broken is None:
        takes = f"load takes a {file.name} that is a JSON object"
        raise UserError(f"{takes}; {file} is not: {reason}: mend it, or remove it")
    return broken


def sides(size: Any) -> tuple[int, int] | None:
    """transformers' ways to write a size -> (height, width)."""
    if isinstance(size, Mapping):
        edge = size.get("shortest_edge")
        size = (size.get("height", edge), size.get("width", edge))
    return None if size is None or None in pair(size) else pair(size)


def labels_in(
    config: Mapping[str, Any], count: int | None
) -> tuple[tuple[str, ...] | None, list[str]]:
    """The names of so many classes that a config.json has, one for each, or None; and a note where
    it has names that are none of that."""
    names = config.get("id2label") or (config.get("pretrained_cfg") or {}).get("label_names")
    if isinstance(names, list):
        names = {str(i): name for i, name in enumerate(names)}
    if not count or not isinstance(names, Mapping) or names.get("0") == "LABEL_0":
        return None, []
    found = tuple(str(names.get(str(i), "")) for i in range(count))
    twice = [name for name, times in Counter(found).items() if name and times > 1]
    none = [str(i) for i, name in enumerate(found) if not name]
    if not none and not twice:
        return found, []
    wrong = [f"classes {some(none)} have none"] if none else []
    wrong += [f"several are called {some(twice)}"] if twice else []
    return None, [f"names of classes are left out: {' and '.join(wrong)}"]


def share(kept: int, resized: int) -> float:
    """The crop that makes `int(kept / crop)` the size before the cut."""
    crop = min(kept / resized, 1.0)
    while int(kept / crop) < resized:
        crop = math.nextafter(crop, 0)
    return crop


def timm_facts(prepare: Any) -> dict[str, Any]:
    """A Preprocess -> the part of a pretrained_cfg."""
    words = {ours: theirs for theirs, ours in MODES.items()}
    mode = words[prepare.mode.removesuffix("_early")]
    return {"interpolation": prepare.interpolation, "crop_pct": prepare.crop, "crop_mode": mode,
            "mean": list(prepare.mean), "std": list(prepare.std)}  # fmt: skip


def unsaid(prepare: Any, file: str) -> None:
    """Say that another library's file cannot tell how pictures are read, and so does not."""
    way = f"{prepare.mode} {prepare.crop:.4g} to {' x '.join(map(str, prepare.size))}"
    lost = f"mean {prepare.mean}, std {prepare.std}, {prepare.interpolation}, {way}"
    log.warning("save leaves out how pictures are read, since no %s can say %s", file, lost)


def processor(prepare: Any) -> dict[str, Any] | None:
    """A Preprocess -> transformers' preprocessor_config.json; None where theirs cannot do so."""
    (height, width), crop = prepare.size, prepare.crop
    before = [int(side / crop) for side in prepare.size]
    size = {"height": before[0], "width": before[1]}
    if prepare.mode.startswith("crop") and height == width:
        size = {"shortest_edge": before[0]}
    elif prepare.mode != "squash":
        unsaid(prepare, PROCESSOR)
        return None
    return {
        "image_processor_type": "BitImageProcessor", "do_resize": True, "do_rescale": True,
        "do_normalize": True, "rescale_factor": 1 / 255, "image_mean": list(prepare.mean),
        "image_std": list(prepare.std), "resample": FILTERS.index(prepare.interpolation),
        "size": size, "do_center_crop": True, "crop_size": {"height": height, "width": width},
        "do_convert_rgb": prepare.channels == 3,  # to grey it converts nothing: give it such
    }  # fmt: skip
