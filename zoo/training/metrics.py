"""How well a classifier answers, exact over uneven batches and over several processes."""

from torch import Tensor, nn
from torchmetrics.aggregation import SumMetric
from torchmetrics.classification import MulticlassConfusionMatrix, MulticlassStatScores

METRICS = ("loss", "accuracy", "macro_f1")
MOST_CLASSES = 100  # of a confusion matrix: more fill neither a readable figure nor little memory
DIGITS = 6  # behind the point


class ClassifyMetrics(nn.Module):
    """Mean loss, top-1 accuracy and macro-F1 over the rows seen since the last `compute`.

    All states are sums over rows, so processes with different numbers of rows add up to what one
    process gets. Macro-F1 averages over the classes that occur among targets or answers, as
    scikit-learn does.
    """

    def __init__(self, classes: int):
        super().__init__()
        # not MeanMetric, which forgets its weights where NaNs are to stay (torchmetrics 1.9)
        self.total = SumMetric(nan_strategy="disable")
        self.count = SumMetric(nan_strategy="disable")
        self.scores = MulticlassStatScores(classes, average="none", validate_args=False)
        self.pairs = (
            MulticlassConfusionMatrix(classes, validate_args=False)
            if classes <= MOST_CLASSES
            else None
        )
        self.values: dict[str, float] = {}
        """As of the last `compute`: exact, where Lightning's own records are float32."""
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
        # counts are whole numbers; in double their quotients round to what a reader expects
        hit, false, _, missed, rows = self.scores.compute().cpu().double().unbind(-1)
        occurs = 2 * hit + false + missed
        values = {
            "loss": self.total.compute().item() / self.count.compute().item(),
            "accuracy": (hit.sum() / rows.sum()).item(),
            "macro_f1": (2 * hit / occurs)[occurs > 0].mean().item(),
        }
        self.confusion = None if self.pairs is None else self.pairs.compute().cpu()
        for metric in (self.total, self.count, self.scores, self.pairs):
            if metric is not None:
                metric.reset()
        self.values = {name: round(value, DIGITS) for name, value in values.items()}
        return self.values
