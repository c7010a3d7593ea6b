"""`load`: a model from a folder, a file or the Hub, in whoever's layout, whole or not at all.

What was done with each tensor is said in a report, and every tensor that does not fit is listed in
one error.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo import checkpoint, weights
from zoo.convert import ConversionError, detect
from zoo.errors import OptionError, UserError, require, suggest
from zoo.families import Family, hf
from zoo.model import Model, load_state, parts_of
from zoo.nn import Part
from zoo.nn.config import hints_of, put, read_option
from zoo.ops import resize_bias, resize_channels, resize_kernel, resize_table
from zoo.registry import build_part, build_parts, count_and_labels, create, find, from_saved
from zoo.shapes import pair

SIZED = ("size", "patch", "channels", "window")  # what may be another than that of the weights
log = logging.getLogger("zoo")


@dataclass(frozen=True)
class Report:
    """What became of the tensors."""

    source: str
    layout: str
    notes: tuple[str, ...]
    loaded: int
    resized: tuple[str, ...]
    """Keys of ours whose tensors were made for another size."""
    renewed: tuple[str, ...]
    """Keys of ours that are random, as asked for."""
    carried: int
    """Tensors that the model has no use for, kept to be given back."""

    def __str__(self) -> str:
        parts = [f"{self.loaded} tensors loaded from {self.source}", f"layout: {self.layout}"]
        parts += self.notes
        for what in ("resized", "renewed"):
            keys = getattr(self, what)
            parts += [f"{len(keys)} {what} ({', '.join(keys[:4])})"] if keys else []
        return "; ".join([*parts, *([f"{self.carried} carried"] if self.carried else [])])


def load(
    where: str | Path,
    classes: int | Sequence[str] | None = None,
    *,
    name: str | None = None,
    layout: str | None = None,
    **options: Any,
) -> Model:
    """A model with its weights, and with its labels and preprocessing where they are known.

    `where` is a folder that `model.save` or a run wrote, a folder or a file of weights in the
    layout of timm, transformers, torchvision or the authors (`.safetensors`, `.pth`, several files
    with an index), or a name of the Hub (`owner/model`, `owner/model@revision`). `name` says what a
    bare file is ("vit_base_patch16_224"), `layout` whose keys it has; else its folder's config.json
    and the keys themselves do. `classes` renews the head, with random weights, for other labels,
    and keeps all else; `size`, `patch`, `channels` and `window` fit tables and kernels to other
    pictures, any other option changes what has no weights (`drop_path=0.1`).
    `model.record.report` says what was done.

    UserError where a file is missing or broken, ConversionError with all tensors that do not fit.
    """
    place = Path(where).expanduser()
    if not place.exists() and isinstance(where, str) and where.count("/") == 1:
        place = weights.fetch(where)
    model = foreign(place, name, layout) if is_foreign(place) else saved(place)
    if classes is not None or options:
        model = changed(model, classes, options)
    log.info("%s", model.record.report)
    return model


def is_foreign(place: Path) -> bool:
    """Whether a file or folder is not `model.save`'s. A folder without a config.json that has
    weights of a usual name is another library's."""
    if place.is_file():
        return True
    config = place / checkpoint.CONFIG
    if not config.is_file():
        return any((place / name).is_file() for name in weights.FILES)
    return "zoo" not in read_config(config)


def read_config(path: Path) -> dict[str, Any]:
    """A config.json, {} where it is none: who reads it in earnest will say so."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {"zoo": None}
    return found if isinstance(found, dict) else {"zoo": None}


def saved(folder: Path) -> Model:
    """A model that `model.save` or a run wrote."""
    config, state = checkpoint.read_folder(folder)
    where = folder / checkpoint.CONFIG
    try:
        model = from_saved(config, state, where)
    except (TypeError, LookupError, AttributeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        wants = "load takes a folder as model.save wrote it"
        raise UserError(f"{wants}; {where} holds a value that fits nothing: {error}") from error
    report = Report(str(folder), "zoo", (), len(state), (), (), 0)
    model.record = replace(model.record, report=report)
    return model


def foreign(place: Path, name: str | None, layout: str | None) -> Model:
    """A model from another library's file or folder, at its own size, with its own head."""
    file = weights.find_weights(place)
    state, notes = weights.read_weights(file)
    check_numbers(state, file)
    config = read_config(file.parent / checkpoint.CONFIG) if place.is_dir() else {}
    build = builder(name, config, place)
    native, found = fitting(build, state, layout, place)
    load_state(native, state, found, assign=True)
    native = native.to(torch.get_default_dtype())
    carried = len(native.record.carried.get(found, {}))
    report = Report(str(place), found, tuple(notes), len(state) - carried, (), (), carried)
    labels = labels_in(config, native)
    native.record = replace(native.record, name=build.name, labels=labels, report=report)
    return native


