"""Varying pictures and their masks together while training."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from zoo.inputs.scene import IGNORED, Masked, PrepareScene

# per strength: how much larger or smaller a picture may become, brightness and contrast and
# saturation, hue, the chance of grey
STRENGTHS = {"none": None, "light": (1.33, 0.2, 0.0, 0.0), "strong": (2.0, 0.5, 0.1, 0.2)}


@dataclass
class VaryScene:
    """A piece of `prepare.size` of a picture and its mask, resized, moved, mirrored and turned
    alike; only the picture's colours change. What lies beside a small picture does not count."""

    prepare: PrepareScene
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

    def __call__(self, loaded: Masked) -> tuple[Tensor, Tensor]:
        """A decoded picture with its mask -> (C, h, w) float32, (h, w) int64. Draws from torch's
        global generator."""
        from zoo.inputs.image import to_tensor

        pixels, classes = to_tensor(loaded.picture), torch.from_numpy(loaded.classes)[None]
        strong = STRENGTHS[self.strength]
        if strong is not None:
            most = math.log(strong[0])
            scale = math.exp(float(torch.empty(1).uniform_(-most, most)))
            size = [max(1, round(scale * side)) for side in pixels.shape[-2:]]
            how = v2.InterpolationMode(self.prepare.interpolation)
            pixels = v2.functional.resize(pixels, size, how, antialias=True)
            classes = v2.functional.resize(classes.float(), size, v2.InterpolationMode.NEAREST)
        pair = tv_tensors.Image(pixels), tv_tensors.Mask(classes.to(torch.int16))
        pixels, classes = (x.as_subclass(torch.Tensor) for x in self.steps(*pair))
        if self.turn and strong is not None and pixels.shape[-1] == pixels.shape[-2]:
            turns = int(torch.randint(2, ()))
            pixels, classes = pixels.rot90(turns, (-2, -1)), classes.rot90(turns, (-2, -1))
        return self.prepare.normal(pixels), classes[0].long()
