"""What one answer to every sample reaches, to be read beside a model's figures."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from zoo.training.config import SelectConfig
from zoo.training.metrics import METRICS
from zoo.training.task import standardise

NAMES = {
    "label": "always the commonest class",
    "labels": "always the labels that half of train has",
    "numbers": "always the mean of train",
}
CHUNK = 4096  # rows at a time
Baselines = Mapping[str, Mapping[str, Mapping[str, float]]]  # by split and name, metrics


def baselines(splits: Any, head: nn.Module) -> Baselines:
    """Those that the data brought, or else of the answer that fits train best without a look at any
    sample, by the loss and the metrics of the model itself.

    For classes these are the logarithms of their shares of train, so the loss is that of guessing
    by them. None where there is no train, and for targets that one answer cannot meet.
    """
    if splits.baselines or splits.train is None or splits.target not in NAMES:
        return splits.baselines
    answer, name = constant(splits), NAMES[splits.target]
    rows = {split: part for split, part in splits.rows().items() if split != "train"}
    return {split: {name: measured(answer, part, splits, head)} for split, part in rows.items()}


def constant(splits: Any) -> Tensor:
    """-> (classes,): logits, or standardised numbers."""
    if splits.target == "numbers":
        return torch.zeros(len(splits.labels))  # the mean, as it is learned
    counts = torch.tensor(splits.train.counts(), dtype=torch.float64)
    if splits.target == "label":
        return counts.clamp(min=0.5).log().log_softmax(-1).float()
    share = (counts / len(splits.train)).clamp(1e-6, 1 - 1e-6)
    return share.logit().float()


def measured(answer: Tensor, rows: Any, splits: Any, head: Any) -> dict[str, float]:
    """(classes,) for each of the rows -> its loss and metrics."""
    make: Any = METRICS[splits.target]
    metrics = make([d for _, d in splits.scale] if splits.scale else len(answer))
    for part in metrics.modules():  # one rank has all rows, and the others do not compute with it
        part.distributed_available_fn = lambda: False
    for start in range(0, len(rows), CHUNK):
        kind = torch.int64 if splits.target == "label" else torch.float64
        target = torch.tensor(rows.targets[start : start + CHUNK], dtype=kind)
        batch = {"target": target}
        if splits.target == "numbers":
            batch = standardise(batch, splits.scale)
        elif splits.target == "labels":
            batch = {"target": target.long()}
        same = answer.expand(len(target), -1)
        total, count = head.loss(same, batch)["loss"]
        metrics.update(same, batch["target"], total, count)
    return metrics.compute()


def behind(
    metrics: Mapping[str, Mapping[str, float]], baselines: Baselines, select: SelectConfig
) -> str:
    """{split: metrics} of the model and {split: {name: metrics}} -> one sentence about the splits
    on which the best baseline is better, or as good; "" if there is none."""
    name, best = str(select.metric), max if select.mode == "max" else min
    told: dict[str, list[str]] = {"worse": [], "no better": []}
    for split, values in metrics.items():
        known = {b: v[name] for b, v in baselines.get(split, {}).items()}
        first = best(known, key=known.__getitem__, default=None)
        if first is not None and best(known[first], values[name]) == known[first]:
            how = "no better" if known[first] == values[name] else "worse"
            told[how].append(f"{split} ({name} {values[name]:.4g}; {first}: {known[first]:.4g})")
    parts = [f"{how} than a baseline on {' and '.join(on)}" for how, on in told.items() if on]
    return f"the model is {', and '.join(parts)}" if parts else ""