def check_numbers(state: Mapping[str, Tensor], file: Path) -> None:
    """ConversionError that lists the tensors which hold NaN or infinity."""
    bad = [key for key, t in state.items() if t.is_floating_point() and not t.isfinite().all()]
    if bad:
        wants = f"load takes finite weights; in {file} {len(bad)} tensors are not"
        raise ConversionError(f"{wants}: {', '.join(bad)}")


def builder(name: str | None, config: Mapping[str, Any], place: Path) -> Any:
    """(layout's facts, classes, or None for no head) -> a model on the meta device, as a name or a
    config.json says."""
    given: dict[str, Any] = {}
    known = name or str(config.get("architecture", "")).partition(".")[0]
    if not known and "model_type" in config:
        known, given = hf.columns(config, place)
    if not known:
        raise OptionError(
            f"load takes the name of what a bare file holds; {place} does not say: give name=, "
            "such as vit_base_patch16_224 (zoo.list_models())",
            "name",
        )

    def build(facts: Mapping[str, Any], classes: int | None) -> Model:
        head = {"head": None} if classes is None else {"classes": classes}
        with torch.device("meta"):
            return create(known, **{**facts, **given, **head})

    build.family, _ = find(known)  # type: ignore[attr-defined]
    build.name = named(build.family, given) if given else known  # type: ignore[attr-defined]
    return build


def named(family: Family, columns: Mapping[str, Any]) -> str | None:
    """The listed name that stands for these columns, None where there is none."""
    for name in family.names:
        known = {k: v for k, v in (family.parse(name) or {}).items() if v is not None}
        if all(columns.get(k, v) == v for k, v in known.items()):
            return name
    return None


def fitting(
    build: Any, state: Mapping[str, Tensor], layout: str | None, place: Path
) -> tuple[Model, str]:
    """-> (the model whose keys are those of the state dict, the layout). ConversionError that lists
    what is missing and unknown in the nearest."""
    family, errors = build.family, []
    if layout is not None and layout not in family.rules:
        hint = suggest(layout, family.rules) or f"; there are {', '.join(family.rules)}"
        raise OptionError(f"load takes a layout of {family.name}; got {layout!r}{hint}", "layout")
    for one in [layout] if layout else family.rules:
        facts = family.facts.get(one, {})
        for classes in (1, None):
            model = build(facts, classes)
            try:
                detect({one: family.rules[one]}, state, model.state_dict(), parts_of(model))
            except ConversionError as error:
                errors.append(str(error))
                continue
            if classes is not None:
                model = build(facts, classes_in(model, state, one))
            return model, one
    nearest = min(errors, key=lambda text: text.count(";"))
    raise ConversionError(f"{place} is no {family.name} in a layout that is known: {nearest}")


def classes_in(model: Model, state: Mapping[str, Tensor], layout: str) -> int:
    """How many classes the head of a state dict has."""
    bias = "head.out.bias" if "head.out.bias" in model.state_dict() else "head.out.weight"
    for rule in model.rules_for(layout):
        names = rule.match(bias)
        if names:
            return sum(len(state[name]) for name in names)
    raise ConversionError(f"no rule of {layout} makes {bias}")


def labels_in(config: Mapping[str, Any], model: Model) -> tuple[str, ...] | None:
    """The names of the classes that a config.json has, one for each."""
    names, head = config.get("id2label"), model.head
    if head is None or not isinstance(names, Mapping):
        return None
    numbers = range(head.config.classes)  # type: ignore[union-attr]
    found = tuple(str(names.get(str(i), "")) for i in numbers)
    own = all(found) and len({*found}) == len(found) and found[0] != "LABEL_0"
    return found if own else None


