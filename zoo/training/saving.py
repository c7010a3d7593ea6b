"""Checkpoints of a run: how they are written and read, which are kept, which is the newest."""

import io
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning import Trainer
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from torch import nn

from zoo.errors import UserError, cut, too_large
from zoo.training.config import SelectConfig

BEST, LAST = "best", "last"
STOPPED = "stopped"  # within an epoch, until the model of a run that was stopped is exported
PARTS = ("state_dict", "callbacks", "optimizer_states", "lr_schedulers", "loops")  # of a checkpoint
UNREADABLE = (
    OSError, EOFError, RuntimeError, KeyError, TypeError, AttributeError, pickle.UnpicklingError
)  # fmt: skip


class Files(TorchCheckpointIO):
    """A checkpoint is there as a whole or not at all, and is read without unpickling objects."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write beside the place and rename: a process that is killed leaves the one before."""
        place, whole = Path(path), io.BytesIO()
        torch.save(checkpoint, whole)  # into a file, torch hides what the system says of it
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = place.with_name(f".{place.name}")
        try:
            with scratch.open("wb") as file:
                file.write(whole.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, place)
        finally:
            scratch.unlink(missing_ok=True)

    def load_checkpoint(
        self,
        path: Any,
        map_location: Callable[..., Any] | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Tensors, numbers and words alone, whatever is asked for."""
        return read_checkpoint(Path(path))


def read_checkpoint(file: Path, mmap: bool = False) -> dict[str, Any]:
    """What `Files` wrote, on the CPU; one of `UNREADABLE` for anything else."""
    return torch.load(file, map_location="cpu", weights_only=True, mmap=mmap)


class Kept(ModelCheckpoint):
    """After a run is resumed, the best so far is still known, also where its folder was moved."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state over, with the paths of today."""
        here = str(self.dirpath)

        def moved(path: str) -> str:
            return str(Path(here, Path(path).name)) if path else path

        paths = ("best_model_path", "kth_best_model_path", "last_model_path")
        known = {moved(path): score for path, score in state_dict["best_k_models"].items()}
        own = {name: moved(state_dict[name]) for name in paths}
        super().load_state_dict({**state_dict, **own, "best_k_models": known, "dirpath": here})


class Patience(EarlyStopping):
    """Where patience had ended a run that is resumed, it ends it again."""

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Stop before a further epoch."""
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience


def checkpoints(select: SelectConfig, folder: Path, choose: bool) -> list[Callback]:
    """Writers of FOLDER/last.ckpt after each epoch and, to `choose`, FOLDER/best.ckpt."""
    shared: dict[str, Any] = {
        "dirpath": folder,
        "enable_version_counter": False,
        "save_on_train_epoch_end": True,
    }
    last = Kept(filename=LAST, **shared)
    if not choose:
        return [last]
    monitor, mode = f"val/{select.metric}", select.mode or "max"  # `chosen` has left no None
    best = Kept(filename=BEST, monitor=monitor, mode=mode, **shared)
    if select.patience is None:
        return [best, last]
    stop = Patience(monitor, mode=mode, patience=select.patience, check_on_train_epoch_end=True)
    return [stop, best, last]


@dataclass(frozen=True)
class Start:
    """Where training begins: after so many epochs and optimizer steps."""

    file: Path | None = None
    """The checkpoint; None for a run from its beginning."""
    epochs: int = 0
    step: int = 0
    passed_over: tuple[str, ...] = ()
    """Checkpoints that cannot be read, and why, a sentence each."""

    def refusal(self, error: BaseException) -> UserError | None:
        """The sentence about an error of whoever takes the checkpoint over; None for one that says
        itself what is wrong, or has nothing to do with it."""
        mine = isinstance(error, (*UNREADABLE, ValueError, IndexError))
        if self.file is None or not mine or isinstance(error, UserError) or too_large(error):
            return None
        got = f"{self.file} does not fit its run ({first_line(error)})"
        return UserError(f"{WANTS}; {got}: {ANEW}")


WANTS = "resume takes a run with a checkpoint that can be read"
ANEW = "train anew from its config.yaml, with another --run.dir"


def newest(folder: Path, model: nn.Module | None = None) -> Start:
    """The checkpoint of most whole epochs in a folder; from the beginning where there is none.

    One that is damaged, or not of this `model`, is passed over. UserError where each that there is
    is so.
    """
    found, told, wrong = [Start()], [], []
    for file in (folder / f"{name}.ckpt" for name in (LAST, BEST)):
        if not file.exists():
            continue
        try:
            found.append(start_of(file, model))
        except UNREADABLE as error:
            wrong.append(f"{file.name}: {first_line(error)}")
            told.append(f"{file} is no whole checkpoint and passed over: {first_line(error)}")
    start = max(found, key=lambda one: one.epochs)
    if told and start.file is None:
        raise UserError(f"{WANTS}; {folder} has none ({'; '.join(wrong)}): {ANEW}")
    return Start(start.file, start.epochs, start.step, tuple(told))


def start_of(file: Path, model: nn.Module | None) -> Start:
    """Where a checkpoint goes on. One of `UNREADABLE` for what Lightning, or the model, would not
    take."""
    whole = read_checkpoint(file, mmap=True)
    if lacks := [part for part in PARTS if part not in whole]:
        raise TypeError(f"it has no {lacks[0]}")
    seen = whole["callbacks"]["Progress"]
    for name in ("epochs_done", "step"):
        if type(seen[name]) is not int or seen[name] < 0:
            raise TypeError(f"callbacks.Progress.{name} is {cut(repr(seen[name]))}")
    for name, tensor in {} if model is None else model.state_dict().items():
        shape = whole["state_dict"][f"model.{name}"].shape
        if shape != tensor.shape:
            raise TypeError(f"{name} is {(*shape,)}, not {(*tensor.shape,)}")
    return Start(file, seen["epochs_done"], seen["step"])


def first_line(error: BaseException) -> str:
    """What an error says first, or its kind; a missing key by its name."""
    text = (str(error).strip().splitlines() or [""])[0][:200]
    return f"it has no {text}" if isinstance(error, KeyError) else text or type(error).__name__
