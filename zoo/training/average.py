"""A running mean of the weights, which stands in for them wherever they are measured or kept."""

from typing import Any

import torch
from lightning import Trainer
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor


class Average(WeightAveraging):
    """mean + (1 - decay) (weights - mean) after each optimizer step (Polyak & Juditsky 1992).

    Early on a step n counts as much as decay (1 + n) / (10 + n) lets it, so that a short training
    is no mean of its start. Numbers that are no floats, such as counters, are copied. Validation,
    checkpoints and the exported model have the mean; `current_model_state` of a checkpoint has the
    weights themselves.
    """

    def __init__(self, decay: float):
        def follow(means: list[Tensor], weights: list[Tensor], steps: Any) -> None:
            n = float(steps)
            torch._foreach_lerp_(means, weights, 1 - min(decay, (1 + n) / (10 + n)))  # type: ignore[reportPrivateImportUsage]

        super().__init__(use_buffers=False, multi_avg_fn=follow)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        """The mean is measured while it is made; afterwards, whatever the model then holds."""
        if trainer.state.fn == "fit":
            super().on_validation_epoch_start(trainer, pl_module)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Training goes on with the weights themselves."""
        if trainer.state.fn == "fit":
            super().on_validation_epoch_end(trainer, pl_module)
