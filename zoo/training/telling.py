"""What a run says of its data, its figures and its end, in lines of the log."""

from collections.abc import Mapping
from typing import Any

from zoo.errors import UserError
from zoo.training.baselines import Baselines, behind
from zoo.training.config import SelectConfig
from zoo.training.console import log


def introduce_data(splits: Any) -> None:
    """Say what was read: rows, and what was recognised, left out or is doubtful."""
    rows = ", ".join(f"{len(part)} {split}" for split, part in splits.rows().items())
    words = {"labels": ("label", "labels"), "numbers": ("number", "numbers")}
    one, more = words.get(splits.target, ("class", "classes"))
    count = len(splits.labels)
    told = "" if splits.target == "pixels" else f", {count} {one if count == 1 else more}"
    log.info(f"data: {rows}{told}")
    for note in splits.notes:
        log.info(f"data: {note}")


def say_baselines(baselines: Baselines, split: str) -> None:
    """Say what answers without a model reach on a split."""
    for name, known in baselines.get(split, {}).items():
        log.info(f"{split}, {name}: {figures(known)}")


def say_figures(
    metrics: Mapping[str, Mapping[str, float]], baselines: Baselines, select: SelectConfig
) -> None:
    """Say what a model reaches on each split, beside what answers without one do."""
    for split, values in metrics.items():
        say_baselines(baselines, split)
        log.info(f"{split}: {figures(values)}")
    if told := behind(metrics, baselines, select):
        log.info(told)


def figures(values: Mapping[str, float]) -> str:
    """Metrics in a line of the log."""
    return "  ".join(f"{name} {value:.4f}" for name, value in values.items())


def sentence(error: BaseException) -> str:
    """What an error says, in one line. From a worker process it brings its traceback along."""
    kind, lines = type(error).__name__, str(error).strip().splitlines()
    if len(lines) > 1 and "Original Traceback" in str(error):
        return lines[-1].removeprefix(f"{type(error).__module__}.{kind}: ")
    text = lines[0] if lines else ""
    return text if isinstance(error, UserError) else f"{kind}: {text}".removesuffix(": ")
