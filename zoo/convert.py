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

    @property
    def keys(self) -> tuple[str, ...]:
        """Their keys, always as a tuple."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    def match(self, key: str) -> tuple[str, ...] | None:
        """Our whole key -> their whole keys, or None where this rule is about another one."""
        found = None if self.ours is None else _regex(self.ours).fullmatch(key)
        if found is None:
            return None
        return tuple(name.replace("*", "{p}").format_map(found.groupdict()) for name in self.keys)

    def carries(self, key: str) -> bool:
        """Whether this rule carries their whole key along."""
        return self.ours is None and any(_regex(name).fullmatch(key) for name in self.keys)


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


def from_theirs(
    rules: Sequence[Rule], theirs: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]
) -> tuple[State, State]:
    """Their state dict -> (ours, what is carried), for a model whose keys have `shapes`.

    ConversionError lists everything that is wrong.
    """
    plan, orphans = _plan(rules, shapes)
    carried = {k: t for k, t in theirs.items() if any(rule.carries(k) for rule in rules)}
    ours: State = {}
    problems = [f"{key}: the model has it, no rule makes it" for key in orphans]
    unused = set(theirs) - set(carried)
    for key, (rule, names) in plan.items():
        unused -= set(names)
        absent = [name for name in names if name not in theirs]
        problems += [f"{name}: missing (wanted for {key})" for name in absent]
        if absent:
            continue
        given, they = [theirs[name] for name in names], " + ".join(names)
        parts = [_ours(rule, tensor) for tensor in given]
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
    config: Any = None,
    carried: Mapping[str, Tensor] | None = None,
) -> State:
    """Our state dict -> theirs, the exact inverse of `from_theirs`; `config` is the backbone's."""
    plan, orphans = _plan(rules, ours)
    if orphans:
        listed = ", ".join(orphans)
        raise ConversionError(f"this layout has no place for {len(orphans)} tensors: {listed}")
    theirs: State = {}
    for key, (rule, names) in plan.items():
        rows = len(ours[key])
        sizes = [rows // len(names)] * len(names) if rule.sizes is None else rule.sizes(config)
        for name, part in zip(names, ours[key].split(list(sizes)), strict=True):
            part = part.T.contiguous() if rule.transpose and part.ndim == 2 else part
            theirs[name] = part.reshape((1,) * rule.lead + tuple(part.shape))
    return {**theirs, **(carried or {})}


def _ours(rule: Rule, tensor: Tensor) -> Tensor:
    """One of their tensors as ours has it."""
    if rule.lead and tensor.ndim > rule.lead:
        tensor = tensor.flatten(0, rule.lead)
    return tensor.T if rule.transpose and tensor.ndim == 2 else tensor
