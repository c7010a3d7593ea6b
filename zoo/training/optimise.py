"""AdamW, which of its parameters decay, and the learning rate of each, step by step."""

import math
from collections.abc import Callable
from typing import Any

from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from zoo.model import Model, decays
from zoo.training.config import OptimConfig


def parameter_groups(model: Model, config: OptimConfig) -> list[dict[str, Any]]:
    """The parameters that learn, each once and with its name, as groups for AdamW: those of one
    rate, one start and one decay together.

    The head learns at `head_lr`; the rest at `lr`, times `layer_decay` for each block between it
    and the head (Clark et al. 2020, arXiv:2003.10555; BEiT's way). By `unfreeze` the deepest start
    at once, and the others one after another, the adapter last (gradual unfreezing: Howard & Ruder
    2018, arXiv:1801.06146); "start" is the share of all steps before that.
    """
    groups: dict[tuple[float, float, bool], dict[str, Any]] = {}
    last = model.depth_of("head")
    seen: set[int] = set()  # a tied parameter goes with the first module that has it
    for path, owner in model.named_modules():
        above = last - model.depth_of(path)
        rate = config.lr * config.layer_decay**above
        if config.head_lr is not None and path.split(".")[0] == "head":
            rate = config.head_lr
        start = config.unfreeze * above / last
        for name, parameter in owner.named_parameters(recurse=False):
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                decay = decays(owner, path, name)
                group = {"params": [], "lr": rate, "start": start,
                         "weight_decay": config.weight_decay if decay else 0.0}  # fmt: skip
                named = (f"{path}.{name}".lstrip("."), parameter)
                groups.setdefault((rate, start, decay), group)["params"].append(named)
    return [groups[key] for key in sorted(groups, reverse=True)]


def warmup_cosine(steps: int, warmup: float, min_lr: float) -> Callable[[int], float]:
    """Factor of the peak lr by optimizer step 0 ... steps - 1.

    It rises in a line over the first `warmup` share of the steps, is 1 right after them, falls as
    half a cosine (Loshchilov & Hutter 2017, arXiv:1608.03983) and is `min_lr` in the last step.
    """
    rise = min(round(warmup * steps), steps - 1)

    def factor(step: int) -> float:
        if step < rise:
            return (step + 1) / (rise + 1)
        done = min((step - rise) / max(steps - 1 - rise, 1), 1.0)
        return min_lr + (1 - min_lr) * (1 + math.cos(math.pi * done)) / 2

    return factor


def make_optimizer(model: Model, config: OptimConfig) -> AdamW:
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101), fused."""
    groups = parameter_groups(model, config)
    return AdamW(groups, lr=config.lr, betas=config.betas, fused=True)


def make_schedule(optimizer: AdamW, steps: int, config: OptimConfig) -> LambdaLR:
    """Warm-up and cosine over `steps` optimizer steps, of each group from its start on; its
    `step()` is called after each."""
    factor = warmup_cosine(steps, config.warmup, config.min_lr)

    def from_start(start: float) -> Callable[[int], float]:
        return lambda step: factor(step) if step >= start * steps else 0.0

    return LambdaLR(optimizer, [from_start(group["start"]) for group in optimizer.param_groups])
