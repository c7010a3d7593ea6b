"""The model section of a config -> a model to train."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import OptionError, one_of, suggest
from zoo.inputs import Preprocess
from zoo.model import Model, Record
from zoo.registry import PARTS, create, find, load
from zoo.shapes import pair
from zoo.training.config import Config, flatten


def build(config: Config, labels: Sequence[str]) -> Model:
    """The config's model with a head for these labels.

    `model.name` and options make a new one, `model.load` takes a saved one with a new head where
    the labels differ, `model.backbone`, `adapter` and `head` put parts together by their kinds.
    OptionError for what the model or a part does not have, and for a model that cannot be trained
    on labelled pictures.
    """
    return make_model(config.model, labels)


def make_model(sections: Mapping[str, Any], labels: Sequence[str]) -> Model:
    """The same from the model section alone, such as {"name": ..., "head": {"pool": "mean"}}."""
    options = flatten(sections)
    for key, value in options.items():
        if key.rpartition(".")[2] == "classes":
            got = f"got model.{key} {value}"
            raise OptionError(f"a training takes its classes from the data; {got}: drop it", key)
    if "head" in options and not isinstance(options["head"], Mapping):
        got = "null" if options["head"] is None else repr(options["head"])
        raise OptionError(f"a training takes a model with a head; got model.head {got}", "head")
    if "name" in options:
        name = text(options, "name", "the name of a model (`zoo list models`)")
        if find(name)[0].preprocess is None:  # before its options, which would miss the point
            raise no_pictures(name, "name")
        model = create(name, classes=list(labels), **options)
    elif "load" in options:
        model, name = load_for(text(options, "load", "a saved model's folder"), labels), "load"
        for key in options:
            raise OptionError(f"model.load takes no options beside it; got {key!r}", key)
    else:
        return trainable(assemble(sections, labels), "head")
    return trainable(model, "load" if name == "load" else "name")


def text(options: dict[str, Any], key: str, wants: str) -> str:
    """Takes one option out; OptionError where it is no text."""
    value = options.pop(key)
    if not isinstance(value, str):
        raise OptionError(f"model.{key} takes {wants}; got {value!r}", key)
    return value


def load_for(path: str, labels: Sequence[str]) -> Model:
    """A saved model, or that of a run's folder, with a new head unless it has these labels."""
    folder = Path(path).expanduser()
    folder = folder / "model" if (folder / "model").is_dir() else folder
    model = load(folder)
    if model.head is None:
        wants = "a training takes a model with a head"
        raise OptionError(f"{wants}; the one in {folder} has none", "load")
    return model if model.record.labels == tuple(labels) else load(folder, classes=list(labels))


def trainable(model: Model, key: str) -> Model:
    """The model, if it reads pictures and gives one label for each; else an OptionError."""
    if model.record.preprocess is None:
        raise no_pictures(model.record.name or "this one", key)
    target = getattr(model.head.config, "target", None)  # type: ignore[union-attr]
    if target != "label":
        got = f"{type(model.head).__name__} with target {target}"
        raise OptionError(
            f"image_classify takes a head with one label per picture; got {got}", "head.target"
        )
    return model


def no_pictures(name: str, key: str) -> OptionError:
    """The error about a model that reads something else."""
    return OptionError(
        f"image_classify takes a model for pictures; {name} has no preprocessing for pictures: "
        "`zoo list models` names others",
        key,
    )


def assemble(sections: Mapping[str, Any], labels: Sequence[str]) -> Model:
    """{"adapter": {"size": 32, ...}, "backbone": {...}, "head": {...}} -> a model.

    A section's `kind` names the class, unless it is Patches, Backbone or Classify.
    """
    for section, given in sections.items():
        if section not in PARTS:
            hint = suggest(section, PARTS) or f"; it takes {', '.join(PARTS)}"
            raise OptionError(f"a model of parts has no section {section!r}{hint}", section)
        if not isinstance(given, Mapping):
            wants = f"model.{section} takes options of its own, such as kind"
            raise OptionError(f"{wants}; got {given!r}", section)

    def part(section: str, kind: str, **options: Any) -> Any:
        given = {"kind": kind, **options, **(sections.get(section) or {})}
        name = one_of("model", f"{section}.kind", given.pop("kind"), PARTS[section])
        if section == "head" and name != "Classify":
            wants = "image_classify takes a head with one label per picture"
            raise OptionError(f"{wants}; got {name}", "head.kind")
        try:
            return PARTS[section][name](**given)
        except OptionError as error:  # a part does not know where it stands
            raise OptionError(str(error), f"{section}.{error.key}") from error

    adapter, backbone = part("adapter", "Patches"), part("backbone", "Backbone")
    if not {"size", "channels"} <= vars(adapter.config).keys():
        kind = type(adapter).__name__
        raise OptionError(
            f"image_classify takes an adapter of pictures, such as Patches; got {kind}",
            "adapter.kind",
        )
    head = part("head", "Classify", dim=backbone.dim, classes=len(labels))
    prepare = Preprocess(size=pair(adapter.config.size), channels=adapter.config.channels)
    return Model(adapter, backbone, head, Record(labels=tuple(labels), preprocess=prepare))
