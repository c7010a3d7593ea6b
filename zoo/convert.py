"""From another library's state dict to ours and back, by a table of whole keys.

A table is a tuple of `Rule(theirs, ours)`. In both columns `{i}` and `{s}` stand for the same
numbers and `*` for `weight` and `bias`. The table is applied to the keys that our model has, so a
rule for a part that this model lacks lies idle; but every tensor of both sides must be accounted
for, or one error lists all that are not.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from einops import EinopsError, rearrange
from torch import Tensor

from zoo.errors import UserError

State = dict[str, Tensor]


class ConversionError(UserError):
    """Tensors that no rule accounts for, or that have another shape than the model's."""


@dataclass(frozen=True)
class Rule:
    """`theirs` are one key, or several whose tensors `ours` stacks along the first axis.

    `ours=None` carries a tensor that our model has no use for, and gives it back.
    """

    theirs: str | tuple[str, ...]
    ours: str | None
    lead: int = 0
    """Leading axes of size 1 that theirs have and ours have not."""
    transpose: bool = False
    """Whether their matrices are (in, out), as in GPT-2; biases stay."""
    sizes: Callable[[Any], Sequence[int]] | None = None
    """Backbone config -> the rows of each of theirs; None = equal shares."""
    form: str | None = None
    """Their axes -> ours, as einops writes it: "H 1 1 -> H". H is the number of heads, and an axis
    that the pattern calls p has two places."""
    make: Callable[..., Tensor | None] | None = None
    """(Configs, numbers of the key `ours`) -> a tensor that they store though it follows from the
    configs; None where they have none. Compared on load, made again on save. `ours` then only says
    beside which of our keys it stands."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Their keys, always as a tuple."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    def match(self, key: str) -> tuple[str, ...] | None:
        """Our whole key -> their whole keys, or None where this rule is about another one."""
        found = None if self.ours is None else _regex(self.ours).fullmatch(key)
        if found is None or self.make is not None:
            return None
        return tuple(name.replace("*", "{p}").format_map(found.groupdict()) for name in self.keys)

    def carries(self, key: str) -> bool:
        """Whether this rule carries their whole key along."""
        return self.ours is None and any(_regex(name).fullmatch(key) for name in self.keys)

    def made(self, key: str, configs: "Configs") -> dict[str, Tensor]:
        """Our whole key -> what they store beside it, by their whole key."""
        found = None if self.ours is None or not self.make else _regex(self.ours).fullmatch(key)
        if found is None or self.make is None:
            return {}
        numbers = {name: int(n) for name, n in found.groupdict().items() if n.isdigit()}
        tensor = self.make(configs, **numbers)
        return {} if tensor is None else {self.keys[0].format_map(found.groupdict()): tensor}


@dataclass(frozen=True)
class Configs:
    """Those of a model's parts, for what follows from them."""

    adapter: Any = None
    backbone: Any = None


NO_CONFIGS = Configs()
PIECES = {"{i}": r"(?P<i>\d+)", "{s}": r"(?P<s>\d+)", "*": "(?P<p>weight|bias)"}


@functools.cache
def _regex(pattern: str) -> re.Pattern[str]:
    text = re.escape(pattern)
    for piece, group in PIECES.items():
        text = text.replace(re.escape(piece), group)
    return re.compile(text)


Plan = dict[str, tuple[Rule, tuple[str, ...]]]


def _plan(rules: Sequence[Rule], keys: Iterable[str]) -> tuple[Plan, list[str]]:
    """-> ({our key: (its rule, their keys)}, our keys without a rule)."""
    hits = {key: [(r, names) for r in rules if (names := r.match(key))] for key in keys}
    return {key: hit[0] for key, hit in hits.items() if hit}, [k for k in hits if not hits[k]]


def _made(rules: Sequence[Rule], keys: Iterable[str], configs: Configs) -> State:
    """-> what they store though it follows from the configs."""
    made: State = {}
    for rule in (rule for rule in rules if rule.make):
        for key in keys:
            made |= rule.made(key, configs)
    return made


def detect(
    layouts: Mapping[str, Sequence[Rule]],
    theirs: Iterable[str],
    ours: Iterable[str],
    configs: Configs = NO_CONFIGS,
) -> str:
    """Their keys, the keys of our model -> the layout whose keys are exactly theirs.

    ConversionError lists for the nearest one what is missing and what is unknown.
    """
    given, mine, found = set(theirs), list(ours), {}
    for layout, rules in layouts.items():
        plan, orphans = _plan(rules, mine)
        wanted = {name for _, names in plan.values() for name in names}
        wanted |= set(_made(rules, mine, configs))
        unknown = {key for key in given - wanted if not any(rule.carries(key) for rule in rules)}
        problems = [f"{key}: the model has it, no rule makes it" for key in orphans]
        problems += [f"{key}: missing" for key in sorted(wanted - given)]
        found[layout] = problems + [f"{key}: unknown" for key in sorted(unknown)]
    nearest = min(found, key=lambda layout: len(found[layout]))
    if problems := found[nearest]:
        wants = f"These are the keys of none of the layouts {', '.join(found)}"
        listed = f"{len(problems)} differ from the nearest, {nearest}: {'; '.join(problems)}"
        raise ConversionError(f"{wants}; {listed}")
    return nearest


