"""The keys of a config: sections, types, defaults, limits and a line of help for each.

`model` is an open mapping; what may stand in it is known to the model's parts and checked when it
is built.
"""

import math
import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import lru_cache
from numbers import Number
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from zoo.errors import UserError, suggest
from zoo.training.places import Dumper, Given, scalar


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
COLUMNS = (IMAGE, TEXT, AUDIO)


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
        "what labels are, null = recognised", None, tasks=COLUMNS
    )
    group: str | None = option("column whose values stay on one side", None, tasks=COLUMNS)
    time: str | None = option("column of dates: val and test are the latest", None)
    augment: Literal["none", "light", "strong"] = option("how much samples are varied", "light")
    flip: bool = option(
        "mirror pictures at random; not where left and right differ", True, tasks=(IMAGE,)
    )
    mix: Literal["none", "mixup", "cutmix", "both"] = option(
        "blend the samples of a batch, and their labels", "none", tasks=(IMAGE, AUDIO)
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
        "auto: classes of few samples count as much as others", "none", tasks=COLUMNS
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

    metric: str | None = option("what decides, null = accuracy, macro_f1 or mse", None)
    mode: Literal["max", "min"] | None = option("what of it is best, null = as it is meant", None)
    patience: int | None = option("epochs without progress, then stop; null = never", None, least=1)


@dataclass(frozen=True, kw_only=True)
class EmaConfig:
    """a running mean of the weights, which is measured and kept in their place"""

    decay: float | None = option("share of the mean that stays each step, null = no mean", None,
                                 above=0, below=1)  # fmt: skip


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


@dataclass(frozen=True, kw_only=True)
class Config:
    """A whole run. `recipe` is `<task>/<name>`; `model` has `name`, `load` or `backbone`."""

    recipe: str
    data: DataConfig
    model: dict[str, Any]
    optim: OptimConfig
    run: RunConfig
    ema: EmaConfig = field(default_factory=EmaConfig)
    select: SelectConfig = field(default_factory=SelectConfig)
    hw: HardwareConfig = field(default_factory=HardwareConfig)

    def to_dict(self) -> dict[str, Any]:
        """Nested dicts of plain values, without keys that only other tasks have."""
        values = asdict(self)
        for key in KEYS.values():
            if not key.of(self.recipe):
                section, _, name = key.name.partition(".")
                del values[section][name]
        return values

    def to_yaml(self) -> str:
        """YAML that `resolve` reads back, so that a saved file runs again.

        The config read is equal but for its preset, whose values stand here themselves.
        """
        plain = replace(self, hw=replace(self.hw, preset=None)).to_dict()
        return yaml.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1000)


SECTIONS: dict[str, Any] = {
    "data": DataConfig,
    "optim": OptimConfig,
    "run": RunConfig,
    "ema": EmaConfig,
    "select": SelectConfig,
    "hw": HardwareConfig,
}


