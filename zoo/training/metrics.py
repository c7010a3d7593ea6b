"""How well a model answers, exact over uneven batches and over several processes.

All states are sums over rows, so processes with different numbers of rows add up to what one
process gets.
"""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.classification import (
    MulticlassConfusionMatrix,
    MulticlassStatScores,
    MultilabelStatScores,
)

from zoo.errors import OptionError, UserError, suggest
from zoo.inputs.scene import IGNORED
from zoo.training.config import SelectConfig

MOST_CLASSES = 100  # of a confusion matrix: more fill neither a readable figure nor little memory
DIGITS = 6  # behind the point


class Sums(Metric):
    """Sums of the given shape, over rows and processes, in which NaN stays."""

    value: Tensor

    def __init__(self, *shape: int):
        super().__init__()
        self.add_state("value", torch.zeros(shape), dist_reduce_fx="sum")

    def update(self, value: Tensor) -> None:
        """Add one."""
        self.value = self.value + value

    def compute(self) -> Tensor:
        """-> the sums."""
        return self.value


class Metrics(nn.Module):
    """Base: the mean loss over the rows seen since the last `compute`, and what a subclass adds."""

    best: ClassVar[dict[str, str]] = {}
    """The name of each metric, and whether its max or its min is best; the first decides, unless
    the config says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.total, self.count = Sums(), Sums()
        self.values: dict[str, float] = {}
        """As of the last `compute`: exact, where Lightning's own records are float32."""
        self.confusion: Tensor | None = None
        """(target, answer) counts as of the last `compute`; None for more than 100 classes, and for
        targets that are no single class."""

    def update(self, answer: Any, target: Tensor, total: Tensor, count: Tensor) -> None:
        """(B, classes) answers, or what the head makes of them, the targets, the sum of losses, how
        many: count them in."""
        self.total.update(total)
        self.count.update(count)
        self.add(answer, target)

    def add(self, answer: Any, target: Tensor) -> None:
        """Count in what the metrics of this target need."""
        raise NotImplementedError

    def measured(self) -> dict[str, float]:
        """The metrics of this target by name, over all processes."""
        raise NotImplementedError

    def compute(self) -> dict[str, float]:
        """{"loss", ...} over all processes; starts anew."""
        loss = self.total.compute().item() / (self.count.compute().item() or 1)
        values = {"loss": loss, **self.measured()}
        for metric in self.children():
            metric.reset()  # type: ignore[operator]  # torchmetrics all
        self.values = {name: round(value, DIGITS) for name, value in values.items()}
        return self.values


class ClassifyMetrics(Metrics):
    """Mean loss, top-1 accuracy and macro-F1, for one class each.

    Macro-F1 averages over the classes that occur among targets or answers, as scikit-learn does.
    """

    best: ClassVar[dict[str, str]] = {"accuracy": "max", "macro_f1": "max", "loss": "min"}

    def __init__(self, classes: int):
        super().__init__()
        self.scores = MulticlassStatScores(classes, average="none", validate_args=False)
        self.pairs = (
            MulticlassConfusionMatrix(classes, validate_args=False)
            if classes <= MOST_CLASSES
            else None
        )

    def add(self, answer: Tensor, target: Tensor) -> None:
        """(B, classes) logits, (B,) int64."""
        self.scores.update(answer, target)
        if self.pairs is not None:
            self.pairs.update(answer, target)

    def measured(self) -> dict[str, float]:
        """{"accuracy", "macro_f1"}."""
        # counts are whole numbers; in double their quotients round to what a reader expects
        hit, false, _, missed, rows = self.scores.compute().cpu().double().unbind(-1)
        occurs = 2 * hit + false + missed
        self.confusion = None if self.pairs is None else self.pairs.compute().cpu()
        return {
            "accuracy": (hit.sum() / rows.sum()).item(),
            "macro_f1": (2 * hit / occurs)[occurs > 0].mean().item(),
        }


