"""From another library's state dict to ours and back, by a table of whole keys.

A table is a tuple of `Rule(theirs, ours)`. In both columns `{i}` and `{s}` stand for the same
numbers and `*` for `weight` and `bias`. The table is applied to the keys that our model has, so a
rule for a part that this model lacks lies idle; but every tensor of both sides must be accounted
for, or one error has all that are not.
"""

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from einops import EinopsError, rearrange
from torch import Tensor

from zoo.errors import UserError, cut, some
from zoo.shapes import pair

State = dict[str, Tensor]


class ConversionError(UserError):
    """Tensors that no rule accounts for, or that have another shape than the model's.

    The message names the first few; `problems` are all of them, a line for each, `left` is how many
    stay if what the `hint` says is done.
    """

    def __init__(self, wants: str, problems: Sequence[str] = (), hint: str = "", left: int = 0):
        told = f"{wants}: {some(problems, between='; ')}" if problems else wants
        super().__init__(f"{told}; {hint}" if hint else told)
        self.wants, self.problems, self.hint, self.left = wants, tuple(problems), hint, left


@dataclass(frozen=True)
class Parts:
    """The configs of a model's parts, for what follows from them."""

    adapter: Any = None
    backbone: Any = None

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches in the native picture."""
        (h, w), (y, x) = pair(self.adapter.size), pair(self.adapter.patch)
        return h // y, w // x


ALONE = Parts()


@dataclass(frozen=True)
class Rule:
    """`theirs` are one key, or several whose tensors `ours` stacks along the first axis. Several of
    ours may have one of theirs: each its copy, which are given back where they are still equal.

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
    """Their axes -> ours, as einops writes it: "h 1 1 -> h". H is the number of heads, P and Q are
    the sides of a patch, Y and X rows and columns of patches; an axis whose name ends in a number,
    such as p2, has so many places."""
    piece: tuple[int, int, int] | None = None
    """(start, stop, count): ours are these of so many equal shares of their rows. What no rule
    takes of their tensor is carried."""
    make: Callable[..., Tensor | None] | None = None
    """(Parts, numbers of `ours`) -> a tensor that they store though it follows from the configs;
    None where they have none. Compared on load, made again on save. `ours` only says beside which
    of our keys it stands; with None it may be absent, and is carried."""

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

    def made(self, ours: Iterable[str], theirs: Iterable[str], parts: Parts) -> State:
        """-> what follows from the configs, by their whole keys."""
        if self.make is None:
            return {}
        if self.ours is None:
            return {key: self.make(parts) for key in theirs if self.carries(key)}  # type: ignore[misc]
        found: State = {}
        for key in ours:
            if (hit := _regex(self.ours).fullmatch(key)) is not None:
                numbers = {name: int(n) for name, n in hit.groupdict().items() if n.isdigit()}
                if (tensor := self.make(parts, **numbers)) is not None:
                    found[self.keys[0].format_map(hit.groupdict())] = tensor
        return found


PIECES = {"{i}": r"(?P<i>\d+)", "{s}": r"(?P<s>\d+)", "*": "(?P<p>weight|bias)"}


@functools.cache
def _regex(pattern: str) -> re.Pattern[str]:
    text = re.escape(pattern)
    for piece, group in PIECES.items():
        text = text.replace(re.escape(piece), group)
    return re.compile(text)


@functools.cache
def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One for all of several: files of 100,000 keys are asked about each."""
    texts = [re.sub(r"\(\?P<\w>", "(?:", _regex(pattern).pattern) for pattern in patterns]
    return re.compile("|".join(texts) or r"(?!)")


@dataclass(frozen=True)
class Plan:
    """What rules say of two sides' keys."""

    rules: dict[str, tuple[Rule, tuple[str, ...]]]
    """Our key -> its rule, their keys."""
    made: State
    """What they store though it follows, by their keys."""
    carried: set[str]
    """Their keys that are carried along."""
    orphans: list[str]
    """Our keys without a rule."""
    missing: list[str]
    """Their keys that are not there."""
    unknown: list[str]
    """Their keys that no rule accounts for."""

    @functools.cached_property
    def problems(self) -> list[str]:
        """In words; what is missing and unknown by turns, so that the first few show both."""
        wanted = {name: key for key, (_, names) in self.rules.items() for name in names}
        sides = (
            [f"{key}: the model has it, no rule makes it" for key in self.orphans],
            [f"{k}: missing (wanted for {wanted.get(k, 'what follows')})" for k in self.missing],
            [f"{key}: unknown" for key in self.unknown],
        )
        return [line for lines in itertools.zip_longest(*sides) for line in lines if line]

    @functools.cached_property
    def hint(self) -> tuple[str, int]:
        """What to do where all unknown keys, or all that are missing, begin alike; and how many
        problems are then left."""
        hints, left = [], len(self.problems)
        less = "leave them out if that part is not wanted"
        more = "add them, or build the model without it"
        for kind, keys, others, do, else_ in (
            ("unknown", self.unknown, self.missing, "take it off", less),
            ("missing", self.missing, self.unknown, "put it before", more),
        ):
            begin, starts = f"all {len(keys)} {kind} keys begin with", _starts(keys)
            for start in starts:
                if fit := len({key.removeprefix(start) for key in keys} & {*others}):
                    return f"{begin} {cut(start)!r}: {do}, and {fit} fit", left - 2 * fit
            hints += [f"{begin} {cut(starts[-1])!r}: {else_}"] if starts else []
        return "; ".join(hints), left


