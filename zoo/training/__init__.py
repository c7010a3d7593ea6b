"""Training: typed configs, recipes, Lightning tasks, run folders.

What needs lightning is imported when it is first used, so that reading a config stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from zoo.training.config import Config, resolve

if TYPE_CHECKING:
    from zoo.training.distill import Distil, teacher_for
    from zoo.training.entry import evaluate, resume, train
    from zoo.training.models import build
    from zoo.training.probe import cached
    from zoo.training.run import Run, RunResult, trainer
    from zoo.training.task import Task

__all__ = [
    "Config",
    "Distil",
    "Run",
    "RunResult",
    "Task",
    "build",
    "cached",
    "evaluate",
    "resolve",
    "resume",
    "teacher_for",
    "train",
    "trainer",
]

_LATER = {
    "build": "models",
    "cached": "probe",
    "Distil": "distill",
    "teacher_for": "distill",
    "evaluate": "entry",
    "resume": "entry",
    "train": "entry",
    "Run": "run",
    "RunResult": "run",
    "trainer": "run",
    "Task": "task",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
