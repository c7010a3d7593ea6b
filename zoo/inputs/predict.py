"""Raw samples through a model, and its answers by name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from zoo.errors import UserError
from zoo.inputs.prepare import Prepare


@torch.inference_mode()
def predict(
    model: nn.Module, prepare: Prepare, labels: Sequence[str] | None, source: Any, batch: int = 64
) -> Any:
    """A sample, or a list of them -> {"label", "probability", "probabilities"}, or a list of them.

    The model answers in eval mode, `batch` samples at a time, and is left in the mode it was in.
    A path is repeated as "file". UserError for a bad sample, and for answers that are not finite.
    """
    if batch < 1:
        raise UserError(f"predict takes batches of at least 1; got {batch}")
    many = isinstance(source, (list, tuple))
    sources, rows, was_training = source if many else [source], [], model.training
    place = next(model.parameters())
    model.eval()
    try:
        for start in range(0, len(sources), batch):
            inputs = prepare.batch([prepare(s) for s in sources[start : start + batch]])
            rows += model(**to_device(inputs, place)).float().softmax(-1).tolist()
    finally:
        model.train(was_training)
    if any(p != p for row in rows for p in row):  # only NaN differs from itself
        raise UserError("predict takes a model of finite weights; this one answers NaN")
    answers = [named(s, row, labels) for s, row in zip(sources, rows, strict=True)]
    return answers if many else answers[0]


def to_device(inputs: dict[str, Tensor], like: Tensor) -> dict[str, Tensor]:
    """The tensors where `like` is; fractions in its dtype too."""
    return {
        name: x.to(like.device, like.dtype if x.is_floating_point() else x.dtype)
        for name, x in inputs.items()
    }


def named(source: Any, row: list[float], labels: Sequence[str] | None) -> dict[str, Any]:
    """The probability of each class -> the answer; classes without labels are numbered."""
    names = labels or [str(i) for i in range(len(row))]
    best = max(range(len(row)), key=row.__getitem__)
    answer = {
        "label": names[best],
        "probability": row[best],
        "probabilities": dict(zip(names, row, strict=True)),
    }
    return {"file": str(source), **answer} if isinstance(source, (str, Path)) else answer
