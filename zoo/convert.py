"""From another library's state dict to ours and back, by a table of whole keys.

A table is a tuple of `Rule(theirs, ours)`. In both columns `{i}` stands for the same number and
`*` for `weight` and `bias`. The table is applied to the keys that our model has, so a rule for a
part that this model lacks lies idle; but every tensor of both sides must be accounted for, or one
error lists all that are not.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from zoo.errors import UserError

State = dict[str, Tensor]


class ConversionError(UserError):
    """Tensors that no rule accounts for, or that have another shape than the model's."""


@dataclass(frozen=True)
class Rule:
    """`theirs` are one key, or several whose tensors `ours` stacks along the first axis."""

    theirs: str | tuple[str, ...]
    ours: str
    lead: int = 0
    """Leading axes of size 1 that theirs have and ours have not."""

    def match(self, key: str) -> tuple[str, ...] | None:
        """Our whole key -> their whole keys, or None where this rule is about another one."""
        pattern = (
            re.escape(self.ours)
            .replace(r"\{i\}", r"(?P<i>\d+)")
            .replace(r"\*", "(?P<p>weight|bias)")
        )
        found = re.fullmatch(pattern, key)
        if found is None:
            return None
        names = (self.theirs,) if isinstance(self.theirs, str) else self.theirs
        groups = found.groupdict()
        return tuple(
            n.replace("{i}", groups.get("i", "")).replace("*", groups.get("p", "")) for n in names
        )


def _plan(
    rules: Iterable[Rule], keys: Iterable[str]
) -> tuple[dict[str, tuple[Rule, tuple[str, ...]]], list[str]]:
    """-> ({our key: (its rule, their keys)}, our keys without a rule)."""
    plan, orphans, table = {}, [], tuple(rules)
    for key in keys:
        matches = [(rule, names) for rule in table if (names := rule.match(key)) is not None]
        if matches:
            plan[key] = matches[0]
        else:
            orphans.append(key)
    return plan, orphans


def from_theirs(
    rules: Iterable[Rule], theirs: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]
) -> State:
    """Their state dict -> ours, for a model whose keys have `shapes`. ConversionError lists
    everything that is wrong."""
    plan, wrong = _plan(rules, shapes)
    ours: State = {}
    problems = [f"{key}: the model has it, no rule makes it" for key in wrong]
    unused = set(theirs)
    for key, (rule, names) in plan.items():
        unused -= set(names)
        absent = [name for name in names if name not in theirs]
        if absent:
            problems += [f"{name}: missing (wanted for {key})" for name in absent]
            continue
        parts = [
            theirs[name].flatten(0, rule.lead) if rule.lead else theirs[name] for name in names
        ]
        tensor = torch.cat(parts) if len(parts) > 1 else parts[0]
        if tensor.shape != shapes[key]:
            got = " + ".join(str(tuple(theirs[name].shape)) for name in names)
            problems.append(
                f"{' + '.join(names)}: shape {got}, the model's {key} is {tuple(shapes[key])}"
            )
        ours[key] = tensor
    problems += [f"{name}: unknown" for name in sorted(unused)]
    if problems:
        raise ConversionError(
            f"loading found {len(problems)} tensors that do not fit: {'; '.join(problems)}"
        )
    return ours


def to_theirs(rules: Iterable[Rule], ours: Mapping[str, Tensor]) -> State:
    """Our state dict -> theirs, the exact inverse of `from_theirs`."""
    plan, orphans = _plan(rules, ours)
    if orphans:
        raise ConversionError(
            f"this layout has no place for {len(orphans)} tensors: {', '.join(orphans)}"
        )
    theirs: State = {}
    for key, (rule, names) in plan.items():
        for name, part in zip(names, ours[key].chunk(len(names)), strict=True):
            theirs[name] = part.reshape((1,) * rule.lead + tuple(part.shape))
    return theirs
