"""With `model.load`, what is read is what the loaded model reads, unless it can be renewed."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.checkpoint import CONFIG, path_of
from zoo.errors import OptionError, UserError
from zoo.inputs import Prepare, PrepareSeries, PrepareSound, PrepareText
from zoo.inputs.names import listed
from zoo.inputs.text import read_tokenizer
from zoo.loading import load
from zoo.training.config import Config, Origin, Resolved
from zoo.training.schema import wording
from zoo.training.sections import AUDIO, SERIES, TEXT
from zoo.weights import local

SHORTER = ("length", "seconds", "past")  # a part of what a model takes is taken too
RENEWED = ("ahead", "label", "columns")  # the head, or names alone
LEAST = 300  # subwords that a config may ask for


def adopt(resolved: Resolved) -> Resolved:
    """A config whose data section says what the model that it loads reads, and a note on what it
    took from there.

    Given is what a flag says, or the file that names the model; the rest of a recipe is about the
    model that it would make. UserError for what is given and is not so.
    """
    config, origins = resolved.config, resolved.origins
    if not isinstance(where := config.model.get("load"), str):
        return resolved
    kind = READS.get(config.recipe.split("/")[0])  # pictures are read at any size
    prepare = None if kind is None else reading_of(where)
    if prepare is None or prepare.kind != kind:  # which is told of where it is built
        return resolved
    known = reads(prepare, config.data)
    layers = ("flag",) if origins["model.load"].layer == "flag" else ("flag", "recipe")
    data, took, notes = {}, [], []
    for name, own in known.items():
        key, asked = f"data.{name}", getattr(config.data, name)
        given = origins[key].layer in layers and asked is not None
        if given and name == "rate" and asked != own:  # files may have any
            data[name], origins = own, {**origins, key: Origin("model", where)}
            notes.append(f"hears {own} samples per second, not {asked}: files are resampled to it")
        elif not given:
            data[name] = own
            if asked != own:
                took.append(f"{key} {shown(own)}")
                origins = {**origins, key: Origin("model", where)}
        else:
            check(name, asked, own, prepare)
            if name == "columns" and {*(asked or ())} == {*own}:
                data[name] = own  # whose order the weights know
    if took:
        notes.append(f"reads as it was made to: {', '.join(took)}")
    config = replace(config, data=replace(config.data, **data))
    return replace(resolved, config=config, origins=origins, notes=(*resolved.notes, *notes))


READS = {TEXT: "text", AUDIO: "sound", SERIES: "series"}


def reading_of(where: str) -> Prepare | None:
    """How a model of ours reads samples, by its config.json alone; None for those of other
    libraries, which know no such reading. UserError as `load` says it."""
    place = path_of(where, "load takes a folder, a file or a model of the Hub")
    place = local(where, place)
    place = place.parent if place.is_file() else place
    inner = place / "model"  # of a run
    place = inner if (inner / CONFIG).is_file() and not (place / CONFIG).exists() else place
    try:
        written = json.loads((place / CONFIG).read_text("utf-8"))
        read = Prepare.from_dict(written["record"]["preprocess"]) if "zoo" in written else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        read = load(where).record.preprocess  # which says what is wrong
    return read if isinstance(read, Prepare) else None


def reads(prepare: Any, config: Any) -> dict[str, Any]:
    """What a model reads, by the keys of the data section."""
    match prepare:
        case PrepareText():
            size = prepare.adapter()["vocabulary"]
            return {"length": prepare.length, "vocabulary": max(size, LEAST), "tokenizer": None}
        case PrepareSound():
            return {name: getattr(prepare, name) for name in ("rate", "mels", "centre", "seconds")}
    label = config.label or prepare.target
    columns = (label,) if len(prepare.columns) == 1 else prepare.columns  # a name is no matter then
    return {"past": prepare.past, "ahead": prepare.ahead, "label": label, "columns": columns}


def check(name: str, asked: Any, own: Any, prepare: Any) -> None:
    """OptionError where what is asked for is not what the model reads, nor can be."""
    takes, todo = f"data.{name} takes what the loaded model reads, {shown(own)}", "drop it"
    if name == "tokenizer":
        if read_tokenizer(asked) == prepare.tokenizer:
            return
        takes = "data.tokenizer takes the one of the loaded model, since its weights know those ids"
    elif name in SHORTER and not getattr(prepare, "fixed", False):
        if asked <= own:
            return
        takes, todo = f"data.{name} takes at most what the loaded model reads, {own}", "give less"
    elif name == "columns" and len(asked) != len(own):
        takes = f"data.columns takes as many as the loaded model sees, {listed(own)}"
    elif asked == own or name in RENEWED:
        return
    got = f"{takes}; got {shown(asked)}: {todo}, or train a new model"
    raise OptionError(got, f"data.{name}")


def shown(value: Any) -> str:
    """A value in a sentence."""
    return listed(value) if isinstance(value, tuple) else wording(value)


def renewed(own: Any, config: Config, made: Callable[..., Prepare] | None) -> Any:
    """How a loaded model reads samples -> the same for these data, where weights do not mind.

    Texts and sounds are cut where the config says. A series gets the names, means and deviations of
    the data, and what of them is told, so that losses are in their units. UserError for a series of
    more columns or rows than the model sees.
    """
    match own:
        case PrepareText():
            return replace(own, length=min(own.length, config.data.length))
        case PrepareSound() if not own.fixed:
            return replace(own, seconds=min(own.seconds, config.data.seconds))
        case PrepareSeries() if made is not None:
            new: Any = made()
            if len(new.columns) != len(own.columns) or new.past > own.past:
                takes = f"the loaded model takes {own.past} rows of {listed(own.columns)}"
                got = f"{new.past} of {listed(new.columns)}"
                raise UserError(f"{takes}; got {got}: give --data.past and --data.columns")
            return replace(new, relative=own.relative)
    return own
