"""AdamW, which of its parameters decay, and the learning rate step by step."""

import math
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from zoo.nn.mlp import Experts
from zoo.training.config import OptimConfig

MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def decays(owner: nn.Module, path: str, name: str) -> bool:
    """Whether the parameter `name` of the module `owner`, which lies at `path`, has weight decay.

    One rule: what multiplies tokens decays, that is the `weight` of a Linear or a convolution and
    the matrices `up` and `down` of Experts, unless it makes positions. What is looked up or added
    does not: tables of subwords, segments, positions and relative biases, class and register
    tokens, queries; nor do norms, biases and layer scales.
    """
    if isinstance(owner, Experts):
        return name in ("up", "down")
    return name == "weight" and isinstance(owner, MATRICES) and "position" not in path


def parameter_groups(model: nn.Module, lr: float, weight_decay: float) -> list[dict[str, Any]]:
    """The trainable parameters, each once and with its name, as one or two groups for AdamW."""
    groups: dict[bool, dict[str, Any]] = {
        decay: {"params": [], "lr": lr, "weight_decay": weight_decay if decay else 0.0}
        for decay in (True, False)
    }
    seen: set[int] = set()  # a tied parameter goes with the first module that has it
    for path, owner in model.named_modules():
        for name, parameter in owner.named_parameters(recurse=False):
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                named = (f"{path}.{name}".lstrip("."), parameter)
                groups[decays(owner, path, name)]["params"].append(named)
    return [group for group in groups.values() if group["params"]]


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


def make_optimizer(model: nn.Module, config: OptimConfig) -> AdamW:
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101), fused."""
    groups = parameter_groups(model, config.lr, config.weight_decay)
    return AdamW(groups, lr=config.lr, betas=config.betas, fused=True)


def make_schedule(optimizer: AdamW, steps: int, config: OptimConfig) -> LambdaLR:
    """Warm-up and cosine over `steps` optimizer steps; its `step()` is called after each."""
    return LambdaLR(optimizer, warmup_cosine(steps, config.warmup, config.min_lr))