def changed(model: Model, classes: Any, options: Mapping[str, Any]) -> Model:
    """A loaded model for other classes and sizes, with other options that have no weights."""
    from zoo.registry import set_option

    record, report = model.record, model.record.report
    parts = {"adapter": model.adapter, "backbone": model.backbone, "head": model.head}
    configs: dict[str, Any] = {n: part and part.config for n, part in parts.items()}
    labels = record.labels
    if classes is not None:
        wants = "load takes classes for a model with a head"
        require(model.head is not None, f"{wants}; {report.source} has none", "classes")
        count, labels = count_and_labels(classes)
        configs["head"] = replace(configs["head"], classes=count)
    for key, value in options.items():
        fields = vars(configs["adapter"])
        if key in SIZED and key in fields:
            own = fields[key]
            if isinstance(own, tuple) and isinstance(value, int):
                value = (value,) * len(own)
            value = read_option("load", key, hints_of(type(configs["adapter"]))[key], value)
            configs["adapter"] = put(configs["adapter"], key, value)
        else:
            set_option(configs, key, value, SIZED)
    stages = getattr(Part.of_config[type(configs["adapter"])], "stages_of", None)
    if stages is not None and configs["adapter"] != model.adapter.config:
        configs["backbone"] = replace(configs["backbone"], stages=stages(configs["adapter"]))
    target = Model(**build_parts(configs)).to(next(model.parameters()).dtype)
    if not options:  # the same parts, with another head
        target = Model(model.adapter, model.backbone, build_part(configs["head"]))
        target.head.to(next(model.parameters()).dtype)  # type: ignore[union-attr]
    fresh = ("head.",) if classes is not None else ()
    resized = transfer(model, target, fresh)
    prepare = record.preprocess and prepared(record.preprocess, configs["adapter"], options)
    renewed = tuple(k for k in target.state_dict() if k.startswith(fresh)) if fresh else ()
    report = replace(report, resized=resized, renewed=renewed, loaded=report.loaded - len(renewed))
    scale = None if classes is not None else record.scale
    target.record = replace(record, labels=labels, preprocess=prepare, scale=scale, report=report)
    return target


def prepared(prepare: Any, adapter: Any, options: Mapping[str, Any]) -> Any:
    """The way to read pictures, for an adapter of another size or other channels."""
    if "size" in options:
        prepare = replace(prepare, size=pair(adapter.size))
    if "channels" in options and adapter.channels in (1, 3):
        grey = {key: (sum(v) / len(v),) for key in ("mean", "std") if (v := getattr(prepare, key))}
        prepare = replace(prepare, channels=adapter.channels, **grey)
    return prepare


def transfer(source: Model, target: Model, fresh: tuple[str, ...]) -> tuple[str, ...]:
    """Copy all weights but those that begin as `fresh`, made for the target's size. -> the keys
    that were resized. ConversionError lists those that fit nothing."""
    state, resized, wrong = source.state_dict(), [], []
    made: dict[str, Tensor] = {}
    for key, own in target.state_dict().items():
        if fresh and key.startswith(fresh):
            made[key] = own
            continue
        given = state.get(key)
        if given is None:
            wrong.append(f"{key}: there are no weights for it")
            continue
        made[key] = fitted(key, given, source, target)
        if made[key] is not given:
            resized.append(key)
        if made[key].shape != own.shape:
            wrong.append(f"{key}: {tuple(given.shape)}, the model's is {tuple(own.shape)}")
    wrong += [f"{key}: the model has no place for it" for key in state.keys() - made.keys()
              if not (fresh and key.startswith(fresh))]  # fmt: skip
    if wrong:
        raise ConversionError(f"load takes options that keep the weights; {'; '.join(wrong)}")
    target.load_state_dict(made)
    return tuple(resized)


def fitted(key: str, tensor: Tensor, source: Any, target: Any) -> Tensor:
    """A tensor of the source as the target has it: the same where nothing is to be done."""
    if key == "adapter.position" and hasattr(target.adapter, "grid"):
        how = getattr(source.adapter.config, "resize", "antialias")
        return resize_table(tensor, source.adapter.grid, target.adapter.grid, how)
    if key == "adapter.stem.weight" and tensor.ndim == 4:
        size = tuple(target.adapter.stem.weight.shape[-2:])
        return resize_kernel(resize_channels(tensor, target.adapter.config.channels), size)
    if key.endswith("attn.position.table"):
        there, here = (m.get_submodule(key.removesuffix(".table")) for m in (source, target))
        if hasattr(there.kind, "window"):
            return resize_bias(tensor, there.kind.window, here.kind.window)
    return tensor
