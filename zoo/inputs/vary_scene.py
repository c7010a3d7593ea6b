"""Varying pictures together with their masks or boxes while training."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from zoo.inputs.boxes import Boxed
from zoo.inputs.preprocess import Preprocess
from zoo.inputs.scene import IGNORED, Masked

# per strength: how much larger or smaller a picture may become, brightness and contrast and
# saturation, hue, the chance of grey
STRENGTHS = {"none": None, "light": (1.33, 0.2, 0.0, 0.0), "strong": (2.0, 0.5, 0.1, 0.2)}
LEAST = 0.2  # share of a box that must be in a piece, or it is none of its boxes


@dataclass
class Vary:
    """A piece of `prepare.size` of a picture and of what is told of it, resized, moved, mirrored
    and turned alike; only the picture's colours change."""

    prepare: Preprocess
    strength: str
    flip: bool
    turn: bool

    def __post_init__(self) -> None:
        prepare, strong = self.prepare, STRENGTHS[self.strength]
        grey = [round(255 * mean) for mean in prepare.mean]
        beside: Any = {tv_tensors.Image: grey, tv_tensors.Mask: IGNORED}
        steps: list[Any] = [v2.RandomCrop(prepare.size, pad_if_needed=True, fill=beside)]
        if self.flip and strong:
            steps.append(v2.RandomHorizontalFlip())
        if self.turn and strong:
            steps.append(v2.RandomVerticalFlip())
        if strong:
            _, light, hue, chance = strong
            steps.append(v2.ColorJitter(light, light, light, hue))
            steps += [v2.RandomGrayscale(chance)] if chance and prepare.channels == 3 else []
        self.steps = v2.Compose(steps)

    def moved(self, pixels: Tensor, told: Any) -> tuple[Tensor, Any, Tensor, int]:
        """(C, H, W) uint8, a Mask or BoundingBoxes -> the piece normalised (C, h, w), what is told
        of the whole resized, of the piece before its last turn, and how many quarter turns (against
        the clock) that was. Draws from torch's global generator."""
        strong, whole, turns = STRENGTHS[self.strength], told, 0
        if strong is not None:
            most = math.log(strong[0])
            scale = math.exp(float(torch.empty(1).uniform_(-most, most)))
            size = [max(1, round(scale * side)) for side in pixels.shape[-2:]]
            how = v2.InterpolationMode(self.prepare.interpolation)
            pixels = v2.functional.resize(pixels, size, how, antialias=True)
            whole = v2.functional.resize(told, size)  # masks by the nearest pixel
        pair = self.steps(tv_tensors.Image(pixels), whole)
        pixels, part = (x.as_subclass(torch.Tensor) for x in pair)
        if self.turn and strong is not None and pixels.shape[-1] == pixels.shape[-2]:
            turns = int(torch.randint(2, ()))
        pixels = self.prepare.normal(pixels.rot90(turns, (-2, -1)))
        return pixels, whole.as_subclass(torch.Tensor), part, turns


class VaryScene(Vary):
    """Of a picture with a mask. What lies beside a small picture does not count."""

    def __call__(self, loaded: Masked) -> tuple[Tensor, Tensor]:
        """A decoded picture with its mask -> (C, h, w) float32, (h, w) int64."""
        from zoo.inputs.image import to_tensor

        mask = tv_tensors.Mask(torch.from_numpy(loaded.classes)[None])
        pixels, _, classes, turns = self.moved(to_tensor(loaded.picture), mask)
        return pixels, classes[0].rot90(turns, (-2, -1)).long()


class VaryBoxes(Vary):
    """Of a picture with boxes. Those of which less than `LEAST` is in the piece are left out."""

    prepare: Any  # PrepareBoxes

    def __call__(self, loaded: Boxed) -> tuple[Tensor, Tensor]:
        """A decoded picture with its boxes -> (C, h, w) float32, (n, 5) float32."""
        from zoo.inputs.image import to_tensor

        seen = self.prepare.fit(loaded)  # as large as it is answered
        pixels, told = to_tensor(seen.picture), torch.from_numpy(seen.boxes)
        sides: Any = {"format": "XYXY", "canvas_size": pixels.shape[-2:]}
        boxes = tv_tensors.BoundingBoxes(told[:, :4], **sides)
        pixels, whole, part, turns = self.moved(pixels, boxes)
        if turns:  # the place x of a square of side s is s - x from its other end
            x0, y0, x1, y1 = part.unbind(-1)
            part = torch.stack((y0, pixels.shape[-1] - x1, y1, pixels.shape[-1] - x0), -1)
        sizes, had = (((x[:, 2:] - x[:, :2]).clamp(min=0)).prod(-1) for x in (part, whole))
        here = sizes >= (LEAST * had).clamp(min=1)  # and no sliver of a pixel
        return pixels, torch.cat((part, told[:, 4:]), 1)[here]
