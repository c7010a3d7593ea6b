"""Pictures of things, each in a box, and what the boxes are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.errors import UserError
from zoo.inputs.preprocess import SIDE, Preprocess

if TYPE_CHECKING:
    from PIL.Image import Image

NOTHING = -1  # what fills up the rows of a picture that has fewer boxes than another


class Boxed(NamedTuple):
    """A picture, a path, a file's bytes or decoded, and its boxes."""

    picture: "Any | Image"
    boxes: np.ndarray
    """(n, 5) float32: x0, y0, x1, y1 in pixels from the upper left corner, and the class."""


@dataclass(frozen=True)
class PrepareBoxes(Preprocess, kind="boxes"):
    """`prepare(picture)` gives (channels, height, width), the whole picture in its proportions;
    boxes are resized with it, and answers are told in the pixels of the picture as it was given.

    While training, pieces of `size` are drawn from the picture, and the boxes are cut alike.
    """

    alone: ClassVar[bool] = True

    shorter: int | None = None
    """What the shorter side becomes in pixels, as far as `longer` allows; None = none is made
    larger."""
    longer: int | None = None
    """The most pixels of the longer side; None = as many as it has."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, side in (("shorter", self.shorter), ("longer", self.longer)):
            if side is not None and (type(side) is not int or not 1 <= side <= SIDE):
                wants = f"a whole number of pixels, 1 to {SIDE}, or none"
                raise UserError(f"Preprocess got {name} {side!r}; it takes {wants}")
        check_bounds(self.shorter, self.longer)

    def load(self, source: Any) -> Any:
        """A picture, or Boxed -> a decoded picture, or Boxed with one. UserError for a file that
        cannot be read."""
        if not isinstance(source, Boxed):
            return super().load(source)
        return Boxed(super().load(source.picture), source.boxes)

    def sides(self, size: tuple[int, int]) -> tuple[int, int]:
        """(width, height) of a picture -> those that it is seen at."""
        if self.longer is None:
            return size
        grown = 1.0 if self.shorter is None else self.shorter / min(size)
        scale = min(grown, self.longer / max(size))
        width, height = (max(1, round(scale * side)) for side in size)
        return width, height

    def fit(self, picture: Any) -> Any:
        """A decoded picture, or Boxed with one -> the same at the sides that it is seen at."""
        if isinstance(picture, Boxed):
            seen, (boxes, had) = self.fit(picture.picture), (picture.boxes, picture.picture.size)
            factor = [now / before for now, before in zip(seen.size, had, strict=True)]
            return Boxed(seen, boxes * np.array([*factor, *factor, 1], np.float32))
        from PIL import Image

        sides = self.sides(picture.size)
        if sides == picture.size:
            return picture
        return picture.resize(sides, Image.Resampling[self.interpolation.upper()])

    def finish(self, loaded: Any) -> Any:
        """A decoded picture -> (channels, h, w), normalised; Boxed -> that, and (n, 5) float32."""
        seen = self.fit(loaded)
        if not isinstance(seen, Boxed):
            return self.tensor(seen)
        return self.tensor(seen.picture), torch.from_numpy(seen.boxes)

    def original(self, loaded: Any) -> tuple[int, int]:
        """A decoded picture -> its (width, height), which answers are told in."""
        return loaded.size

    def augment(self, config: Any) -> Callable[[Any], Any]:
        """`config.augment`, `config.flip`, `config.turn` -> what gives pieces of `size`."""
        from zoo.inputs.vary_scene import VaryBoxes

        return VaryBoxes(self, config.augment, config.flip, config.turn)

    def batch(self, samples: Sequence[Any]) -> dict[str, Tensor]:
        """[(C, H, W)], or those with [(n, 5)] -> {"pixels": (B, C, H, W), "target": (B, most n,
        5)}, whose rows without a box are `NOTHING`."""
        if isinstance(samples[0], Tensor):
            return {"pixels": torch.stack(list(samples))}
        pixels, boxes = zip(*samples, strict=True)
        target = torch.nn.utils.rnn.pad_sequence(list(boxes), True, NOTHING)
        return {"pixels": torch.stack(pixels), "target": target}

    def answer(
        self, found: dict[str, Tensor], labels: Sequence[str] | None, size: tuple[int, int]
    ) -> dict[str, Any]:
        """{"boxes": (n, 4), "scores", "labels"} of a picture that is (width, height) pixels ->
        {"boxes": [{"label", "score", "box": [x0, y0, x1, y1]}]}, the surest first."""
        numbers, most = found["labels"].tolist(), torch.tensor([*size, *size])
        boxes = found["boxes"] * (most / torch.tensor([*self.sides(size), *self.sides(size)]))
        boxes = torch.minimum(boxes, most)  # which the product may pass by a last bit
        each = zip(numbers, found["scores"].tolist(), boxes.tolist(), strict=True)
        return {
            "boxes": [
                {"label": labels[n] if labels else str(n), "score": score, "box": box}
                for n, score, box in each
            ]
        }

    @classmethod
    def of(
        cls, base: Preprocess, size: Any, shorter: int | None = None, longer: int | None = None
    ) -> "PrepareBoxes":
        """How a model reads pictures -> how it reads boxes too; `size` of pieces, None = its
        own."""
        own = {field.name: getattr(base, field.name) for field in fields(Preprocess)}
        size = base.size if size is None else size
        return cls(**{**own, "size": size}, shorter=shorter, longer=longer)


def check_bounds(shorter: int | None, longer: int | None) -> None:
    """UserError for a shorter side that a longer one does not bound: a strip would have no end."""
    if shorter is not None and not shorter <= (longer or 0):
        raise UserError(
            f"data.shorter takes a data.longer of as many pixels or more; got {shorter} and "
            f"{longer or 'null'}: give --data.longer {shorter * 5 // 3}"
        )


def boxes_of(ids: np.ndarray) -> np.ndarray:
    """(h, w) whole numbers, one for each thing and 0 for none -> (n, 4) float64: x0, y0, x1, y1 of
    the pixels of each, from the first one's edge to the last one's."""
    rows, columns = np.nonzero(ids)
    numbers, thing = np.unique(ids[rows, columns], return_inverse=True)
    boxes = np.empty((len(numbers), 4))
    boxes[:, :2], boxes[:, 2:] = np.inf, 0
    for axis, places in enumerate((columns, rows)):
        np.minimum.at(boxes[:, axis], thing, places)
        np.maximum.at(boxes[:, axis + 2], thing, places + 1)
    return boxes


def boxes(config: Any) -> Callable[[Preprocess], PrepareBoxes]:
    """The data section of a config -> what makes a model's way to read pictures one to read boxes
    too."""
    return lambda base: PrepareBoxes.of(base, config.crop, config.shorter, config.longer)
