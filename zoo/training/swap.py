"""Another kind of part by a flag: what a recipe says of the kind before may not fit it."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from zoo.errors import OptionError
from zoo.training.places import Given

SWAPPED = ("adapter", "head")  # there is one kind of backbone


def leave_out(under: dict[str, Given], flags: dict[str, Given]) -> tuple[str, ...]:
    """Takes the misfits out of what a recipe gives. -> a note, if there were any."""
    keys = misfits(under, flags)
    told = ", ".join(f"{key}{under.pop(key).at}" for key in keys)
    if any(key.startswith("model.backbone.") for key in keys):  # it may be all that there was
        flags.setdefault("model.backbone.kind", Given("Backbone", "--model.adapter.kind"))
    return (f"left out, not for the kind that a flag names: {told}",) if keys else ()


def misfits(under: Mapping[str, Given], flags: Mapping[str, Given]) -> list[str]:
    """{dotted key: value and place} of a recipe, and of flags -> the recipe's keys that a kind
    named by a flag does not take: there is no such option, or it is of another type.

    Where an adapter brings the stages of the backbone, those that would make one stage are too.
    """
    kinds = {section: f"model.{section}.kind" for section in SWAPPED}
    if not any(key in flags for key in kinds.values()) or {"model.name", "model.load"} & {*under}:
        return []
    return [key for key in found(under, flags, kinds) if key not in flags]


def found(
    under: Mapping[str, Given], flags: Mapping[str, Given], kinds: Mapping[str, str]
) -> Iterator[str]:
    """The misfits of each section whose kind a flag changes."""
    from zoo import extend  # these take seconds

    for section, name in kinds.items():
        part: Any = extend.kinds(section).get(flags[name].value) if name in flags else None
        if part is None or (name in under and under[name].value == flags[name].value):
            continue
        above = f"model.{section}."
        for key in under:
            option = key.removeprefix(above)
            if key.startswith(above) and key != name and not takes(part.Config, option, under[key]):
                yield key
        if hasattr(part, "stages_of"):
            own = {f"model.backbone.{f.name}" for f in fields(extend.Backbone.Config)}
            own.add("model.backbone.kind")
            yield from (k for k in under if k.startswith("model.backbone.") and k not in own)


def takes(config: Any, option: str, given: Given) -> bool:
    """Whether a config has the option, for such a value; what is below a name has its name alone
    compared."""
    from zoo.nn.config import hints_of, read_option

    known = {field.name: field.default for field in fields(config)}
    name, _, below = option.partition(".")
    if name not in known or below:
        return name in known
    try:
        read_option(config.__name__, name, hints_of(config)[name], given.value, known[name])
    except OptionError:
        return False
    return True