class LabelsMetrics(Metrics):
    """Mean loss, micro- and macro-F1 and the share of rows with all labels right, at 0.5.

    Macro-F1 averages over the labels that occur among targets or answers (scikit-learn's
    `zero_division=nan`); where none does at all, both are 0.
    """

    best: ClassVar[dict[str, str]] = {
        "macro_f1": "max", "micro_f1": "max", "exact_match": "max", "loss": "min",
    }  # fmt: skip

    def __init__(self, classes: int):
        super().__init__()
        self.scores = MultilabelStatScores(classes, average="none", validate_args=False)
        self.exact = Sums()

    def add(self, answer: Tensor, target: Tensor) -> None:
        """(B, classes) logits, (B, classes) of 0 and 1."""
        has = (answer >= 0).to(target)  # a probability of at least 0.5
        self.scores.update(has, target)
        self.exact.update((has == target).all(-1).sum())

    def measured(self) -> dict[str, float]:
        """{"micro_f1", "macro_f1", "exact_match"}."""
        hit, false, _, missed, _ = self.scores.compute().cpu().double().unbind(-1)
        occurs = 2 * hit + false + missed
        each = (2 * hit / occurs)[occurs > 0]
        return {
            "micro_f1": (2 * hit.sum() / occurs.sum().clamp(min=1)).item(),
            "macro_f1": each.mean().item() if len(each) else 0.0,
            "exact_match": self.exact.compute().item() / self.count.compute().item(),
        }


class NumbersMetrics(Metrics):
    """Mean loss, and mean squared and absolute error and R squared, means over the outputs.

    The loss is the squared error of the standardised numbers; mse and mae are in the data's own
    units. R squared is the explained share of the variance of each output, as in scikit-learn:
    where that variance is 0, it is 0, or 1 for answers without error.
    """

    best: ClassVar[dict[str, str]] = {"mse": "min", "mae": "min", "r2": "max", "loss": "min"}

    def __init__(self, deviations: Sequence[float]):
        super().__init__()
        self.deviations = torch.tensor(deviations, dtype=torch.float64)  # a plain value: no state
        self.sums = Sums(4, len(deviations))  # of squared and absolute errors, y and y squared

    def add(self, answer: Tensor, target: Tensor) -> None:
        """(B, outputs) standardised numbers, float: so their sums keep their digits in float32."""
        error = answer - target
        self.sums.update(torch.stack((error.square(), error.abs(), target, target.square())).sum(1))

    def measured(self) -> dict[str, float]:
        """{"mse", "mae", "r2"}."""
        squares, sizes, means, powers = self.sums.compute().cpu().double()
        count, scale = self.count.compute().item(), self.deviations
        spread = powers - means.square() / count
        varies = spread > 1e-6 * powers  # below, what is left of a subtraction in float32
        flat = (squares == 0).double()
        r2 = torch.where(varies, 1 - squares / torch.where(varies, spread, 1), flat)
        return {
            "mse": (squares * scale.square()).mean().item() / count,
            "mae": (sizes * scale).mean().item() / count,
            "r2": r2.mean().item(),
        }


class MaskMetrics(Metrics):
    """Mean loss, mean intersection over union and accuracy, of all pixels of all pictures at once.

    The mean is over the classes that occur among targets or answers. Pixels that do not count are
    in none of them.
    """

    best: ClassVar[dict[str, str]] = {"mean_iou": "max", "pixel_accuracy": "max", "loss": "min"}

    def __init__(self, classes: int):
        super().__init__()
        self.pairs = MulticlassConfusionMatrix(classes, ignore_index=IGNORED, validate_args=False)

    def add(self, answer: Tensor, target: Tensor) -> None:
        """(B, classes, h, w) logits, (B, h, w) int64."""
        self.pairs.update(answer.argmax(1), target)

    def measured(self) -> dict[str, float]:
        """{"mean_iou", "pixel_accuracy"}."""
        counts = self.pairs.compute().cpu().double()
        hit, union = counts.diag(), counts.sum(0) + counts.sum(1) - counts.diag()
        self.confusion = counts.long() if len(counts) <= MOST_CLASSES else None
        return {
            "mean_iou": (hit / union)[union > 0].mean().item(),
            "pixel_accuracy": (hit.sum() / counts.sum()).item(),
        }