def _starts(keys: Sequence[str]) -> list[str]:
    """What several keys all begin with, up to each dot or slash, shortest first."""
    if len(keys) < 2:
        return []
    first, last = min(keys), max(keys)  # what these two share, all between them do
    starts = [first[: hit.end()] for hit in re.finditer(r"[./]", first)]
    return [start for start in starts if last.startswith(start)]


def _plan(
    rules: Sequence[Rule], ours: Iterable[str], theirs: Collection[str], parts: Parts
) -> Plan:
    given, made, hits = set(theirs), {}, {}
    for rule in rules:
        made |= rule.made(ours, given, parts)
        for key in ours if rule.make is None else ():
            if key not in hits and (names := rule.match(key)):
                hits[key] = (rule, names)
    wanted = dict.fromkeys(name for _, names in hits.values() for name in names)
    bears = _any(tuple(name for rule in rules if rule.ours is None for name in rule.keys))
    carried = {k for k in given if k not in wanted and bears.fullmatch(k)}
    wanted |= {name: None for name in made if name not in carried}
    return Plan(
        hits,
        made,
        carried,
        [key for key in ours if key not in hits],
        [key for key in wanted if key not in given],
        sorted(key for key in theirs if key not in wanted and key not in carried),
    )


def detect(
    layouts: Mapping[str, Sequence[Rule]],
    theirs: Collection[str],
    ours: Iterable[str],
    parts: Parts = ALONE,
) -> str:
    """Their keys, the keys of our model -> the layout whose keys are exactly theirs.

    ConversionError lists for the nearest one what is missing and what is unknown.
    """
    plans = {name: _plan(rules, ours, theirs, parts) for name, rules in layouts.items()}
    nearest = min(plans, key=lambda name: (plans[name].hint[1], len(plans[name].problems)))
    if problems := plans[nearest].problems:
        wants = f"These are the keys of none of the layouts {', '.join(plans)}"
        differ = f"{len(problems)} differ from the nearest, {nearest}"
        raise ConversionError(f"{wants}; {differ}", problems, *plans[nearest].hint)
    return nearest


def from_theirs(
    rules: Sequence[Rule],
    theirs: Mapping[str, Tensor],
    shapes: Mapping[str, torch.Size],
    parts: Parts = ALONE,
    where: object = "",
) -> tuple[State, State]:
    """Their state dict -> (ours, what is carried), for a model whose keys have `shapes`.

    ConversionError lists everything that is wrong, NaN and infinity too; `where` they come from
    is named in it.
    """
    plan = _plan(rules, shapes, theirs, parts)
    carried, ours = {key: theirs[key] for key in plan.carried}, {}
    taken: set[tuple[str, ...]] = set()
    found = {key: fault(tensor) for key, tensor in theirs.items()}
    problems = [*(f"{key}: {told}" for key, told in found.items() if told), *plan.problems]
    for name, tensor in plan.made.items():
        stored = theirs.get(name, tensor)
        if not same(stored, tensor):
            problems.append(f"{name}: its values are not those that follow from the model's sizes")
        elif stored.dtype != tensor.dtype or not torch.equal(stored.cpu(), tensor):
            carried[name] = stored  # its type and last digits are given back too
    for key, (rule, names) in plan.rules.items():
        if not all(name in theirs for name in names):
            continue
        given, they = [theirs[name] for name in names], " + ".join(names)
        try:
            pieces = [_ours(rule, tensor, parts) for tensor in given]
        except ConversionError:  # has not the axes of the form
            pieces = [torch.empty(()).to(tensor.dtype) for tensor in given]
        fits = all(piece.shape[1:] == pieces[0].shape[1:] for piece in pieces)
        ours[key] = torch.cat(pieces) if fits and len(pieces) > 1 else pieces[0]
        if names in taken and not rule.piece:
            ours[key] = ours[key].clone()  # each block is to train its own
        taken.add(names)
        if not all(tensor.is_floating_point() for tensor in given):
            problems.append(f"{they}: {', '.join(str(t.dtype) for t in given)}, no float")
        elif not fits or ours[key].shape != shapes[key]:
            got = " + ".join(str(tuple(tensor.shape)) for tensor in given)
            problems.append(f"{they}: shape {got}, the model's {key} is {tuple(shapes[key])}")
        if rule.piece:
            carried[names[0]] = theirs[names[0]]  # for the shares that no rule takes
    if problems:
        wants = f"{f'loading {where}'.rstrip()} found {len(problems)} tensors that do not fit"
        raise ConversionError(wants, problems, plan.hint[0])
    return ours, carried


