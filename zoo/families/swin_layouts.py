"""Names that libraries give to what every Swin has, and what they store though it follows."""

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from zoo.convert import Parts, Rule
from zoo.families.layouts import INNER
from zoo.ops import log_offsets, relative_index
from zoo.shapes import pair
from zoo.tokens import Tokens


def index(parts: Parts, s: int, i: int) -> Tensor:
    """-> (N, N) int64: the row of the table for each pair of a window's places."""
    window = parts.backbone.stages[s].block.attn.grouping.window
    return relative_index(window, torch.device("cpu"))


def flat_index(parts: Parts, s: int, i: int) -> Tensor:
    """-> (N * N,) int64."""
    return index(parts, s, i).flatten()


def offsets(parts: Parts, s: int, i: int) -> Tensor:
    """-> (1, 2 h - 1, 2 w - 1, 2) fp32: what version 2's MLP reads."""
    kind = parts.backbone.stages[s].block.attn.position
    spaced = log_offsets(kind.window, kind.trained or kind.window, torch.device("cpu"))
    return spaced.unflatten(0, [2 * w - 1 for w in kind.window])[None]


def mask(parts: Parts, s: int, i: int) -> Tensor | None:
    """-> (n, N, N) fp32: -100 where shifted windows at the native size keep a pair apart."""
    c = parts.adapter
    sides = zip(pair(c.size), c.patch, strict=True)
    h, w = (math.ceil(side / patch / 2**s) for side, patch in sides)
    windows = parts.backbone.stages[s].config_of(i).attn.grouping
    allowed = windows.layout(Tokens(torch.empty(1, 0, 1), grid=(1, h, w))).allowed
    return None if allowed is None else torch.where(allowed[:, 0], 0.0, -100.0)


TABLE = Rule("attn.relative_position_bias_table", "attn.position.table")
INDEX = Rule("attn.relative_position_index", "attn.qkv.weight", make=index)
FLAT = replace(INDEX, make=flat_index)
MASK = Rule("attn_mask", "attn.qkv.weight", make=mask)
OFFSETS = Rule("attn.relative_coords_table", "attn.qkv.weight", make=offsets)
SPLIT = ",".join(f"attention.{n}_proj" for n in "qkv")
SPLIT_V4 = ",".join(f"attention.self.{n}" for n in ("query", "key", "value"))


# fmt: off
def layout(ends: str, block: str, names: str, merge: str, *more: Rule) -> tuple[Rule, ...]:
    """`ends`: stem, its norm, last norm, head.  `names`: a block's six in the order of INNER.
    `block`, `merge`: {0} is the stage, {1} the one before, {2} twice its number, {3} and {4} one
    more and less.    `more`: further rules within a block."""
    ours = ("adapter.stem", "adapter.norm", "backbone.norm", "head.out")
    rules = [Rule(f"{theirs}.*", f"{o}.*") for theirs, o in zip(ends.split(), ours, strict=True)]
    for s in range(4):
        numbers = (s, s - 1, 2 * s, 2 * s + 1, 2 * s - 1)
        theirs, mine = block.format(*numbers), f"backbone.stages.{s}.blocks.{{i}}"
        for each, part in zip(names.split(), INNER, strict=True):
            keys = tuple(f"{theirs}.{name}.*" for name in each.split(","))
            rules.append(Rule(keys, f"{mine}.{part}.*"))
        rules += [replace(rule, theirs=f"{theirs}.{rule.theirs}", ours=f"{mine}.{rule.ours}",
                          make=rule.make and partial(rule.make, s=s)) for rule in more]
        there, here = merge.format(*numbers), f"backbone.stages.{s}.merge"
        rules += [Rule(f"{there}.norm.*", f"{here}.norm.*"),
                  Rule(f"{there}.reduction.*", f"{here}.project.*")]
    return tuple(rules)
# fmt: on