@dataclass(frozen=True)
class Key:
    """One typed value of a config; `default` is `MISSING` where a value must be given."""

    name: str
    kind: Any
    default: Any
    help: str
    limits: Mapping[str, float]
    text: str = "text"
    tasks: tuple[str, ...] = ()

    def of(self, recipe: str) -> bool:
        """Whether the task of a recipe's name has this key."""
        return not self.tasks or recipe.split("/")[0] in self.tasks

    @property
    def wants(self) -> str:
        """What the key takes, in words: `a number above 0`."""
        *words, last = _words(self.kind, self.limits, self.text)
        return f"{', '.join(words)} or {last}" if words else last

    @property
    def short(self) -> str:
        """The same without limits, for a column of a table: `number`."""
        return " | ".join(
            word.removeprefix("a ").strip("'") for word in _words(self.kind, {}, self.text)
        )

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that the key takes, if it takes words."""
        return tuple(
            c for m in _members(self.kind) if get_origin(m) is Literal for c in get_args(m)
        )


def _keys() -> Iterator[Key]:
    for section, kind in SECTIONS.items():
        hints = get_type_hints(kind)
        for f in fields(kind):
            help, limits = f.metadata["help"], f.metadata["limits"]
            more = f.metadata["text"], f.metadata["tasks"]
            yield Key(f"{section}.{f.name}", hints[f.name], f.default, help, limits, *more)


KEYS: dict[str, Key] = {key.name: key for key in _keys()}


def check(key: Key, given: Given) -> Any:
    """The value in its key's type and limits; `UserError` names key, want, value and place."""
    value = os.fspath(given.value) if isinstance(given.value, os.PathLike) else given.value
    value = getattr(value, "item", lambda: value)() if isinstance(value, Number) else value
    if isinstance(value, str) and "\0" in value:
        raise UserError(f"{key.name} takes {key.wants}; got {value!r}{given.at}: drop the NUL")
    if isinstance(value, str) and not value.strip():
        raise UserError(f"{key.name} takes {key.wants}; got an empty word{given.at}: leave it out")
    readings = [value]
    if isinstance(value, str) and key.kind is not str:
        read = scalar(value)  # behind a flag all is text: a number, or a path?
        readings = [read, value]
        if read is None or (type(read) in (int, float) and float in _members(key.kind)):
            value, readings = read, [read]  # never a path
    wrong = f"{key.name} takes {key.wants}; got {wording(value)}{given.at}"
    for typed in (_typed(key, reading) for reading in readings):
        if typed is not MISSING:
            break
    else:
        if isinstance(value, str):
            raise UserError(wrong + suggest(value, key.choices))
        text = str in _members(key.kind) and isinstance(value, int | float)
        raise UserError(wrong + ("; put it in quotes" if text else ""))
    for number in typed if isinstance(typed, tuple) else [typed]:
        if type(number) in (int, float) and not _within(number, key.limits):
            raise UserError(wrong)
    return typed


def _typed(key: Key, value: Any) -> Any:
    """The value as the key's type, MISSING where it is of another."""
    members = _members(key.kind)
    if isinstance(value, str):  # jsonargparse would go on to read it, 12:30 as 750
        return value if str in members or value in key.choices else MISSING
    if value is None:  # and it takes null everywhere
        return None if NoneType in members else MISSING
    try:
        return _parser().parse_object({key.name: value}, defaults=False)[key.name]
    except ArgumentError:
        return MISSING


def wording(value: Any) -> str:
    """A value as a YAML file would have it, text in quotes."""
    return (
        {None: "null", True: "true", False: "false"}[value]
        if value is None or isinstance(value, bool)
        else repr(value)
    )


@lru_cache
def _parser() -> ArgumentParser:
    parser = ArgumentParser(exit_on_error=False)
    for key in KEYS.values():
        parser.add_argument(f"--{key.name}", type=key.kind)
    return parser


def _members(kind: Any) -> tuple[Any, ...]:
    """The types that a union is made of."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _within(number: float, limits: Mapping[str, float]) -> bool:
    tests = {"above": operator.gt, "least": operator.ge, "below": operator.lt, "most": operator.le}
    return math.isfinite(number) and all(
        tests[name](number, limit) for name, limit in limits.items()
    )


def _words(kind: Any, limits: Mapping[str, float], text: str) -> list[str]:
    """The alternatives of a type: `int | Literal["auto"]` -> ["a whole number", "'auto'"]."""
    if len(_members(kind)) > 1:
        return [word for member in _members(kind) for word in _words(member, limits, text)]
    if get_origin(kind) is Literal:
        return [repr(choice) for choice in get_args(kind)]
    names = {"above": "above", "least": "of at least", "below": "below", "most": "of at most"}
    bounds = " and ".join(f"{names[name]} {limit}" for name, limit in limits.items())
    words = {bool: "true or false", str: text, NoneType: "null"}
    words |= {float: f"a number {bounds}", int: f"a whole number {bounds}"}
    words |= {tuple[float, float]: "[number, number]" + (f", each {bounds}" if bounds else "")}
    return [words[kind].rstrip()]
