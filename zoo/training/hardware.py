"""What a run computes on: devices, precision, micro-batches, and the Trainer made of them."""

import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import DDPStrategy
from torch.nn.parallel import DistributedDataParallel

from zoo.data.check import cores
from zoo.errors import UserError
from zoo.training.config import Config, HardwareConfig
from zoo.training.saving import Files

NAMES_OF_TORCH = inspect.signature(DistributedDataParallel).parameters
SYNC_BUFFERS = next(  # renamed in torch 2.14
    name for name in ("forward_sync_buffers", "broadcast_buffers") if name in NAMES_OF_TORCH
)
LIGHTNING_NAMES = {"fp32": "32-true", "bf16": "bf16-mixed"}


@dataclass(frozen=True)
class Plan:
    """How the global batch of a config is computed here."""

    accelerator: str
    """cpu, gpu or mps."""
    devices: int
    """Processes, one device each."""
    precision: str
    """fp32 or bf16: the dtype of products; weights and sums stay fp32."""
    reason: str
    """Why this precision."""
    micro_batch: int
    """Samples on one device at a time."""
    accumulate: int
    """Micro-batches per optimizer step."""
    threads: int
    """Of torch, in each process."""

    def __str__(self) -> str:
        batch = str(self.micro_batch)
        if self.devices > 1:
            batch += f" on each of {self.devices} devices"
        if self.accumulate > 1:
            batch += f", {self.accumulate} times per step"
        threads = f", {self.threads} threads" if self.accelerator == "cpu" else ""
        return f"{self.accelerator}{threads}, {self.precision} ({self.reason}), batch {batch}"


def plan(config: Config) -> Plan:
    """The config's `hw` section with every "auto" settled.

    UserError where the device is absent or the global batch cannot be shared out evenly.
    """
    hw, batch = config.hw, config.run.global_batch
    accelerator = find_accelerator(hw.accelerator)
    devices = count_devices(hw, accelerator)
    if batch % devices:
        raise UserError(
            f"run.global_batch takes a multiple of hw.devices; got {batch} for {devices}: "
            f"give --run.global_batch {-(-batch // devices) * devices} or another --hw.devices"
        )
    share = batch // devices
    micro = hw.micro_batch or share
    if share % micro:
        fits = next(n for n in range(min(micro, share), 0, -1) if share % n == 0)
        raise UserError(
            f"hw.micro_batch takes a divisor of {share}, a device's share of run.global_batch; "
            f"got {micro}: give --hw.micro_batch {fits}"
        )
    precision, reason = choose_precision(hw.precision, accelerator)
    threads = torch.get_num_threads() if hw.threads == "auto" else hw.threads
    return Plan(accelerator, devices, precision, reason, micro, share // micro, threads)


def check_shares(config: Config, plan: Plan, splits: Any) -> None:
    """UserError where a split has fewer rows than there are devices: one would have none."""
    rows = {name: len(part) for name, part in splits.rows().items()}
    least = min(rows, key=lambda name: rows[name], default=None)
    if least is not None and rows[least] < plan.devices:
        batch = config.run.global_batch
        fits = next(n for n in range(max(rows[least], 1), 0, -1) if batch % n == 0)
        raise UserError(
            f"hw.devices takes at most as many devices as a split has samples; got {plan.devices} "
            f"for {rows[least]} of {least}: give --hw.devices {fits} or more samples to "
            f"--data.{least}"
        )


def crowded(plan: Plan) -> str:
    """What to do where other programs keep half of the cores busy, in a sentence; "" elsewhere.

    Threads that wait for each other at every small product are then slower than one.
    """
    if plan.accelerator != "cpu" or plan.threads == 1 or not hasattr(os, "getloadavg"):
        return ""
    busy = min(round(os.getloadavg()[0]) - 1, cores())  # one is this process
    told = f"other programs keep about {busy} of {cores()} cores busy"
    return f"{told}: --hw.threads 1 may be faster" if busy > 0 and 2 * busy >= cores() else ""


def find_accelerator(wanted: str) -> str:
    """ "auto" -> gpu, mps or cpu, whichever is here first. UserError for one that is not."""
    here = {"gpu": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name, found in here.items() if found)
    if not here[wanted]:
        raise UserError(
            f"hw.accelerator takes a device that is here; got {wanted!r} and torch "
            f"{torch.__version__} finds none: give --hw.accelerator cpu or auto"
        )
    return wanted


def count_devices(hw: HardwareConfig, accelerator: str) -> int:
    """ "auto" -> all GPUs, but one in a notebook, whose process cannot be copied; else 1."""
    found = torch.cuda.device_count() if accelerator == "gpu" else 1
    if hw.devices == "auto":
        return 1 if hasattr(sys, "ps1") else found
    if accelerator != "cpu" and hw.devices > found:
        raise UserError(f"hw.devices takes at most the {found} found here; got {hw.devices}")
    return hw.devices


def choose_precision(wanted: str, accelerator: str) -> tuple[str, str]:
    """-> ("fp32" or "bf16", why). "auto" is bf16 where the hardware itself multiplies in it."""
    if wanted != "auto":
        return wanted, "as asked"
    if accelerator == "gpu":
        has = torch.cuda.is_bf16_supported(including_emulation=False)
        return ("bf16", "the GPU has units for it") if has else ("fp32", "the GPU has no bf16")
    if accelerator == "cpu":
        can = torch.cpu.get_capabilities()
        for name, key in (("AMX", "amx_bf16"), ("AVX-512", "avx512_bf16")):
            if can.get(key):
                return "bf16", f"the processor has {name} for it"
        return "fp32", "the processor has no bf16"
    return "fp32", f"{accelerator} has no bf16"


def make_trainer(
    config: Config, plan: Plan, callbacks: Sequence[Callback] = (), loggers: Sequence[Logger] = ()
) -> lightning.Trainer:
    """A Trainer on the hardware of the plan; plain DDP over several devices. Sets torch's threads
    for the process."""
    torch.set_num_threads(plan.threads)
    no_sync: dict[str, Any] = {SYNC_BUFFERS: False}  # a rank may have fewer batches to evaluate
    return lightning.Trainer(
        accelerator=plan.accelerator,
        devices=plan.devices,
        strategy=DDPStrategy(**no_sync) if plan.devices > 1 else "auto",
        precision=LIGHTNING_NAMES[plan.precision],  # type: ignore[arg-type]
        max_epochs=config.run.epochs,
        accumulate_grad_batches=plan.accumulate,
        log_every_n_steps=config.run.log_every,
        callbacks=list(callbacks),
        logger=list(loggers),
        enable_checkpointing=bool(callbacks),
        plugins=[Files()],
        use_distributed_sampler=False,  # the data shares its rows out itself, without padding
        num_sanity_val_steps=0,  # the data has been checked
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_autolog_hparams=False,
    )
