"""The sections of a config: what is read, how weights move, how long, what is kept, on what.

`model` is an open mapping; what may stand in it is known to the model's parts and checked when it
is built.
"""

from dataclasses import MISSING, dataclass, field
from typing import Any, Literal


def option(
    help: str,
    default: Any = MISSING,
    text: str = "text",
    tasks: tuple[str, ...] = (),
    **limits: float,
) -> Any:
    """A field with a line of help; numbers in it keep to `above`, `least`, `below`, `most`.

    `text` says what text in it stands for, `tasks` which tasks have the key; none means all.
    """
    facts = {"help": help, "limits": limits, "text": text, "tasks": tasks}
    return field(default=default, metadata=facts)


SHARE: dict[str, Any] = {"text": "a path", "above": 0, "below": 1}
IMAGE, TEXT, AUDIO, SERIES = "image_classify", "text_classify", "audio_classify", "series_forecast"
SEGMENT, PRETRAIN, DISTILL = "image_segment", "image_pretrain", "image_distill"
DETECT = "image_detect"
LABELLED = (IMAGE, DISTILL, TEXT, AUDIO)
COLUMNS = (*LABELLED, SEGMENT, DETECT, PRETRAIN)
PICTURES = (IMAGE, DISTILL, SEGMENT, DETECT, PRETRAIN)
PIECES = (SEGMENT, DETECT)
SIDE: dict[str, Any] = {"tasks": (DETECT,), "least": 8, "most": 16_384}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """what is read"""

    train: str = option("class folders of files, a table or hf:NAME")
    val: float | str | None = option(
        "share of train, a source or a date to choose by", 0.1, **SHARE
    )
    test: float | str | None = option("share held out, a source, or a date", None, **SHARE)
    input: str | None = option("column of the samples, null = recognised", None, tasks=COLUMNS)
    label: str | None = option("column of the labels, null = recognised", None)
    task: Literal["label", "labels", "numbers"] | None = option(
        "what labels are, null = recognised", None, tasks=LABELLED
    )
    split: str = option(
        "column of train, val or test, auto = recognised, or none",
        "auto",
        tasks=(*LABELLED, SEGMENT, DETECT),
    )
    group: str | None = option("column whose values stay on one side", None, tasks=COLUMNS)
    time: str | None = option("column of dates: val and test are the latest", None)
    augment: Literal["none", "light", "strong"] = option("how much samples are varied", "light")
    flip: bool = option(
        "mirror pictures at random; not where left and right differ", True, tasks=PICTURES
    )
    turn: bool = option(
        "turn and upend pictures; not where up and down differ", False, tasks=PIECES
    )
    crop: int | None = option(
        "side of learned pieces, null = the model's size", None, tasks=PIECES, least=8
    )
    shorter: int | None = option("pixels of pictures' shorter side, null = as it is", None, **SIDE)
    longer: int | None = option("the most pixels of the longer side, null = any", None, **SIDE)
    ignore: int | None = option(
        "value of a mask's pixels that do not count", 255, tasks=(SEGMENT,), least=0, most=65_535
    )
    mix: Literal["none", "mixup", "cutmix", "both"] = option(
        "blend the samples of a batch, and their labels", "none", tasks=(IMAGE, DISTILL, AUDIO)
    )
    tokenizer: str | None = option(
        "a tokenizer.json, null = one is trained on train", None, tasks=(TEXT,)
    )
    vocabulary: int = option(
        "subwords of a trained tokenizer", 4000, tasks=(TEXT,), least=300, most=1_000_000
    )
    length: int = option("the most subwords of a text", 128, tasks=(TEXT,), least=2, most=100_000)
    rate: int = option(
        "samples per second that a model hears", 16000, tasks=(AUDIO,), least=1000, most=384_000
    )
    mels: int = option("bands of the log-mel spectrogram", 64, tasks=(AUDIO,), least=8, most=1024)
    centre: bool = option(
        "take away each sound's own mean spectrum (microphone, room)", False, tasks=(AUDIO,)
    )
    seconds: float = option("what is longer is cut", 10.0, tasks=(AUDIO,), above=0, most=36_000)
    columns: tuple[str, ...] | None = option(
        "columns of numbers that are seen, [a, b], null = all", None, tasks=(SERIES,)
    )
    past: int = option("rows that a forecast sees", 96, tasks=(SERIES,), least=1)
    ahead: int = option("rows that are forecast", 24, tasks=(SERIES,), least=1)
    season: int = option(
        "rows of a season, for a baseline that repeats it", 24, tasks=(SERIES,), least=1
    )
    until: str | None = option(
        "date from which on rows are left out", None, text="a date", tasks=(SERIES,)
    )
    on_bad: Literal["raise", "skip"] = option(
        "an unreadable sample stops, or is left out", "raise", tasks=COLUMNS
    )


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """how weights move"""

    lr: float = option("learning rate at its peak", above=0)
    weight_decay: float = option("decay of matrices; norms, biases, tables: 0", 0.05, least=0)
    warmup: float = option("share of all steps in which lr rises", 0.1, least=0, below=1)
    min_lr: float = option("share of lr left at the end of the cosine", 0.0, least=0, most=1)
    layer_decay: float = option(
        "factor of lr from a block to the one before it", 1.0, above=0, most=1
    )
    head_lr: float | None = option("learning rate of the head, null = lr", None, above=0)
    unfreeze: float = option(
        "share of all steps until all the model learns; head first", 0.0, least=0, below=1
    )
    clip: float | None = option("largest norm of the gradient, null = any", 1.0, above=0)
    smoothing: float = option("label smoothing", 0.1, least=0, below=1)
    class_weights: Literal["none", "auto"] = option(
        "auto: classes of few samples count as much as others", "none", tasks=LABELLED
    )
    betas: tuple[float, float] = option("AdamW's averages", (0.9, 0.999), least=0, below=1)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """how long, and where it is written"""

    epochs: int = option("passes over the training data", least=1)
    global_batch: int = option("samples per optimizer step, over all devices", least=1)
    seed: int = option("fixes weights, split, order, augmentation", 0, least=0, most=2**32 - 1)
    dir: str | None = option("the run's own folder, null = runs/<recipe>/<time>", None)
    log_every: int = option("optimizer steps between two lines of the log", 10, least=1)


