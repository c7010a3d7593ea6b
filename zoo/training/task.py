"""What is trained: a model, its loss, its metrics, its optimizer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import lightning
import torch
from torch import Tensor, nn

from zoo.data.sampling import stream_seed
from zoo.errors import UserError
from zoo.model import Model
from zoo.nn import Experts
from zoo.tokens import Details
from zoo.training.config import Config
from zoo.training.metrics import METRICS, Metrics, chosen
from zoo.training.optimise import make_optimizer, make_schedule

Batch = Mapping[str, Tensor]
OF_THE_LOSS = ("target", "start", "unit", "weight")  # what a batch holds beside a model's inputs


class Task(lightning.LightningModule):
    """A batch is the model's inputs by name, such as {"pixels": (B, C, H, W)}, and "target".

    The loss of an optimizer step is the sum over every sample of its accumulation window, on all
    ranks, divided by their true number. So micro-batches give *sums*, and the gradients are divided
    once, just before they are clipped; the last and smaller window of an epoch weighs each sample
    as the step that it is, however many processes and micro-batches share it.

    Where targets are numbers, they come in the data's own units, and are learned less the mean of
    train, over its deviation: see `Record.scale`. A batch may bring a measure for each sample,
    "start" and "unit": its answers are counted from the one in the other.
    """

    def __init__(self, model: Model, config: Config):
        super().__init__()
        head: Any = model.head.config  # type: ignore[union-attr]  # training needs a head
        chosen(config.select, head.target)  # is there such a metric?
        self.model, self.config, self.target = model, config, head.target
        self.routed = any(isinstance(part, Experts) for part in model.backbone.modules())
        classes = getattr(head, "classes", 1)  # pixels have none
        self.scale = model.record.scale or ((0.0, 1.0),) * classes
        about = [deviation for _, deviation in self.scale] if head.target == "numbers" else None
        make: Any = METRICS[head.target]
        self.metrics = nn.ModuleDict({s: make(about or classes) for s in ("val", "test")})
        # of this rank since the last step: sum of losses, what it is of, and samples
        self.window = torch.zeros(3)
        self.epoch = [0.0, 0.0]  # the same over all ranks since the epoch began
        self.first = 0
        """The epoch with which training begins."""
        self.samples = 0
        """How many samples the weights have learned from, on all ranks."""
        self.step_loss = math.nan
        """Mean loss of the last optimizer step."""
        self.step_lr = 0.0
        """Learning rate of the last optimizer step, the highest of all groups."""

    def forward(self, **inputs: Tensor) -> Tensor:
        """The model's inputs by name, or what its head pools of them -> (B, classes)."""
        if "features" in inputs:
            return self.model.head.answer(inputs["features"])  # type: ignore[union-attr, operator]
        return self.model(**inputs)

    def on_train_epoch_start(self) -> None:
        """What is drawn in an epoch, as by dropout, depends on (seed, epoch, rank) alone: one that
        is resumed draws the same."""
        where = self.current_epoch, self.global_rank
        torch.manual_seed(stream_seed(self.config.run.seed, "learn", *where))

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Standardise targets that are numbers, in double, before a device that may have none."""
        return standardise(batch, self.scale) if self.target == "numbers" else batch

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """-> the sum of the batch's losses, which `configure_gradient_clipping` makes a mean."""
        total, count = self.losses(batch)
        size = total.new_tensor(len(batch["target"]))
        self.window = self.window.to(total.device) + torch.stack((total.detach(), count, size))
        return total

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """A batch -> the sum of its losses, and what it is of.

        Where tokens are routed to experts, how unevenly is part of each sample's loss (see
        `MlpConfig.balance`): of what is learned, not of what is measured.
        """
        inputs = inputs_of(batch)
        if self.routed and "features" not in inputs:
            answer, shown = self.model(**inputs, details=("aux",))
        else:
            answer, shown = self(**inputs), Details()
        total, count = self._loss(placed(answer, batch), batch, self.config.optim.smoothing)
        return total + count * sum(shown.aux), count

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        """Divide the window's gradients by its samples, and clip their norm.

        The Trainer's own clipping refuses a fused AdamW in bf16. UserError where the loss or a
        gradient is not finite: on every rank, and before the weights have moved.
        """
        trainer, optim = self.trainer, self.config.optim
        total, count, size = trainer.strategy.reduce(self.window, reduce_op="sum").tolist()  # type: ignore[union-attr]
        self.window, count = torch.zeros(3), count or 1.0  # of a step without any box, as FCOS does
        self.step_loss, self.step_lr = total / count, max(g["lr"] for g in optimizer.param_groups)
        if not math.isfinite(self.step_loss):
            self.stop("a finite loss", self.step_loss)
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        # by now DDP has averaged over the ranks, and Lightning has divided by the micro-batches
        scale = trainer.world_size * trainer.accumulate_grad_batches / count
        torch._foreach_mul_(gradients, scale)  # type: ignore[reportPrivateImportUsage]
        norm = nn.utils.clip_grad_norm_(self.parameters(), optim.clip or math.inf)
        if not math.isfinite(norm):
            self.stop("finite gradients", float(norm))
        self.samples += int(size)
        self.epoch = [self.epoch[0] + total, self.epoch[1] + count]
        self.log_dict({"train/loss": self.step_loss, "train/lr": self.step_lr})

    def stop(self, wants: str, got: float) -> None:
        """UserError about numbers that are none."""
        where = f"at step {self.global_step + 1} with lr {self.step_lr:.3g}"
        raise UserError(f"training takes {wants}; got {got} {where}: lower --optim.lr, or try "
                        "--hw.precision fp32")  # fmt: skip

    def on_train_epoch_end(self) -> None:
        """Log the epoch's mean loss."""
        self.log("train/loss_epoch", self.epoch[0] / self.epoch[1])
        self.epoch = [0.0, 0.0]

    def validation_step(self, batch: Batch, index: int) -> None:
        """Loss and answers of one batch go into the validation metrics."""
        self._measure("val", batch)

    def on_validation_epoch_end(self) -> None:
        """Log the metrics over all rows of all ranks."""
        self._report("val")

    def test_step(self, batch: Batch, index: int) -> None:
        """Loss and answers of one batch go into the test metrics."""
        self._measure("test", batch)

    def on_test_epoch_end(self) -> None:
        """Log the metrics over all rows of all ranks."""
        self._report("test")

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A run that is resumed begins with the epoch behind that of its checkpoint."""
        self.first = checkpoint["epoch"] + 1

    def configure_optimizers(self) -> Any:
        """AdamW, and its schedule by optimizer step.

        Lightning counts the steps here, and lets workers begin to read, long before it sets the
        epoch of a run that is resumed.
        """
        if self.first and (data := getattr(self.trainer, "datamodule", None)) is not None:
            data.train_dataloader().sampler.set_epoch(self.first)
        optimizer = make_optimizer(self.model, self.config.optim)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = make_schedule(optimizer, steps, self.config.optim)
        scheduler = {"scheduler": schedule, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": scheduler}

    def _loss(self, answer: Tensor, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        total, count = self.model.head.loss(answer, batch, smoothing=smoothing)["loss"]  # type: ignore[union-attr, operator]
        return total, count.to(total)

    def _measure(self, split: str, batch: Batch) -> None:
        answer = self(**inputs_of(batch))
        answer = placed(answer.float() if isinstance(answer, Tensor) else answer, batch)
        metrics: Metrics = self.metrics[split]  # type: ignore[assignment]
        losses, found = self._loss(answer, batch), getattr(self.model.head, "found", None)
        metrics.update(answer if found is None else found(answer), batch["target"], *losses)

    def _report(self, split: str) -> None:
        metrics: Metrics = self.metrics[split]  # type: ignore[assignment]
        self.log_dict({f"{split}/{name}": value for name, value in metrics.compute().items()})


def inputs_of(batch: Batch) -> dict[str, Tensor]:
    """A batch without what only its loss reads."""
    return {name: x for name, x in batch.items() if name not in OF_THE_LOSS}


def placed(answer: Tensor, batch: Batch) -> Tensor:
    """(B, classes), a batch -> the answer from where, and in what, its samples are measured."""
    return batch["start"] + batch["unit"] * answer.float() if "start" in batch else answer


def standardise(batch: Batch, scale: Sequence[tuple[float, float]]) -> dict[str, Tensor]:
    """{"target": (B, numbers), ...} in the data's units -> in train's deviations from its mean, in
    float32; so too "start" and "unit", (B, 1) each, where there are."""
    mean, deviation = torch.tensor(scale, dtype=torch.float64).unbind(-1)
    scaled = {"target": (batch["target"] - mean) / deviation}
    if "start" in batch:
        scaled |= {"start": (batch["start"] - mean) / deviation, "unit": batch["unit"] / deviation}
    return {**batch, **{name: x.float() for name, x in scaled.items()}}