def from_theirs(
    rules: Sequence[Rule],
    theirs: Mapping[str, Tensor],
    shapes: Mapping[str, torch.Size],
    configs: Configs = NO_CONFIGS,
) -> tuple[State, State]:
    """Their state dict -> (ours, what is carried), for a model whose keys have `shapes`.

    ConversionError lists everything that is wrong.
    """
    plan, orphans = _plan(rules, shapes)
    carried = {k: t for k, t in theirs.items() if any(rule.carries(k) for rule in rules)}
    ours: State = {}
    problems = [f"{key}: the model has it, no rule makes it" for key in orphans]
    unused = set(theirs) - set(carried)
    for name, tensor in _made(rules, shapes, configs).items():
        unused.discard(name)
        if name not in theirs:
            problems.append(f"{name}: missing (it follows from the model's sizes)")
        elif not same(theirs[name], tensor):
            problems.append(f"{name}: its values are not those that follow from the model's sizes")
        elif tensor.is_floating_point():
            carried[name] = theirs[name]  # its type and last digit are given back too
    for key, (rule, names) in plan.items():
        unused -= set(names)
        absent = [name for name in names if name not in theirs]
        problems += [f"{name}: missing (wanted for {key})" for name in absent]
        if absent:
            continue
        given, they = [theirs[name] for name in names], " + ".join(names)
        parts = [_ours(rule, tensor, configs.backbone) for tensor in given]
        fits = all(part.shape[1:] == parts[0].shape[1:] for part in parts)
        ours[key] = torch.cat(parts) if fits and len(parts) > 1 else parts[0]
        if not all(tensor.is_floating_point() for tensor in given):
            problems.append(f"{they}: {', '.join(str(t.dtype) for t in given)}, no float")
        elif not fits or ours[key].shape != shapes[key]:
            got = " + ".join(str(tuple(tensor.shape)) for tensor in given)
            problems.append(f"{they}: shape {got}, the model's {key} is {tuple(shapes[key])}")
    problems += [f"{name}: unknown" for name in sorted(unused)]
    if problems:
        found = f"loading found {len(problems)} tensors that do not fit"
        raise ConversionError(f"{found}: {'; '.join(problems)}")
    return ours, carried


def to_theirs(
    rules: Sequence[Rule],
    ours: Mapping[str, Tensor],
    configs: Configs = NO_CONFIGS,
    carried: Mapping[str, Tensor] | None = None,
) -> State:
    """Our state dict -> theirs, the exact inverse of `from_theirs`."""
    plan, orphans = _plan(rules, ours)
    if orphans:
        listed = ", ".join(orphans)
        raise ConversionError(f"this layout has no place for {len(orphans)} tensors: {listed}")
    theirs = _made(rules, ours, configs)
    for key, (rule, names) in plan.items():
        rows = len(ours[key])
        sizes = (
            [rows // len(names)] * len(names)
            if rule.sizes is None
            else rule.sizes(configs.backbone)
        )
        for name, part in zip(names, ours[key].split(list(sizes)), strict=True):
            part = part.T.contiguous() if rule.transpose and part.ndim == 2 else part
            if rule.form:
                there, here = rule.form.split(" -> ")
                part = _shaped(part, f"{here} -> {there}", configs.backbone).contiguous()
            theirs[name] = part.reshape((1,) * rule.lead + tuple(part.shape))
    return {**theirs, **(carried or {})}


def _ours(rule: Rule, tensor: Tensor, backbone: Any) -> Tensor:
    """One of their tensors as ours has it."""
    if rule.lead and tensor.ndim > rule.lead:
        tensor = tensor.flatten(0, rule.lead)
    if rule.form:
        return _shaped(tensor, rule.form, backbone)
    return tensor.T if rule.transpose and tensor.ndim == 2 else tensor


def _shaped(tensor: Tensor, form: str, backbone: Any) -> Tensor:
    """A tensor in another form, or as it was where it has not the first form's axes."""
    axes = set(re.findall(r"\w+", form))
    sizes = {"p": 2} if "p" in axes else {}
    if "H" in axes and "(" in form:
        sizes["H"] = backbone.stages[0].block.attn.heads
    try:
        return rearrange(tensor, form, **sizes)
    except EinopsError:
        return tensor


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same within the digits of the coarser."""
    if a.shape != b.shape or a.is_floating_point() != b.is_floating_point():
        return False
    coarse = 1e-6 if a.dtype in (torch.float32, torch.float64) else 1e-2
    return torch.allclose(a.cpu().double(), b.double(), rtol=coarse, atol=coarse)