def to_theirs(
    rules: Sequence[Rule],
    ours: Mapping[str, Tensor],
    parts: Parts = ALONE,
    carried: Mapping[str, Tensor] | None = None,
) -> State:
    """Our state dict -> theirs, the exact inverse of `from_theirs`."""
    plan, theirs = _plan(rules, ours, (), parts), dict(carried or {})
    if orphans := plan.orphans:
        raise ConversionError(f"this layout has no place for {len(orphans)} tensors", orphans)
    shared, differ = dict[str, Tensor](), list[str]()
    # what was carried may be of another size
    theirs |= {n: made for n, made in plan.made.items() if not same(theirs.get(n), made)}
    for key, (rule, names) in plan.rules.items():
        equal = [len(ours[key]) // len(names)] * len(names)
        sizes = equal if rule.sizes is None else rule.sizes(parts.backbone)
        for name, part in zip(names, ours[key].split(list(sizes)), strict=True):
            part = part.T.contiguous() if rule.transpose and part.ndim == 2 else part
            if rule.form:
                there, here = rule.form.split(" -> ")
                part = _shaped(part, f"{here} -> {there}", parts).contiguous()
            part = part.reshape((1,) * rule.lead + tuple(part.shape))
            if rule.piece:
                start, stop, count = rule.piece
                share = len(part) // (stop - start)
                whole = theirs.get(name, part.new_zeros(share * count, *part.shape[1:]))
                whole = shared.setdefault(name, whole.to(part, copy=True))
                whole[start * share : stop * share] = part
                part = whole
            elif (first := shared.setdefault(name, part)) is not part:
                told = f"{key}: is another than the first that {name} stands for"
                differ += [] if torch.equal(first, part) else [told]
            theirs[name] = part
    if differ:
        raise ConversionError("this layout has one tensor for several that differ", differ)
    return theirs


def _ours(rule: Rule, tensor: Tensor, parts: Parts) -> Tensor:
    """One of their tensors as ours has it."""
    if rule.lead and tensor.ndim > rule.lead:
        tensor = tensor.flatten(0, rule.lead)
    if rule.piece and tensor.ndim:
        start, stop, count = rule.piece
        tensor = tensor[start * len(tensor) // count : stop * len(tensor) // count]
    if rule.form:
        return _shaped(tensor, rule.form, parts)
    return tensor.T if rule.transpose and tensor.ndim == 2 else tensor


def _shaped(tensor: Tensor, form: str, parts: Parts) -> Tensor:
    """A tensor in another form. ConversionError where it has not the first form's axes."""
    sizes = {axis: int(number) for axis, number in re.findall(r"([a-z]+(\d+))", form)}
    if "H" in form:
        sizes["H"] = parts.backbone.stages[0].block.attn.heads
    if "P" in form or "Y" in form:
        sides = zip("PQYX", (*pair(parts.adapter.patch), *parts.grid), strict=True)
        sizes |= {axis: side for axis, side in sides if axis in form}
    try:
        return rearrange(tensor, form, **sizes)
    except EinopsError:
        raise ConversionError(f"this layout has {form}, not {(*tensor.shape,)}") from None


def fault(tensor: Tensor) -> str:
    """Why a tensor's values are none for a model, "" where they may be: they must be there, and
    finite in the type that is computed with."""
    if tensor.is_meta or tensor.layout is not torch.strided:
        return f"has no plain values ({tensor.device}, {tensor.layout})"
    if not tensor.is_floating_point():
        return ""
    values = tensor.to(torch.get_default_dtype())
    finite = values.sum().isfinite() or values.isfinite().all()  # the sum tells, or overflows
    return "" if finite else "holds NaN or infinity: take an earlier checkpoint"


def same(a: Tensor | None, b: Tensor) -> bool:
    """Whether two tensors hold the same within the digits of the coarser; none is no other's."""
    if a is None or a.shape != b.shape or a.is_floating_point() != b.is_floating_point():
        return False
    coarse = 1e-6 if a.dtype in (torch.float32, torch.float64) else 1e-2
    return torch.allclose(a.cpu().double(), b.double(), rtol=coarse, atol=coarse)
