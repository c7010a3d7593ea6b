"""Whether a reader of a model's files would build the same model: by its name, and what else it is
told."""

import inspect
from collections.abc import Mapping
from typing import Any

from zoo.configs import configs_for, find
from zoo.errors import OptionError
from zoo.nn.config import to_plain
from zoo.shapes import pair

# Options that change no answer of a model at its own size.
SILENT = {"drop_path", "dropout", "drop_tokens", "checkpoint", "init", "resize", "fill", "target"}


def check_same(
    model: Any, name: str, told: Mapping[str, Any], library: str, moot: frozenset[str] = frozenset()
) -> None:
    """OptionError that names what of a model a reader of its files would build otherwise: a model
    by `name` with the options `told`; but for options that are `moot`."""
    count, options = count_of(model), dict(told)
    if model.head is None:
        options = {k: v for k, v in options.items() if not k.startswith("head.")} | {"head": None}
    elif count is None:
        options["head.classes"] = None
    takes = "classes" in inspect.signature(find(name)[0].build).parameters
    classes = (count or 1) if takes and model.head is not None else None
    _, _, theirs = configs_for(name, classes, options)
    parts = {"adapter": model.adapter, "backbone": model.backbone, "head": model.head}
    mine = flat({n: None if p is None else to_plain(p.config) for n, p in parts.items()})
    other = flat({n: None if c is None else to_plain(c) for n, c in theirs.items()})
    silent = SILENT | moot | idle(model.adapter.config)
    wrong = [
        f"{key} {mine.get(key)!r}, not {other.get(key)!r}"
        for key in [*mine, *(key for key in other if key not in mine)]
        if key.rpartition(".")[2] not in silent and not alike(key, mine.get(key), other.get(key))
    ]
    wrong = [each for each in wrong if each.startswith("adapter.")] or wrong  # the rest follows
    if wrong:
        more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        wants = f"save in the layout of {library} takes a model that {library} builds by its name"
        got = f"{name.partition('.')[0]} there has no such {', '.join(wrong[:3])}{more}"
        raise OptionError(f"{wants}; {got}: save it in ours", "layout")


def flat(value: Any, above: str = "") -> dict[str, Any]:
    """Nested mappings and lists as {dotted path: value}; equal sides as one."""
    if isinstance(value, (list, tuple)) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    if isinstance(value, (list, tuple)):
        value = {str(i): inner for i, inner in enumerate(value)}
    if not isinstance(value, Mapping):
        return {above: value}
    lead = f"{above}." if above else ""
    return {k: v for key, inner in value.items() for k, v in flat(inner, f"{lead}{key}").items()}


def alike(key: str, one: Any, other: Any) -> bool:
    """Whether two values of an option mean the same: of a learned scale's start, that there is one;
    of a picture, a number and the pair of it."""
    if key.endswith("layer_scale"):
        return (one is None) == (other is None)
    if key.endswith(".hidden") and None in (one, other):  # the width of an MLP: tensors tell it
        return True
    return one == other


def idle(adapter: Any) -> set[str]:
    """Options of windows that change no answer at the native size: what becomes of places that are
    in no window, of axes that one window fills, of pixels that fill no patch."""
    window = getattr(adapter, "window", None)
    if window is None or len(window) != 2:
        return {"pad", "clamp"}
    sides = list(zip(pair(adapter.size), adapter.patch, strict=True))
    grids = [[-(-s // p) for s, p in sides]]
    for _ in adapter.depths[1:]:
        grids.append([-(-side // 2) for side in grids[-1]])
    stages = [list(zip(grid, window, strict=True)) for grid in grids]
    filled = not any(g % (min(g, w) if adapter.clamp else w) for stage in stages for g, w in stage)
    even = all(len({g > w for g, w in stage}) == 1 for stage in stages)
    facts = {"pad": filled, "clamp": filled, "moves": even, "cut": not any(s % p for s, p in sides)}
    return {name for name, holds in facts.items() if holds}


def count_of(model: Any) -> int | None:
    """How many classes a model's head has; None where there is no Linear for them."""
    return getattr(getattr(model.head, "config", None), "classes", None)