class BoxesMetrics(Metrics):
    """Mean loss and COCO's average precision of the 100 surest boxes of each picture: ap, the mean
    over overlaps of 0.5 to 0.95 and over the classes that occur, and ap50, at an overlap of 0.5.

    Both are -1 where there is no box to be found. UserError where pycocotools, which measures, is
    not installed.
    """

    best: ClassVar[dict[str, str]] = {"ap": "max", "ap50": "max", "loss": "min"}

    def __init__(self, classes: int):
        super().__init__()
        if find_spec("pycocotools") is None:
            wants = "measuring boxes takes pycocotools, which is not installed"
            raise UserError(f"{wants}: pip install pycocotools, or omnizoo[detect]")
        self.rows: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []  # found, true: a picture

    def add(self, answer: list[dict[str, Tensor]], target: Tensor) -> None:
        """What `Detect.found` gives of B pictures, (B, most, 5)."""
        for found, rows in zip(answer, target.cpu(), strict=True):
            real = rows[rows[:, 4] >= 0].float()
            true = {"boxes": real[:, :4], "labels": real[:, 4].long()}
            self.rows.append(({name: x.cpu() for name, x in found.items()}, true))

    def measured(self) -> dict[str, float]:
        """{"ap", "ap50"}."""
        from torchmetrics.detection import MeanAveragePrecision

        each: list[Any] = [self.rows]
        if dist.is_available() and dist.is_initialized():  # ranks differ in how many they have
            each = [None] * dist.get_world_size()
            dist.all_gather_object(each, self.rows)
        metric = MeanAveragePrecision(sync_on_compute=False)
        metric.warn_on_many_detections = False  # the docstring says that 100 count
        for found, true in (pair for rows in each for pair in rows):
            metric.update([found], [true])
        self.rows = []
        values = metric.compute()
        return {"ap": values["map"].item(), "ap50": values["map_50"].item()}


class PixelsMetrics(Metrics):
    """The mean loss of what was hidden."""

    best: ClassVar[dict[str, str]] = {"loss": "min"}

    def __init__(self, classes: int):
        super().__init__()

    def add(self, answer: Any, target: Tensor) -> None:
        """Nothing beside the loss."""

    def measured(self) -> dict[str, float]:
        """{}."""
        return {}


METRICS: dict[str, type[Metrics]] = {
    "pixels": PixelsMetrics,
    "mask": MaskMetrics,
    "boxes": BoxesMetrics,
    "label": ClassifyMetrics,
    "labels": LabelsMetrics,
    "numbers": NumbersMetrics,
}


def chosen(select: SelectConfig, target: str) -> SelectConfig:
    """With the metric and the mode that None stands for: the first of the target's, and its best.

    UserError for a metric that is not measured for this target, OptionError for keeping the worst.
    """
    best = METRICS[target].best
    metric = select.metric or next(iter(best))
    if metric not in best:
        hint = suggest(metric, best) or f": give null for {next(iter(best))}"
        takes = f"select.metric takes {', '.join(best)} where a target is {target}"
        raise UserError(f"{takes}; got {metric!r}{hint}")
    mode = select.mode or best[metric]
    if mode != best[metric]:
        takes = f"select.mode takes {best[metric]} or null with select.metric {metric}"
        todo = f"the best is the {WORDS[best[metric]]}, give --select.mode {best[metric]}"
        raise OptionError(f"{takes}; got {mode}: {todo}", "select.mode")
    return replace(select, metric=metric, mode=mode)  # type: ignore[arg-type]  # max or min


WORDS = {"max": "most", "min": "least"}
