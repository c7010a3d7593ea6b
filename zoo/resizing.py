"""A model with its weights, for other classes, other pictures, or with other options."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from torch import Tensor

from zoo.configs import count_and_labels, set_option
from zoo.convert import ConversionError, Parts
from zoo.errors import require
from zoo.heads import Classify
from zoo.model import Model
from zoo.nn import GridTable, Part
from zoo.nn.config import hints_of, put, read_option
from zoo.ops import resize_bias, resize_channels, resize_kernel, resize_offsets, resize_table
from zoo.registry import build_part, build_parts
from zoo.shapes import pair

LINEARS = ("head.out.", "head.second.")  # what other classes renew; what else fits stays
MADE = ("dim", "depth", "depths", "heads")  # what weights are made for
# what may be other than the weights' own
SIZED = ("size", "patch", "channels", "window", "pad", "moves", "cut")


def changed(model: Model, classes: Any, options: Mapping[str, Any]) -> Model:
    """A loaded model for other classes and sizes, with other options that have no weights, and with
    another head where `head` is one of them: a part as it is, or None."""
    if "head" in options:
        model = headed(model, options["head"], classes)
        options = {key: value for key, value in options.items() if key != "head"}
        if not options:
            return model
    if classes is not None and model.head is None:  # the usual one; `classes` makes it their own
        pool = "class" if getattr(model.adapter, "has_class", False) else "mean"
        model = headed(model, Classify(dim=model.backbone.dim, classes=1, pool=pool), None)
    record, report = model.record, model.record.report
    parts = {"adapter": model.adapter, "backbone": model.backbone, "head": model.head}
    configs: dict[str, Any] = {n: part and part.config for n, part in parts.items()}
    labels = record.labels
    if classes is not None:
        count, labels = count_and_labels(classes, "load")
        configs["head"] = replace(configs["head"], classes=count)
    put_options(configs, options)
    follow(configs, model.adapter.config)
    if options:
        target = Model(**build_parts(configs))
    else:  # the same parts, with another head
        target = Model(model.adapter, model.backbone, build_part(configs["head"]))
    target = target.to(next(model.parameters()).dtype)
    resized, renewed = transfer(model, target, classes is not None)
    prepare = record.preprocess and prepared(record.preprocess, configs["adapter"], options)
    dropped = [k for k in model.state_dict() if k in renewed or k not in target.state_dict()]
    told = {"resized": resized, "renewed": (*report.renewed, *renewed)}
    report = replace(report, **told, loaded=report.loaded - len(dropped))
    scale = None if classes is not None else record.scale
    target.record = replace(record, labels=labels, preprocess=prepare, scale=scale, report=report)
    return target


def put_options(configs: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Put each option into the config that has it, the sizes of pictures into the adapter's."""
    sized = [key for key in SIZED if key in vars(configs["adapter"])]
    for key, value in options.items():
        wants = f"load takes {key} from the weights; got {value!r}: drop it"
        require(key.rpartition(".")[2] not in MADE, wants, key)
        if key in sized:
            own = getattr(configs["adapter"], key)
            if isinstance(own, tuple) and isinstance(value, int):
                value = (value,) * len(own)
            value = read_option("load", key, hints_of(type(configs["adapter"]))[key], value)
            configs["adapter"] = put(configs["adapter"], key, value)
        else:
            set_option(configs, key, value, sized, "load")


def follow(configs: dict[str, Any], before: Any) -> None:
    """What the backbone has of an adapter that was as `before`: windows, and the native grid."""
    adapter = configs["adapter"]
    stages_of = getattr(Part.of_config[type(adapter)], "stages_of", None)
    if stages_of is not None:
        stages = merged(configs["backbone"].stages, stages_of(before), stages_of(adapter))
        configs["backbone"] = replace(configs["backbone"], stages=stages)
    kind = configs["backbone"].stages[0].block.attn.position
    if isinstance(kind, GridTable):
        here = replace(kind, grid=Parts(adapter).grid)
        set_option(configs, "block.attn.position", here, (), "load")


def headed(model: Model, head: Any, classes: Any) -> Model:
    """The same body with a head as it is given, or with none."""
    wants = "load takes a head as a part that is built, such as zoo.heads.Classify(...), or None"
    require(head is None or isinstance(head, Part), f"{wants}; got {head!r}", "head")
    wants = "load takes classes= or another head=, whose config has them; got both"
    require(classes is None, wants, "classes")
    target, record = Model(model.adapter, model.backbone, head), model.record
    keys = [key for key in target.state_dict() if key.startswith("head.")]
    loaded = record.report.loaded - sum(key.startswith("head.") for key in model.state_dict())
    report = replace(record.report, loaded=loaded, renewed=tuple(keys))
    target.record = replace(record, labels=None, scale=None, report=report)
    return target


def merged(own: Any, before: Any, after: Any) -> Any:
    """A value with what is another in `after` than in `before`, and with all else of its own;
    configs field by field, sequences one by one."""
    if before == after:
        return own
    if own == before:
        return after
    if isinstance(own, tuple) and len(own) == len(before) == len(after):
        return tuple(merged(*three) for three in zip(own, before, after, strict=True))
    if is_dataclass(own) and type(own) is type(before) is type(after):
        names = [field.name for field in fields(own)]
        three = ((getattr(x, name) for x in (own, before, after)) for name in names)
        changed = {name: merged(*each) for name, each in zip(names, three, strict=True)}
        return replace(own, **changed)  # type: ignore[type-var]  # not the class itself
    return after


def prepared(prepare: Any, adapter: Any, options: Mapping[str, Any]) -> Any:
    """The way to read pictures, for an adapter of another size or other channels."""
    given = {key.removeprefix("adapter.") for key in options}
    if "size" in given:
        prepare = replace(prepare, size=pair(adapter.size))
    if "channels" in given and adapter.channels != prepare.channels:
        grey = {key: (sum(v) / len(v),) for key in ("mean", "std") if (v := getattr(prepare, key))}
        prepare = replace(prepare, channels=adapter.channels, **grey)
    return prepare


def transfer(source: Model, target: Model, renew: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Copy all weights, made for the target's size. -> the keys that were resized, those that are
    new: with `renew` the last Linear of the head, and what else of the head has another shape or
    was not there. ConversionError lists those that fit nothing."""
    state, resized, renewed, wrong = source.state_dict(), [], [], []
    made: dict[str, Tensor] = {}
    for key, own in target.state_dict().items():
        given = state.get(key)
        fits = given is not None and given.shape == own.shape
        if renew and key.startswith("head.") and (key.startswith(LINEARS) or not fits):
            made[key] = own
            renewed.append(key)
            continue
        if given is None:
            wrong.append(f"{key}: there are no weights for it")
            continue
        made[key] = fitted(key, given, source, target)
        if made[key] is not given:
            resized.append(key)
        if made[key].shape != own.shape:
            wrong.append(f"{key}: {tuple(given.shape)}, the model's is {tuple(own.shape)}")
    wrong += [f"{key}: the model has no place for it" for key in state
              if key not in made and not (renew and key.startswith("head."))]  # fmt: skip
    if wrong:
        head = all(line.startswith("head.") for line in wrong)
        todo = "give classes= too, which makes what does not fit of the head anew" if head else ""
        raise ConversionError("load takes options that keep the weights", wrong, todo)
    shapes_alone = next(target.parameters()).is_meta  # nothing can be copied there
    target.load_state_dict(made, assign=shapes_alone)
    return tuple(resized), tuple(renewed)


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
        if hasattr(there.kind, "grid"):
            return resize_offsets(tensor, there.kind.grid, here.kind.grid)
    return tensor
