"""What a run says of its data, its figures and its end, in lines of the log."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo.data.splits import uneven
from zoo.errors import UserError
from zoo.training.baselines import Baselines, behind
from zoo.training.config import KEYS, Config, SelectConfig
from zoo.training.console import log
from zoo.training.report import CONFUSION, CURVES
from zoo.training.saving import Start


def say_start(start: Start, epochs: int) -> None:
    """Say where a run that is resumed goes on, of so many epochs."""
    for note in start.passed_over:
        log.warning(note)
    done = start.epochs
    if done:
        again = f"; what was done of epoch {done + 1} is done again" if done < epochs else ""
        log.info(f"going on after epoch {done} of {epochs}, step {start.step}{again}")
    else:
        log.info("there is no checkpoint yet: it begins anew")


def introduce_data(splits: Any, config: Config | None = None) -> None:
    """Say what was read: rows, and what was recognised, left out or is doubtful; and of the
    `config` of a training, what it leaves undone."""
    rows = ", ".join(f"{len(part)} {split}" for split, part in splits.rows().items())
    words = {"labels": ("label", "labels"), "numbers": ("number", "numbers")}
    one, more = words.get(splits.target, ("class", "classes"))
    count = len(splits.labels)
    told = "" if splits.target == "pixels" else f", {count} {one if count == 1 else more}"
    log.info(f"data: {rows}{told}")
    for note in splits.notes:
        log.info(f"data: {note}")
    for hint in () if config is None else hints(splits, config):
        log.info(f"data: {hint}")


def hints(splits: Any, config: Config) -> Iterator[str]:
    """What data call for that a config does not ask for, or asks for in vain."""
    weighs = KEYS["optim.class_weights"].of(config.recipe) and splits.target == "label"
    if weighs and config.optim.class_weights == "none" and uneven(splits.train):
        yield "--optim.class_weights auto makes classes count the same"
    if KEYS["data.flip"].of(config.recipe) and config.data.flip and config.data.augment == "none":
        yield "with data.augment none, data.flip mirrors only features that are computed once"


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


def say_files(folder: Path, seconds: float) -> None:
    """Say where the pictures and the report of a run are."""
    for name in (CURVES, CONFUSION):
        if (folder / name).exists():
            log.info(f"figure: {folder / name}")
    log.info(f"{seconds:.1f} s of training; see {folder}/report.md")


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
