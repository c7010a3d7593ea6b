"""How well a classifier answers, exact over uneven batches and over several processes."""

from torch import Tensor, nn
from torchmetrics import MetricCollection
from torchmetrics.aggregation import SumMetric
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)

METRICS = ("loss", "accuracy", "macro_f1")
MOST_CLASSES = 100  # of a confusion matrix: more fill neither a readable figure nor little memory


class ClassifyMetrics(nn.Module):
    """Mean loss, top-1 accuracy and macro-F1 over the rows seen since the last `compute`.

    All states are sums over rows, so processes with different numbers of rows add up to what one
    process gets. Macro-F1 averages over the classes that occur among targets or answers, as
    scikit-learn does.
    """

    def __init__(self, classes: int):
        super().__init__()
        kind = {"num_classes": classes, "validate_args": False}
        # not MeanMetric, which forgets its weights where NaNs are to stay (torchmetrics 1.9)
        self.total = SumMetric(nan_strategy="disable")
        self.count = SumMetric(nan_strategy="disable")
        self.scores = MetricCollection(
            {
                "accuracy": MulticlassAccuracy(average="micro", **kind),
                "macro_f1": MulticlassF1Score(average="macro", **kind),
            }
        )
        self.pairs = MulticlassConfusionMatrix(**kind) if classes <= MOST_CLASSES else None
        self.confusion: Tensor | None = None
        """(target, answer) counts as of the last `compute`; None with more than 100 classes."""

    def update(self, answer: Tensor, target: Tensor, total: Tensor, count: Tensor) -> None:
        """(B, classes) logits, (B,) int64, the sum of losses, how many: count them in."""
        self.total.update(total)
        self.count.update(count)
        self.scores.update(answer, target)
        if self.pairs is not None:
            self.pairs.update(answer, target)

    def compute(self) -> dict[str, float]:
        """{"loss", "accuracy", "macro_f1"} over all processes; starts anew."""
        values = {"loss": self.total.compute() / self.count.compute(), **self.scores.compute()}
        self.confusion = None if self.pairs is None else self.pairs.compute().cpu()
        for metric in (self.total, self.count, self.scores, self.pairs):
            if metric is not None:
                metric.reset()
        return {name: round(value.item(), 6) for name, value in values.items()}
