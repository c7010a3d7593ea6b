"""A body gets the head that a task wants; which parts fit a task."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from zoo.adapters.patch import GridConfig
from zoo.errors import OptionError, one_of
from zoo.extend import kinds, make
from zoo.inputs import Prepare, Preprocess
from zoo.loading import load
from zoo.model import Model
from zoo.nn import Part
from zoo.registry import create

# by what samples are, else Classify
HEADS = {"scene": "Segment", "boxes": "Detect", "unlabelled": "Reconstruct"}
TARGETS = {"scene": "mask", "boxes": "boxes", "unlabelled": "pixels"}
WIDTH = 32  # of a Swin's head
EMPTY: Mapping[str, Any] = {}


def facts_of(adapter: Part, backbone: Part, labels: Sequence[str], target: str) -> dict[str, Any]:
    """What a head may have to know of the parts before it, and of the data.

    `patch` is the stride of the last stage in pixels, `unit` that in tokens of the first.
    """
    widths = tuple(stage.block.dim for stage in backbone.config.stages)
    patch, unit = getattr(adapter.config, "patch", 1), 2 ** (len(widths) - 1)
    return {
        "patch": unit * (patch if isinstance(patch, int) else patch[-1]),
        "unit": unit,
        "width": widths[0],
        "colours": getattr(adapter.config, "channels", 3),
        "dim": backbone.dim,
        "widths": widths if len(widths) > 1 else (),
        "classes": len(labels),
        "target": target,
    }


def with_head(
    form: str, where: str, kind: str, labels: Sequence[str], target: str, options: Mapping[str, Any]
) -> Model:
    """A model by its name (`form` "name") or from elsewhere ("load"), with the head of the task.

    Options that begin with "head." are the head's, the others the body's. A loaded head of this
    kind stays where the labels are the same and no option asks for another.
    """
    own = {k.removeprefix("head."): v for k, v in options.items() if k.startswith("head.")}
    rest = {k: v for k, v in options.items() if not k.startswith("head.")}
    made = kinds("head")[one_of("model", "head.kind", own.pop("kind", HEADS[kind]), kinds("head"))]
    if form == "name":
        body = create(where, **{"head": None, **rest})
    else:
        body = load(where, **rest)
        has = getattr(body.head, "config", None)
        same = all(getattr(has, key, None) == value for key, value in own.items())
        if type(body.head) is made and body.record.labels == tuple(labels) and same:
            return body
    takes = {field.name for field in fields(made.Config)}
    facts = facts_of(body.adapter, body.backbone, labels, target)
    given = {key: value for key, value in facts.items() if key in takes} | own
    return put_head(body, made, given, labels)


def put_head(
    body: Model, made: type[Part], given: Mapping[str, Any], labels: Sequence[str]
) -> Model:
    """The same body with a new head of a kind, for these labels; the report of its weights says
    so."""
    try:
        head = make(made, **given)
    except OptionError as error:
        raise OptionError(str(error), f"head.{error.key}") from error
    report = body.record.report
    if report is not None:
        kept = report.loaded - (0 if body.head is None else len(body.head.state_dict()))
        new = tuple(f"head.{key}" for key in head.state_dict())
        report = replace(report, loaded=kept, renewed=(*report.renewed, *new))
    record = replace(body.record, labels=tuple(labels), scale=None, report=report)
    return Model(body.adapter, body.backbone, head, record)


def for_scenes(model: Model, prepare: Any) -> Model:
    """The model with pictures read at their own size, which its adapter then fills up to patches,
    by what `prepare` makes of how it read them before. It is left alone where it reads scenes."""
    base = model.record.preprocess
    if not isinstance(base, Preprocess):
        return model
    config: Any = model.adapter.config
    if isinstance(config, GridConfig) and not config.fill:
        model.adapter.config = replace(config, fill=True)
    model.record = replace(model.record, preprocess=prepare(base))
    return model


def fitted(prepare: Callable[[], Prepare], adapter: type[Part]) -> Prepare:
    """What `prepare` makes, as this kind of adapter takes it. OptionError where it does not."""
    made, takes = prepare(), signature_of(adapter)
    if made.input and made.input not in takes:
        fit = names_of("adapter", lambda part: made.input in signature_of(part))
        wants = f"a training on {made.kind.rstrip('s')}s takes an adapter of {made.input}, {fit}"
        got = f"{adapter.__name__}, which takes {', '.join([*takes][1:])}"
        raise OptionError(f"{wants}; got {got}", "adapter.kind")
    return made.fitted("keep" in takes)


def signature_of(part: type[Part]) -> Mapping[str, Any]:
    """What its forward takes."""
    return inspect.signature(part.forward).parameters


def names_of(section: str, fits: Callable[[type[Part]], bool]) -> str:
    """The parts of a section that fit, plugins' too, as a sentence names them."""
    *names, last = [name for name, part in kinds(section).items() if fits(part)] or ["none"]
    return f"{', '.join(names)} or {last}" if names else last


def sees_pictures(part: type[Part]) -> bool:
    """Whether an adapter takes pictures: pixels of a size that is not of three sides, a video's."""
    known = {field.name: str(field.type) for field in fields(part.Config)}
    flat = "int, int, int" not in known.get("size", "")
    return "pixels" in signature_of(part) and {"size", "channels"} <= known.keys() and flat


def answers(part: type[Part], target: str) -> bool:
    """Whether a head tells as many classes of the tokens as data have, or, where the target is the
    input itself, no classes."""
    takes = {field.name for field in fields(part.Config)}
    return {"dim", "target"} <= takes and ("classes" in takes) == (target != TARGETS["unlabelled"])


def stages_fit(config: Any, key: str) -> str:
    """The flags that mend an option of an adapter that shapes the stages. For heads as a paper has
    them, that is a width of as many whole heads, and few know one for each stage."""
    flag, heads = f"--model.adapter.{key}", getattr(config, key)
    if key != "heads" or not isinstance(heads, tuple):
        return flag
    unit = WIDTH * heads[0]
    return (
        f"--model.adapter.dim {max(unit, config.dim // unit * unit)}, or {flag} one for each stage"
    )
