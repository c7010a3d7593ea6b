"""A run: its folder from before the first step to the report."""

import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger, TensorBoardLogger

from zoo.errors import UserError
from zoo.model import Model
from zoo.training import folder as files
from zoo.training import report, resuming
from zoo.training.average import Average
from zoo.training.baselines import Baselines, baselines
from zoo.training.callbacks import Interrupt, Interrupted, Progress
from zoo.training.config import Config
from zoo.training.console import log, rank, speaking, writing
from zoo.training.hardware import check_shares, crowded, make_trainer, plan
from zoo.training.metrics import chosen
from zoo.training.saving import (
    BEST,
    LAST,
    STOPPED,
    UNREADABLE,
    Start,
    checkpoints,
    newest,
    read_checkpoint,
)
from zoo.training.telling import introduce_data, say_figures, say_files, say_start, sentence
from zoo.training.tune import frozen, learning, merge


@dataclass(frozen=True)
class RunResult:
    """Where a run is, and how good its model."""

    folder: Path
    """The run folder; `model/` in it is what `zoo.load` takes."""
    metrics: dict[str, dict[str, float]]
    """{"val": {"loss", ...}, "test": the same}, those splits that there are; of what, see
    `zoo.training.metrics`."""
    seconds: float
    """Of training, validation included."""


