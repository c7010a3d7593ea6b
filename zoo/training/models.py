"""The model section of a config -> a model to train."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from zoo.configs import SECTIONS, find
from zoo.errors import OptionError, one_of, suggest
from zoo.extend import fault_of, kinds, make
from zoo.inputs import (
    Prepare,
    PrepareBoxes,
    PrepareScene,
    PrepareSeries,
    PrepareSound,
    PrepareText,
    Preprocess,
)
from zoo.inputs.text import train_tokenizer
from zoo.loading import load
from zoo.model import Model, Record
from zoo.nn import Part
from zoo.nn.backbone import one_stage, option_paths
from zoo.registry import create
from zoo.shapes import pair
from zoo.training.bodies import (
    HEADS,
    TARGETS,
    answers,
    facts_of,
    fitted,
    for_scenes,
    names_of,
    put_head,
    sees_pictures,
    stages_fit,
    with_head,
)
from zoo.training.config import Config, flatten
from zoo.training.options import named, naming
from zoo.training.reading import renewed
from zoo.training.sections import AUDIO, DETECT, DISTILL, IMAGE, PRETRAIN, SEGMENT, SERIES, TEXT
from zoo.training.tune import tune

KINDS = {  # what the samples of a task are
    IMAGE: "picture",
    DISTILL: "picture",
    TEXT: "text",
    AUDIO: "sound",
    SERIES: "series",
    SEGMENT: "scene",
    DETECT: "boxes",
    PRETRAIN: "unlabelled",
}
ADAPTERS = {
    "picture": "Patches",
    "scene": "Patches",
    "boxes": "Patches",
    "unlabelled": "Patches",
    "text": "Subwords",
    "sound": "Frames",
    "series": "Frames",
}

EMPTY: Mapping[str, Any] = {}


def stand_in(kind: str) -> Callable[..., Prepare] | None:
    """What stands for the preprocessing that data would give, to show a model without data."""
    if kind == "scene":
        return lambda base: PrepareScene.of(base, (0, 1), None, None)
    if kind == "boxes":
        return lambda base: PrepareBoxes.of(base, None)
    if kind == "sound":
        return PrepareSound
    if kind == "series":
        return lambda: PrepareSeries(("value",), 96, (0.0,), (1.0,), "value", 24)
    return (lambda: PrepareText(train_tokenizer([], 300))) if kind == "text" else None


def build(
    config: Config,
    labels: Sequence[str],
    target: str = "label",
    prepare: Callable[..., Prepare] | None = None,
    scale: tuple[tuple[float, float], ...] | None = None,
) -> Model:
    """The config's model with a head for these labels, for samples of the recipe's task.

    `model.name` and options make a new one, `model.load` takes a saved one with a new head where
    the labels differ, `model.backbone`, `adapter` and `head` put parts together by their kinds.
    `prepare` makes what turns raw samples into the input of a new model; None takes it from the
    model itself, as pictures do. A loaded one reads as it was made to, see `zoo.training.reading`.
    `scale` is `Splits.scale`; a head that is kept keeps its own, that of a series apart.
    OptionError for what the model or a part does not have, and for a model that cannot be trained
    on such samples.
    """
    kind = KINDS[config.recipe.split("/")[0]]
    model = make_model(config.model, labels, target, kind, prepare)
    if "load" in config.model:
        own = renewed(model.record.preprocess, config, prepare)
        anew = {"scale": scale} if isinstance(own, PrepareSeries) else {}  # as its columns have
        model.record = replace(model.record, preprocess=own, **anew)
    if model.record.scale is None:
        model.record = replace(model.record, scale=scale)
    return model


@naming(flags="--model.")
def make_model(
    sections: Mapping[str, Any],
    labels: Sequence[str],
    target: str = "label",
    kind: str = "picture",
    prepare: Callable[..., Prepare] | None = None,
) -> Model:
    """The same from the model section alone, such as {"name": ..., "head": {"pool": "mean"}}."""
    tuning = {key: value for key, value in sections.items() if key in ("freeze", "lora")}
    sections = {key: value for key, value in sections.items() if key not in tuning}
    options = flatten(sections)
    for key, value in options.items():
        if key.rpartition(".")[2] == "classes":
            got = f"got model.{key} {value}"
            raise OptionError(f"a training takes its classes from the data; {got}: drop it", key)
    if "head" in options and not isinstance(options["head"], Mapping):
        got = "null" if options["head"] is None else repr(options["head"])
        raise OptionError(f"a training takes a model with a head; got model.head {got}", "head")
    if kind in HEADS:
        model = make_dense(sections, options, labels, kind)
        return tune(model if prepare is None else for_scenes(model, prepare), **tuning)
    if "name" in options:
        name = text(options, "name", "the name of a model (`zoo list models`)")
        if kind == "picture" and find(name)[0].preprocess is None:  # before its options
            raise wrong_kind(name, kind, "name")
        made = None
        if prepare is not None:
            family, columns = find(name)
            made = fitted(prepare, Part.of_config[type(family.build(**columns)[0])])
        wanted = {} if target == "label" else {"target": target}
        given = {} if made is None else made.adapter()
        model = create(name, classes=list(labels), **{**wanted, **given, **named(options)})
        if made is not None:
            model.record = replace(model.record, preprocess=made)
        key = "name"
    elif "load" in options:
        where = text(options, "load", "a model's folder or file, or a name of the Hub")
        model, key = load_for(where, labels, target, options), "load"
    else:
        model, key = assemble(sections, labels, target, kind, prepare), "head"
    if getattr(model.record.preprocess, "kind", None) != kind:
        raise wrong_kind(model.record.name or "this one", kind, key)
    has = getattr(model.head.config, "target", None)  # type: ignore[union-attr]  # it has a head
    if has != target:
        got = f"{type(model.head).__name__} with target {has}"
        wants = f"a training takes a head with the target of its data, {target}"
        raise OptionError(f"{wants}; got {got}", "head.target")
    return tune(model, **tuning)


def make_dense(
    sections: Mapping[str, Any], options: dict[str, Any], labels: Sequence[str], kind: str
) -> Model:
    """The same for pictures of which pixels or things are told, with the way to read them still its
    own.

    OptionError for a model of anything else than pictures.
    """
    target = TARGETS[kind]
    form = next((form for form in ("name", "load") if form in options), "adapter.kind")
    if form == "adapter.kind":
        model = assemble(sections, labels, target, kind, None)
    else:
        where = text(options, form, "a model")
        model = with_head(form, where, kind, labels, target, named(options))
    if not isinstance(model.record.preprocess, Preprocess):
        raise wrong_kind(model.record.name or "this one", "picture", form)
    return model


def text(options: dict[str, Any], key: str, wants: str) -> str:
    """Takes one option out; OptionError where it is no text."""
    value = options.pop(key)
    if not isinstance(value, str):
        raise OptionError(f"model.{key} takes {wants}; got {value!r}", key)
    return value


def load_for(
    where: str, labels: Sequence[str], target: str = "label", options: Mapping[str, Any] = EMPTY
) -> Model:
    """A model of ours or of another library, changed by `options`, with a new head unless it has
    these labels and `options` ask for no other head; a body, or another kind, gets one. What fits
    of a head of the same kind stays, its last Linear apart."""
    mine = {key: value for key, value in options.items() if not key.startswith("head.")}
    own = {k.removeprefix("head."): v for k, v in options.items() if k not in mine}
    model = load(where, **mine)
    has = getattr(getattr(model.head, "config", None), "classes", None) is not None
    usual, known = type(model.head).__name__ if has else "Classify", kinds("head")
    kind = one_of("model", "head.kind", own.pop("kind", usual), known)
    if has and kind == type(model.head).__name__:
        if getattr(model.head.config, "target", target) != target:  # type: ignore[union-attr]  # it has a head
            own.setdefault("target", target)
        if model.record.labels == tuple(labels) and not own:
            return model
        head = {f"head.{key}": value for key, value in own.items()}
        return load(where, classes=list(labels), **{**mine, **head})
    pool = "class" if getattr(model.adapter, "has_class", False) else "mean"
    facts = {**facts_of(model.adapter, model.backbone, labels, target), "pool": pool}
    takes = {field.name for field in fields(known[kind].Config)}
    given = {key: value for key, value in facts.items() if key in takes}
    return put_head(model, known[kind], {**given, **own}, labels)


def wrong_kind(name: str, kind: str, key: str) -> OptionError:
    """The error about a model that reads something else."""
    return OptionError(
        f"a training on {kind}s takes a model for {kind}s; {name} has no preprocessing for "
        f"{kind}s: `zoo list models` names others",
        key,
    )


def assemble(
    sections: Mapping[str, Any],
    labels: Sequence[str],
    target: str,
    kind: str,
    prepare: Callable[[], Prepare] | None,
) -> Model:
    """{"adapter": {"size": 32, ...}, "backbone": {...}, "head": {...}} -> a model.

    A section's `kind` names the class, unless it is what the task has by default (`ADAPTERS`,
    Backbone, Classify).
    """
    for section, given in sections.items():
        if section not in SECTIONS:
            paths = option_paths(one_stage(dim=1, depth=1, heads=1))
            body = {"dim", "depth", "heads", *(path.rpartition(".")[2] for path in paths)}
            within = section in body and f"; did you mean 'backbone.{section}'?"
            hint = within or suggest(section, SECTIONS) or f"; it takes {', '.join(SECTIONS)}"
            raise OptionError(f"a model of parts has no section {section!r}{hint}", section)
        if not isinstance(given, Mapping):
            wants = f"model.{section} takes options of its own, such as kind"
            raise OptionError(f"{wants}; got {given!r}", section)

    def kind_of(section: str, default: str) -> type[Part]:
        name = (sections.get(section) or {}).get("kind", default)
        reason = fault_of(section, name)
        if reason and name not in kinds(section):
            got = f"got {name!r}, a plugin that cannot be used: {reason}"
            raise OptionError(f"model takes the {section}.kind of a part; {got}", f"{section}.kind")
        return kinds(section)[one_of("model", f"{section}.kind", name, kinds(section))]

    def part(section: str, default: str, **options: Any) -> Any:
        given = {k: v for k, v in (sections.get(section) or {}).items() if k != "kind"}
        if section == "backbone":  # whose options go by dotted name
            given = named(flatten(given))
        made = kind_of(section, default)
        takes = {field.name for field in fields(made.Config)}
        given = {key: value for key, value in options.items() if key in takes} | given
        if section == "head" and not answers(made, target):
            needs = "dim and target alone" if kind == "unlabelled" else "dim, classes and target"
            wants = f"a training takes a head with {needs}"
            told = {HEADS[kind]} if kind in HEADS else {*kinds("head")} - {*HEADS.values()}
            fit = names_of("head", lambda part: answers(part, target) and part.__name__ in told)
            raise OptionError(f"{wants}, {fit}; got {made.__name__}", "head.kind")
        try:
            return make(made, **given)
        except OptionError as error:  # a part does not know where it stands
            if "stages" in options and hasattr(adapter.config, error.key):
                own, key = sections.get("adapter") or {}, f"adapter.{error.key}"
                todo = "" if error.key in own else f": give {stages_fit(adapter.config, error.key)}"
                raise OptionError(f"{error}{todo}", key if error.key in own else "") from error
            with naming(f"{section}.", f"--model.{section}."):
                raise

    picked, made = kind_of("adapter", ADAPTERS[kind]), None
    if prepare is not None:
        made = fitted(prepare, picked)
    elif not sees_pictures(picked):
        wants = f"a training on {kind}s takes an adapter of {kind}s"
        fit = names_of("adapter", sees_pictures)
        raise OptionError(f"{wants}, {fit}; got {picked.__name__}", "adapter.kind")
    adapter = part("adapter", ADAPTERS[kind], **({} if made is None else made.adapter()))
    stages = {"stages": adapter.stages} if hasattr(adapter, "stages") else {}
    backbone = part("backbone", "Backbone", **stages)
    if made is None:
        made = Preprocess(size=pair(adapter.config.size), channels=adapter.config.channels)
    facts = facts_of(adapter, backbone, labels, target)
    head = part("head", HEADS.get(kind, "Classify"), **facts)
    return Model(adapter, backbone, head, Record(labels=tuple(labels), preprocess=made))
