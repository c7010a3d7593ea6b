"""From another library's state dict to ours and back, by a table of whole keys.

A table is a tuple of `Rule(theirs, ours)`. In both columns `{i}` and `{s}` stand for the same
numbers and `*` for `weight` and `bias`. The table is applied to the keys that our model has, so a
rule for a part that this model lacks lies idle; but every tensor of both sides must be accounted
for, or one error lists all that are not.
"""

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
    """Whether theirs is (in, out), as in GPT-2."""
    sizes: Callable[[Any], Sequence[int]] | None = None
    """Backbone config -> the rows of each of theirs; None = equal shares."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Their keys, always as a tuple."""
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs

    def match(self, key: str) -> tuple[str, ...] | None:
        """Our whole key -> their whole keys, or None where this rule is about another one."""
        found = None if self.ours is None else _fullmatch(self.ours, key)
        return None if found is None else tuple(_fill(name, found) for name in self.keys)

    def carries(self, key: str) -> bool:
        """Whether this rule carries their whole key along."""
        return self.ours is None and any(_fullmatch(name, key) is not None for name in self.keys)


PIECES = {"{i}": r"(?P<i>\d+)", "{s}": r"(?P<s>\d+)", "*": "(?P<p>weight|bias)"}


def _fullmatch(pattern: str, key: str) -> dict[str, str] | None:
    parts = re.split(r"(\{i\}|\{s\}|\*)", pattern)
    found = re.fullmatch("".join(PIECES.get(part) or re.escape(part) for part in parts), key)
    return None if found is None else found.groupdict()


def _fill(pattern: str, found: Mapping[str, str]) -> str:
    for piece, name in (("{i}", "i"), ("{s}", "s"), ("*", "p")):
        pattern = pattern.replace(piece, found.get(name, ""))
    return pattern


Plan = dict[str, tuple[Rule, tuple[str, ...]]]


def _plan(rules: Sequence[Rule], keys: Iterable[str]) -> tuple[Plan, list[str]]:
    """-> ({our key: (its rule, their keys)}, our keys without a rule)."""
    plan: Plan = {}
    orphans = []
    for key in keys:
        matches = ((rule, names) for rule in rules if (names := rule.match(key)) is not None)
        found = next(matches, None)
        if found is None:
            orphans.append(key)
        else:
            plan[key] = found
    return plan, orphans


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
        if absent:
            problems += [f"{name}: missing (wanted for {key})" for name in absent]
            continue
        parts = [_ours(rule, theirs[name]) for name in names]
        fits = all(part.shape[1:] == parts[0].shape[1:] for part in parts)
        tensor = torch.cat(parts) if fits and len(parts) > 1 else parts[0]
        if not all(theirs[name].is_floating_point() for name in names):
            kinds = ", ".join(str(theirs[name].dtype) for name in names)
            problems.append(f"{' + '.join(names)}: {kinds}, no float")
            continue
        if not fits or tensor.shape != shapes[key]:
            got = " + ".join(str(tuple(theirs[name].shape)) for name in names)
            wanted = f"the model's {key} is {tuple(shapes[key])}"
            problems.append(f"{' + '.join(names)}: shape {got}, {wanted}")
        ours[key] = tensor
    problems += [f"{name}: unknown" for name in sorted(unused)]
    if problems:
        count = len(problems)
        raise ConversionError(
            f"loading found {count} tensors that do not fit: {'; '.join(problems)}"
        )
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
            part = part.T.contiguous() if rule.transpose else part
            theirs[name] = part.reshape((1,) * rule.lead + tuple(part.shape))
    return {**theirs, **(carried or {})}


def _ours(rule: Rule, tensor: Tensor) -> Tensor:
    """One of their tensors as ours has it."""
    if rule.lead and tensor.ndim > rule.lead:
        tensor = tensor.flatten(0, rule.lead)
    return tensor.T if rule.transpose and tensor.ndim == 2 else tensor
