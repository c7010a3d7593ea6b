"""How a picture becomes a model's input: one value, used in training, evaluation and prediction."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from zoo.errors import UserError, suggest
from zoo.inputs.prepare import Prepare

if TYPE_CHECKING:
    from PIL.Image import Image

INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
SIDE = 2**14  # pixels at most: the tensor of a square takes 3 GB
MODES = ("crop", "crop_early", "squash", "pad")


@dataclass(frozen=True)
class Preprocess(Prepare, kind="picture"):
    """`preprocess(source)` gives a float32 tensor (channels, height, width), whatever the picture.

    It travels with the model as JSON (`to_dict`, `from_dict`). UserError for values that fit
    nothing, and for a mean or std of another length than `channels`.
    """

    input: ClassVar[str] = "pixels"

    size: tuple[int, int]
    """(height, width) of the result in pixels; one number stands for both."""
    mean: tuple[float, ...] = (0.5,)
    """Per channel, on the scale where white is 1; one number stands for all channels."""
    std: tuple[float, ...] = (0.5,)
    """Per channel, same scale."""
    channels: int = 3
    """1 decodes to grey, 3 to RGB."""
    interpolation: str = "bicubic"
    """The filter of the resize, always antialiased but for "nearest"."""
    crop: float = 1.0
    """How much of the resized picture's side is kept, as in timm's crop_pct."""
    mode: str = "crop"
    """"crop": keep the proportions, cut the middle out. "crop_early": the same, half a pixel
    further left or up where the middle falls between two (transformers). "squash": stretch. "pad":
    keep the proportions, show the whole picture, fill the rest with `background`."""
    background: tuple[int, int, int] = (255, 255, 255)
    """What is behind transparent pixels and beside padded pictures: RGB, 0 to 255."""

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        put("size", _numbers("size", self.size, 2, int))
        if type(self.channels) is not int or self.channels < 1:
            raise UserError(f"Preprocess takes channels of 1 or 3; got {self.channels!r}")
        for name in ("mean", "std"):
            put(name, _numbers(name, getattr(self, name), self.channels, float))
        put("background", _numbers("background", self.background, 3, int))
        put("crop", _numbers("crop", self.crop, 1, float)[0])
        wrong = {
            "size": (
                not 1 <= min(self.size) <= max(self.size) <= SIDE,
                f"a height and a width of 1 to {SIDE}",
            ),
            "std": (min(self.std) <= 0, "numbers above 0"),
            "crop": (not 0 < self.crop <= 1, "a number above 0 and up to 1"),
            "background": (
                not all(0 <= v <= 255 for v in self.background),
                "three numbers from 0 to 255",
            ),
        }
        for name, choices in {"interpolation": INTERPOLATIONS, "mode": MODES}.items():
            value = getattr(self, name)
            wants = f"one of {', '.join(choices)}"
            wrong[name] = (value not in choices, wants + suggest(str(value), choices))
        for name, (is_wrong, wants) in wrong.items():
            if is_wrong:
                raise UserError(f"Preprocess got {name} {getattr(self, name)!r}; it takes {wants}")

    @property
    def width(self) -> int:  # type: ignore[override]  # depends on the channels
        """Bytes of a decoded pixel."""
        return self.channels

    @property
    def work(self) -> int:  # type: ignore[override]  # depends on the size
        """Pixels of the result."""
        return self.size[0] * self.size[1]

    def load(self, source: "str | Path | bytes | Image") -> "Image":
        """A file, its bytes or a PIL picture -> a picture in mode "L" or "RGB", at its own size.

        UserError that names the file if it cannot be read as a picture.
        """
        from zoo.inputs.image import decode_image

        return decode_image(source, self.channels, self.background)

    def finish(self, loaded: "Image") -> Tensor:
        """A decoded picture of any size -> (channels, height, width), float32, normalised."""
        return self.tensor(self.fit(loaded))

    def augment(self, config: Any) -> Callable[["Image"], Tensor]:
        """`config.augment`, `config.flip` -> see `zoo.inputs.augment`."""
        from zoo.inputs.augmentation import augment

        return augment(config, self)

    def batch(self, samples: Sequence[Tensor]) -> dict[str, Tensor]:
        """[(C, H, W)] -> {"pixels": (B, C, H, W)}."""
        return {"pixels": torch.stack(list(samples))}

    def fit(self, picture: "Image") -> "Image":
        """A decoded picture of any size -> the same at `size`, still 8 bits."""
        from zoo.inputs.image import fit_picture

        return fit_picture(
            picture, self.size, self.crop, self.mode, self.interpolation, self.background
        )

    def tensor(self, picture: "Image") -> Tensor:
        """A picture in mode "L" or "RGB" -> (channels, height, width), float32, normalised."""
        from zoo.inputs.image import to_tensor

        return self.normal(to_tensor(picture))

    def normal(self, pixels: Tensor) -> Tensor:
        """(channels, height, width) uint8 -> float32, less the mean, over the deviation."""
        mean, std = _columns(self.mean, self.std)
        return pixels.to(torch.float32).div_(255).sub_(mean).div_(std)


def _numbers(name: str, value: Any, count: int, kind: type) -> tuple[Any, ...]:
    """A tuple of `count` finite numbers; one number, or a list of one, is repeated."""
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if len(values) == 1:
        values *= count
    if len(values) != count:
        per = " (its channels)" if name in ("mean", "std") else ""
        raise UserError(f"Preprocess takes {count}{per} values of {name}; got {len(values)}")
    for v in values:
        number = isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)
        if not number or kind(v) != v:
            wants = "whole numbers" if kind is int else "numbers"
            raise UserError(f"Preprocess got {name} {value!r}; it takes {wants}")
    return tuple(kind(v) for v in values)


@functools.lru_cache(maxsize=16)
def _columns(*values: tuple[float, ...]) -> tuple[Tensor, ...]:
    """Tuples of C numbers -> tensors (C, 1, 1)."""
    return tuple(torch.tensor(v)[:, None, None] for v in values)
