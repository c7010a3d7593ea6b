"""Pictures of things, each in a box, and what the boxes are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.inputs.preprocess import Preprocess

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
    """`prepare(picture)` gives (channels, height, width) at the picture's own size; nothing is cut.

    While training, pieces of `size` are drawn from the picture, and the boxes are cut alike.
    """

    alone: ClassVar[bool] = True

    def load(self, source: Any) -> Any:
        """A picture, or Boxed -> a decoded picture, or Boxed with one. UserError for a file that
        cannot be read."""
        if not isinstance(source, Boxed):
            return super().load(source)
        return Boxed(super().load(source.picture), source.boxes)

    def finish(self, loaded: Any) -> Any:
        """A decoded picture -> (channels, h, w), normalised; Boxed -> that, and (n, 5) float32."""
        if not isinstance(loaded, Boxed):
            return self.tensor(loaded)
        return self.tensor(loaded.picture), torch.from_numpy(loaded.boxes)

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

    def answer(self, found: dict[str, Tensor], labels: Sequence[str] | None) -> dict[str, Any]:
        """{"boxes": (n, 4), "scores", "labels"} -> {"boxes": [{"label", "score", "box": [x0, y0,
        x1, y1]}]}, the surest first."""
        numbers = found["labels"].tolist()
        each = zip(numbers, found["scores"].tolist(), found["boxes"].tolist(), strict=True)
        return {
            "boxes": [
                {"label": labels[n] if labels else str(n), "score": score, "box": box}
                for n, score, box in each
            ]
        }

    @classmethod
    def of(cls, base: Preprocess, size: Any) -> "PrepareBoxes":
        """How a model reads pictures -> how it reads boxes too; `size` of pieces, None = its
        own."""
        own = {field.name: getattr(base, field.name) for field in fields(cls)}
        return cls(**{**own, "size": base.size if size is None else size})


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
    return lambda base: PrepareBoxes.of(base, config.crop)
