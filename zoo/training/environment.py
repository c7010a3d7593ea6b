"""Where a run took place: versions, hardware, commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("omnizoo", "torch", "torchvision", "lightning", "torchmetrics", "timm", "numpy")


def describe() -> dict[str, Any]:
    """Plain values for environment.json."""
    gpus = range(torch.cuda.device_count())
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {name: _version(name) for name in PACKAGES},
        "processor": torch.cpu.get_capabilities().get("cpu_name") or platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in gpus],
        "cuda": torch.version.cuda if gpus else None,
        "commit": commit(),
    }


def commit() -> str | None:
    """The commit of the checkout that holds this package, with "+" after it where files differ."""
    top = Path(__file__).resolve().parents[2]
    if not (top / ".git").exists():
        return None
    head = _git(top, "rev-parse", "HEAD")
    return head and head + ("+" if _git(top, "status", "--porcelain") else "")


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