class Run:
    """`with Run(config, model, splits) as run:` holds the folder open while a model trains.

    Made when the data and the model have been checked. The folder is written on entry, and taken
    away again if there is an error before the first step, so that a mistake leaves nothing behind.
    Later, Ctrl-C or an error leave the best model so far, `result.json` and the report; Ctrl-C
    exits with 130. Only rank 0 writes.
    Within `zoo.training.resume` it goes on with the run that its folder holds: `resumes` is the
    checkpoint that `trainer.fit` begins with, None for a run from its beginning.
    UserError if `run.dir` holds anything else, `hw` asks for what is not here, or `select` waits
    for a validation split that there is none of.
    """

    def __init__(self, config: Config, model: Model, splits: Any):
        self.config, self.model, self.splits = config, model, splits
        if config.select.patience and splits.val is None:
            wants = "select.patience takes data with a validation split; these have none"
            raise UserError(f"{wants}: give --data.val, or leave the patience out")
        self.plan = plan(config)
        check_shares(config, self.plan, splits)
        self.main = rank() == 0
        self.old = resuming.GOING_ON.get()
        """The folder of a run that is resumed."""
        self.folder = self.old or files.choose_folder(config, self.main, resuming.occupied)
        self.start = Start()
        if self.old is not None:
            self.start = newest(self.old / "checkpoints", model)
            if self.start.file is not None:
                resuming.check_data(self.old, splits)
        self.resumes = None if self.start.file is None else str(self.start.file)
        self.made: list[Path] = []
        self.select = chosen(config.select, model.head.config.target)  # type: ignore[union-attr]
        self.progress = Progress(config, self.select, self.start)
        self.interrupt = Interrupt(self.checkpoint(STOPPED))
        self.stack = ExitStack()

    def __enter__(self) -> "Run":
        self.stack.enter_context(speaking())
        if self.main:
            try:
                if self.old is None:
                    self.made = files.make_folder(self.folder)
            except BaseException:
                self.stack.close()  # the folder may be another run's: nothing in it is ours
                raise
            try:
                self.open()
            except BaseException:
                self.discard()
                raise
        return self

    def open(self) -> None:
        """Write what is known, and say it."""
        os.environ[files.FOLDER_OF_RANK_0] = str(self.folder)
        try:
            self.stack.enter_context(resuming.alone(self.folder))
            if self.old is None:
                files.write_command(self.folder)
            if self.start.file is None:
                files.write_facts(self.folder, self.config, self.model, self.splits)
            self.checkpoint(STOPPED).unlink(missing_ok=True)
            self.stack.enter_context(writing(self.folder / "log.txt"))
        except OSError as error:
            raise UserError(
                f"run.dir takes a folder that can be written; {self.folder} cannot: "
                f"{error.strerror or error}"
            ) from error
        self.introduce()

    def discard(self) -> None:
        """Leave everything as it was before the run, or before it was resumed."""
        self.stack.close()
        os.environ.pop(files.FOLDER_OF_RANK_0, None)
        if self.old is None:
            files.clear_folder(self.folder, self.made)

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.interrupt.release()
        with self.stack:
            if self.main:
                os.environ.pop(files.FOLDER_OF_RANK_0, None)
            # Lightning turns a KeyboardInterrupt into SystemExit
            stopped = isinstance(error, (Interrupted, KeyboardInterrupt, SystemExit))
            if error is None:
                return
            told = None if self.progress.total else self.start.refusal(error)
            if not self.main:
                if stopped or told or isinstance(error, UserError):
                    sys.exit(0)  # rank 0 says it; Lightning kills it where we exit otherwise
            elif self.progress.step <= self.start.step:
                self.discard()
                if stopped:
                    sys.exit(130)
                if told is not None:
                    raise told from error
            elif stopped or self.interrupt.asked:
                self.keep()
                sys.exit(130)
            else:
                self.keep(sentence(error))

    def introduce(self) -> None:
        """Say what is about to run."""
        log.info(f"{self.config.recipe} -> {self.folder}")
        if self.old is not None:
            say_start(self.start, self.config.run.epochs)
        introduce_data(self.splits, self.config)
        log.info(f"model: {self.model.extra_repr()}{learning(self.model)}")
        if self.model.record.report is not None:
            log.info(f"weights: {self.model.record.report}")
        cacheable = frozen(self.model) and getattr(self.model.head, "pools_freely", False)
        if cacheable and self.config.data.augment != "none":
            log.info("the body is frozen: with --data.augment none, features are computed once")
        if decay := self.config.ema.decay:
            log.info(f"ema: a running mean of the weights (decay {decay:g}) is measured and kept")
        log.info(f"hardware: {self.plan}")
        if note := crowded(self.plan):
            log.info(note)

    @cached_property
    def baselines(self) -> Baselines:
        """What answers without a model reach."""
        return baselines(self.splits, self.model.head)  # type: ignore[arg-type]

    def checkpoint(self, name: str) -> Path:
        """The file of the checkpoint "best", "last" or "stopped"."""
        return self.folder / "checkpoints" / f"{name}.ckpt"

    def callbacks(self) -> list[Callback]:
        """Progress, Ctrl-C, stopping and checkpoints, in the order in which they must come."""
        where, choose = self.folder / "checkpoints", self.splits.val is not None
        decay = self.config.ema.decay
        mean = [] if decay is None else [Average(decay)]
        return [*mean, self.progress, self.interrupt, *checkpoints(self.select, where, choose)]

    def loggers(self) -> list[Logger]:
        """metrics.csv and tensorboard/."""
        purged: dict[str, Any] = {} if self.old is None else {"purge_step": self.start.step}
        table = resuming.table(self.folder, self.start.step if self.main else 0)
        return [table, TensorBoardLogger(self.folder, name="tensorboard", version="", **purged)]

    def finish(self, trainer: lightning.Trainer, task: Any, loaders: Any) -> RunResult:
        """Export the best weights, measure them, on test for the first and only time, report."""
        self.interrupt.release()
        source = self.take_weights()
        self.export()
        trainer.loggers = []  # metrics.csv is about training
        metrics: dict[str, dict[str, float]] = {}
        for split, measure in (("val", trainer.validate), ("test", trainer.test)):
            if getattr(self.splits, split) is not None:
                measure(task, datamodule=loaders, verbose=False)
                metrics[split] = dict(task.metrics[split].values)
        if self.main:
            for split in metrics:  # the figure shows test where there is one
                confusion = task.metrics[split].confusion
                if confusion is not None:
                    target = self.folder / report.CONFUSION
                    what = "pixels" if self.splits.target == "mask" else "samples"
                    labels = self.splits.labels
                    if note := report.draw_confusion(confusion, labels, split, target, what):
                        log.warning(note)
            self.write_result(metrics, source)
            best = self.progress.best()
            if source == BEST and best is not None:
                word = f"epoch {best['epoch']}, the best {self.select.metric} on val"
                log.info(f"kept are the weights of {word}; with them:")
            say_figures(metrics, self.baselines, self.select)
            say_files(self.folder, self.progress.seconds)
        return RunResult(self.folder, metrics, self.progress.seconds)

    def keep(self, failed: str | None = None) -> None:
        """Keep what there is of a run that Ctrl-C ended, or an error, and say where."""
        step = self.progress.step
        end = f"interrupted after step {step}" if failed is None else f"failed after step {step}"
        try:
            source = self.take_weights()
            self.export()
            best = self.progress.best()
            metrics = {} if best is None or source != BEST else {"val": best["metrics"]}
            self.checkpoint(STOPPED).unlink(missing_ok=True)
            self.write_result(metrics, source, failed is None, failed)
            model = self.folder / "model"
            log.info(f"to go on: zoo resume {self.folder}")
            log.info(f"{end}; the model so far is {model}, for `zoo predict` and --model.load")
        except (OSError, RuntimeError, ValueError) as error:  # such as a full disk, once more
            log.error(f"{end}; {self.folder} holds what there is, not all: {sentence(error)}")

    def take_weights(self) -> str:
        """Put the best weights, or else the last, into the model. -> best, last or memory."""
        for source in (BEST, STOPPED, LAST):
            if not self.checkpoint(source).exists():
                continue
            try:
                state = read_checkpoint(self.checkpoint(source))["state_dict"]
            except UNREADABLE:
                log.warning(f"{self.checkpoint(source)} was not written whole")
                continue
            prefix = "model."
            state = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            self.model.load_state_dict(state)
            return BEST if source == BEST else LAST
        return "memory"

    def export(self) -> None:
        """Write `model/`, on rank 0, low-rank updates merged."""
        merge(self.model)
        if self.main:
            self.model.save(self.folder / "model")

    def write_result(
        self,
        metrics: dict[str, dict[str, float]],
        source: str,
        interrupted: bool = False,
        failed: str | None = None,
    ) -> None:
        """result.json, the curves, report.md."""
        best, p = self.progress.best(), self.progress
        result = {
            "recipe": self.config.recipe,
            "interrupted": interrupted,
            "failed": failed,
            "epochs": p.epochs_done,
            "stopped_early": None if interrupted or failed else p.stopped(),
            "steps": p.step,
            "seconds": round(p.seconds, 3),
            "samples_per_second": round(p.samples / max(p.seconds, 1e-9), 1),
            "waiting_for_data": round(p.waiting, 4),
            "hardware": str(self.plan),
            "parameters": sum(w.numel() for w in self.model.parameters()),
            "weights": f"epoch {best['epoch']}" if source == BEST and best else source,
            "val": metrics.get("val"),
            "test": metrics.get("test"),
        }
        if self.baselines:
            result["baselines"] = self.baselines
        files.write_json(self.folder / "result.json", result)
        if (self.folder / "metrics.csv").exists():
            report.draw_curves(self.folder / "metrics.csv", self.folder / report.CURVES)
        facts, chose = files.facts_of_data(self.splits), source == BEST and best is not None
        target = self.model.head.config.target  # type: ignore[union-attr]  # training needs a head
        remarks = report.remarks(self.config, self.select, target, chose)
        loaded = self.model.record.report
        remarks = [f"Weights at the start: {loaded}.", *remarks] if loaded else remarks
        report.write_page(self.folder, result, facts, files.written_command(self.folder), remarks)


def trainer(config: Config, run: Run) -> lightning.Trainer:
    """Lightning's Trainer with the run's callbacks and loggers, on the hardware of its plan."""
    return make_trainer(config, run.plan, run.callbacks(), run.loggers())