@dataclass(frozen=True, kw_only=True)
class SelectConfig:
    """which epoch's weights are kept; without a val, the last's"""

    metric: str | None = option(
        "what decides, null = accuracy, macro_f1, mse, mean_iou or ap", None
    )
    mode: Literal["max", "min"] | None = option("what of it is best, null = as it is meant", None)
    patience: int | None = option("epochs without progress, then stop; null = never", None, least=1)


@dataclass(frozen=True, kw_only=True)
class EmaConfig:
    """a running mean of the weights, which is measured and kept in their place"""

    decay: float | None = option("share of the mean that stays each step, null = no mean", None,
                                 above=0, below=1)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DistillConfig:
    """what is learned from another model"""

    teacher: str | None = option(
        "a run, a model, or timm:NAME", None, text="a path or a name", tasks=(DISTILL,)
    )
    how: Literal["soft", "hard"] = option(
        "from its probabilities, or its choice", "soft", tasks=(DISTILL,)
    )
    share: float = option("the teacher's of the loss", 0.5, tasks=(DISTILL,), above=0, most=1)
    temperature: float = option("that softens both", 3.0, tasks=(DISTILL,), above=0)


@dataclass(frozen=True, kw_only=True)
class HardwareConfig:
    """what it runs on"""

    preset: Literal["cpu", "1gpu", "ddp"] | None = option("a named set of these values", None)
    accelerator: Literal["auto", "cpu", "gpu", "mps"] = option("kind of device", "auto")
    devices: int | Literal["auto"] = option("how many devices", "auto", least=1)
    precision: Literal["auto", "fp32", "bf16"] = option("auto = bf16 where in hardware", "auto")
    threads: int | Literal["auto"] = option("of torch, auto = its own", "auto", least=1, most=1024)
    workers: int | Literal["auto"] = option("reading processes", "auto", least=0, most=128)
    micro_batch: int | None = option("samples per device at once, null = its share", None, least=1)


PRESETS: dict[str, dict[str, Any]] = {
    "cpu": {"hw.accelerator": "cpu", "hw.devices": 1},
    "1gpu": {"hw.accelerator": "gpu", "hw.devices": 1},
    "ddp": {"hw.accelerator": "auto", "hw.devices": "auto"},
}


SECTIONS: dict[str, Any] = {
    "data": DataConfig,
    "optim": OptimConfig,
    "run": RunConfig,
    "distill": DistillConfig,
    "ema": EmaConfig,
    "select": SelectConfig,
    "hw": HardwareConfig,
}
