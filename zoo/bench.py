"""Side by side with peers: the same weights, one process, alternating, and the ratio with its
interval.

A shared machine is noisy, so a time alone says little. Here both sides run in turn, in an order
that changes from round to round, and what is reported is the ratio of neighbours.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

import zoo
from zoo.errors import UserError, one_of
from zoo.fast import Packed
from zoo.training.environment import describe


@dataclass(frozen=True)
class Ratio:
    """How many times as fast ours is as theirs."""

    name: str
    ours: float
    """Median seconds of one call."""
    theirs: float
    ratio: float
    """Median of theirs / ours over rounds: above 1, ours is faster."""
    low: float
    """Lower end of the 95 % bootstrap interval of that median."""
    high: float
    rounds: int

    def __str__(self) -> str:
        return (
            f"{self.name}: ours {self.ours * 1e3:.1f} ms, theirs {self.theirs * 1e3:.1f} ms, "
            f"{self.ratio:.3f}x [{self.low:.3f}, {self.high:.3f}] over {self.rounds} rounds"
        )


def race(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 100
) -> Ratio:
    """Run both in turn `rounds` times, after three unmeasured turns each, and compare
    neighbours."""
    sides = (ours, theirs)
    for side in sides * 3:
        side()
    times = np.empty((rounds, 2))
    for i in range(rounds):
        for j in (0, 1) if i % 2 else (1, 0):
            start = time.perf_counter()
            sides[j]()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times[i, j] = time.perf_counter() - start
    ratios = times[:, 1] / times[:, 0]
    draws = np.random.default_rng(0).choice(ratios, (2000, rounds))
    low, high = np.quantile(np.median(draws, 1), (0.025, 0.975))
    ours_s, theirs_s = np.median(times, 0)
    return Ratio(name, ours_s, theirs_s, float(np.median(ratios)), float(low), float(high), rounds)


def hardware() -> str:
    """The processor, its threads and the version that figures depend on, in one line."""
    facts, able = describe(), torch.cpu.get_capabilities()
    fast = " with AMX" if able.get("amx_bf16") or able.get("amx_tile") else ""
    where = ", ".join([f"{facts['processor']}{fast}", *facts["gpus"]])
    return f"{where}, {facts['threads']} threads, torch {torch.__version__}"


def with_timm(name: str, dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    """-> (ours, timm's) in eval with the same weights, through the conversion rules."""
    import timm

    torch.manual_seed(0)
    theirs = timm.create_model(name, num_classes=1000).eval()
    ours = zoo.create(name, classes=1000).eval()
    zoo.load_state(ours, theirs.state_dict(), layout="timm")
    return ours.to(dtype), theirs.to(dtype)


def pictures(dtype: torch.dtype, size: int = 224, batch: int = 8) -> Tensor:
    """-> (batch, 3, size, size), the same each time."""
    return torch.randn(batch, 3, size, size, generator=torch.Generator().manual_seed(0)).to(dtype)


def forward(what: str, ours: Callable[[Tensor], object], theirs: Callable[[Tensor], object],
            dtype: torch.dtype, rounds: int) -> Ratio:  # fmt: skip
    """ViT-B/16 forward at 224 px, batch 8, by both sides."""
    x, name = pictures(dtype), f"vit_base_patch16_224 forward {dtype}, batch 8, {what}"
    with torch.inference_mode():
        return race(name, lambda: ours(x), lambda: theirs(x), rounds)


def vit(dtype: torch.dtype, rounds: int) -> Ratio:
    """Ours against timm's."""
    return forward("against timm", *with_timm("vit_base_patch16_224", dtype), dtype, rounds)


def packed(dtype: torch.dtype, rounds: int) -> Ratio:
    """`zoo.fast.Packed` against the model that it was made from."""
    torch.manual_seed(0)
    model = zoo.create("vit_base_patch16_224", classes=1000).eval().to(dtype)
    return forward("packed against not", Packed(model), model, dtype, rounds)


CASES: dict[str, Callable[[int], Ratio]] = {
    "vit-bf16": lambda rounds: vit(torch.bfloat16, rounds),
    "vit-fp32": lambda rounds: vit(torch.float32, rounds),
    "packed-bf16": lambda rounds: packed(torch.bfloat16, rounds),
    "packed-fp32": lambda rounds: packed(torch.float32, rounds),
}


def run(names: list[str], rounds: int = 100) -> list[Ratio]:
    """The named cases, or all. UserError for an unknown name or too few rounds."""
    if rounds < 10:
        raise UserError(f"bench takes at least 10 rounds, for an interval; got {rounds}")
    return [CASES[one_of("bench", "case", name, CASES)](rounds) for name in names or CASES]
