"""What happens around training steps: progress and Ctrl-C."""

import logging
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from lightning import Trainer
from lightning.pytorch.callbacks import Callback
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from zoo.errors import UserError
from zoo.training.config import Config, SelectConfig
from zoo.training.console import console, log
from zoo.training.saving import Start


class Interrupted(BaseException):
    """Ctrl-C was pressed, and the last checkpoint is written.

    No KeyboardInterrupt: Lightning would exit.
    """


class Interrupt(Callback):
    """Ctrl-C ends training after the step in hand, on all ranks, with a checkpoint; twice, at once.

    SIGTERM does as Ctrl-C does once. In DDP it is enough that one process gets the signal.
    """

    def __init__(self, checkpoint: Path):
        self.checkpoint, self.asked, self.process = checkpoint, False, os.getpid()
        self.before: Any = None

    def on_fit_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Take the signal over. Processes that are forked later inherit this and go on."""
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self._ask)

    def release(self) -> None:
        """Give the signal back. The run calls this: Lightning sets it once more after its hooks."""
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)
            self.before = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Stop here if asked to."""
        self._stop_if_asked(trainer)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Stop here if asked to during validation, behind which the epoch has its checkpoint."""
        self._stop_if_asked(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """The same after the last epoch."""
        self._stop_if_asked(trainer)

    def _ask(self, *args: Any) -> None:
        if os.getpid() != self.process:
            return
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        log.info("stopping after this step; Ctrl-C once more stops at once")

    def _stop_if_asked(self, trainer: Trainer) -> None:
        asked = self.asked or trainer.received_sigterm  # a scheduler's way of saying Ctrl-C
        if trainer.strategy.reduce_boolean_decision(asked, all=False):
            trainer.save_checkpoint(self.checkpoint)
            raise Interrupted


KEPT = ("step", "epochs_done", "samples", "seconds", "validations", "waited", "stepped")


class Progress(Callback):
    """A line per validation, and a bar on a terminal or else a line every `run.log_every` steps.

    log.txt gets all the lines in either case. What was seen stays here for the report, and in
    checkpoints for that of a run that is resumed, which begins at `start`.
    """

    def __init__(self, config: Config, select: SelectConfig, start: Start | None = None):
        self.every, self.epochs, self.select = config.run.log_every, config.run.epochs, select
        self.bar: Bar | None = None
        self.total = self.step = self.epochs_done = self.samples = 0
        self.seconds = 0.0
        """Of training, validation and what comes before the first step included."""
        self.validations: list[dict[str, Any]] = []
        """{"epoch", "step", "metrics": {name: value}} of each."""
        self.opened = self.start = self.line_at = self.ended = self.begun = 0.0
        self.begins, self.running = start or Start(), False
        self.line_samples = 0
        self.waited = self.line_waited = self.stepped = 0.0

    def best(self) -> dict[str, Any] | None:
        """The first of the best validations, None before there is one."""
        choose, metric = max if self.select.mode == "max" else min, str(self.select.metric)
        return choose(self.validations, key=lambda v: v["metrics"][metric], default=None)

    def stopped(self) -> str | None:
        """After which epoch, and why, `select.patience` ended training early; None where it did
        not."""
        patience, best, metric = self.select.patience, self.best(), self.select.metric
        if patience is None or best is None or self.epochs_done >= self.epochs:
            return None
        waited = self.epochs_done - best["epoch"]
        why = f"{waited} epoch{'s' * (waited > 1)} without a better {metric} (select.patience)"
        if not math.isfinite(self.validations[-1]["metrics"][str(metric)]):
            why = f"{metric} is not a finite number"
        elif waited < patience:
            return None
        return f"stopped after epoch {self.epochs_done} of {self.epochs}: {why}"

    def state_dict(self) -> dict[str, Any]:
        """What of a run a checkpoint keeps: numbers and words."""
        now = time.monotonic() - self.opened if self.running else 0.0
        kept = {name: getattr(self, name) for name in KEPT}
        return {**kept, "seconds": self.seconds + now}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        for name in KEPT:
            setattr(self, name, state_dict[name])

    def on_fit_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Start the clock. UserError for a script that does not go on where the run begins."""
        self.opened, self.running = time.monotonic(), True
        if self.epochs_done != self.begins.epochs:
            wants = "resume takes a script with trainer.fit(..., ckpt_path=run.resumes)"
            raise UserError(f"{wants}; this one begins anew: write that in it")
        pl_module.samples = self.line_samples = self.samples

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Start the clock of the lines, and the bar on a terminal."""
        self.total, self.step = int(trainer.estimated_stepping_batches), trainer.global_step
        self.start = self.line_at = time.monotonic()
        if console.is_terminal and trainer.is_global_zero:
            columns = (BarColumn(30), MofNCompleteColumn(), TextColumn("{task.description}"))
            self.bar = Bar(*columns, console=console, transient=True)
            self.bar.add_task("", total=self.total, completed=self.step)
            self.bar.start()

    @property
    def waiting(self) -> float:
        """The share of training, without validation, in which a step waited for its batch."""
        return self.waited / max(self.stepped, 1e-9)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        """From here the first batch is waited for."""
        self.ended = time.monotonic()

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        """The batch is here: count how long it was waited for."""
        wait = time.monotonic() - self.ended
        self.waited, self.line_waited = self.waited + wait, self.line_waited + wait
        self.stepped += wait
        self.begun = time.monotonic()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Move the bar; write a line every `log_every` steps and after the last."""
        self.ended = time.monotonic()
        self.stepped += self.ended - self.begun
        if trainer.global_step == self.step:  # within an accumulation window
            return
        self.step, self.samples, now = trainer.global_step, pl_module.samples, time.monotonic()
        due = self.step % self.every == 0 or self.step == self.total
        if self.bar is None and not due:
            return
        speed = (self.samples - self.line_samples) / max(now - self.line_at, 1e-9)
        done = self.step - self.begins.step
        left = (now - self.start) / done * (self.total - self.step)
        text = (
            f"loss {pl_module.step_loss:.4f}  lr {pl_module.step_lr:.2e}  {speed:.0f} samples/s  "
            f"{self.line_waited / max(now - self.line_at, 1e-9):.0%} waiting for data  "
            f"{clock(left)} left  {memory(pl_module.device)}"
        )
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.step, description=text)
        if due:
            epoch = f"epoch {trainer.current_epoch + 1}/{self.epochs}"
            level = logging.INFO if self.bar is None else logging.DEBUG  # for the file alone
            log.log(level, f"{epoch}  step {self.step}/{self.total}  {text}")
            self.line_at, self.line_samples, self.line_waited = now, self.samples, 0.0
        if due and self.step % self.every:  # the last, for which Lightning writes no row
            row = {"train/loss": pl_module.step_loss, "train/lr": pl_module.step_lr}
            for logger in trainer.loggers:
                step = self.step - 1  # a logger counts from 0
                logger.log_metrics({"epoch": trainer.current_epoch, **row}, step)

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Remember the metrics, in one line."""
        if trainer.state.fn != "fit":
            return
        metrics = dict(pl_module.metrics["val"].values)
        epoch = trainer.current_epoch + 1
        self.validations.append({"epoch": epoch, "step": self.step, "metrics": metrics})
        figures = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        best = self.best()
        mark = f"  best {self.select.metric} so far" if best is self.validations[-1] else ""
        log.info(f"epoch {epoch}/{self.epochs}  validation  {figures}{mark}")

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """One more epoch is done."""
        self.epochs_done += 1

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Stop the clock, take the bar away, and say where patience ended it."""
        self._close()
        if told := self.stopped():
            log.info(told)

    def on_exception(self, trainer: Trainer, pl_module: Any, exception: BaseException) -> None:
        """Stop the clock, and take the bar away."""
        self._close()

    def _close(self) -> None:
        if self.running:
            self.seconds += time.monotonic() - self.opened
            self.running = False
        if self.bar is not None:
            self.bar.stop()
            self.bar = None


def clock(seconds: float) -> str:
    """3725 -> "1:02:05"; 65 -> "1:05"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def memory(device: torch.device) -> str:
    """The most memory that this process has held: on its GPU, or else in all."""
    if device.type == "cuda":
        return f"{torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB"
    if sys.platform == "win32":
        return ""
    import resource

    unit = 2**30 if sys.platform == "darwin" else 2**20  # macOS counts bytes, Linux KiB
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit:.1f} GiB"
