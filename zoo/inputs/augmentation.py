"""Varying pictures while training."""

from collections.abc import Callable
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor
from torchvision.transforms import v2

from zoo.errors import UserError, suggest
from zoo.inputs.preprocess import Preprocess

# per strength: the smallest share of the picture's area that is kept (Inception crops, Szegedy et
# al. 2015), RandAugment (Cubuk et al. 2020) or not, the chance of erasing (Zhong et al. 2020)
STRENGTHS = {"none": None, "light": (0.6, False, 0.0), "strong": (0.2, True, 0.25)}


def augment(config: Any, preprocess: Preprocess) -> Callable[[Image], Tensor]:
    """`config.augment` ("none", "light", "strong") and `config.flip` -> picture to (C, H, W).

    Takes decoded pictures, normalises as `preprocess` does, and draws from torch's global
    generator alone. "none" is `preprocess.finish` itself: no mirroring either.
    """
    if config.augment not in STRENGTHS:
        hint = suggest(str(config.augment), STRENGTHS)
        raise UserError(f"data.augment takes {', '.join(STRENGTHS)}; got {config.augment!r}{hint}")
    strength = STRENGTHS[config.augment]
    return preprocess.finish if strength is None else Augment(preprocess, config.flip, *strength)


class Augment:
    """Random crop, mirroring, RandAugment and erasing around one Preprocess; can be pickled."""

    def __init__(
        self, preprocess: Preprocess, flip: bool, area: float, rand: bool, erase: float
    ) -> None:
        how = v2.InterpolationMode(preprocess.interpolation)
        grey = [round(255 * mean) for mean in preprocess.mean]  # normalises to about 0
        steps: list[torch.nn.Module] = [
            v2.RandomResizedCrop(preprocess.size, scale=(area, 1.0), interpolation=how)
        ]
        if flip:
            steps.append(v2.RandomHorizontalFlip())
        if rand:  # rotations know fewer filters than resizing does
            turn = how if how.value in ("nearest", "bilinear") else v2.InterpolationMode.BICUBIC
            steps.append(v2.RandAugment(interpolation=turn, fill=grey))
        self.preprocess = preprocess
        self.on_picture = v2.Compose(steps)
        self.on_tensor = v2.RandomErasing(erase) if erase else None

    def __call__(self, picture: Image) -> Tensor:
        """A decoded picture of any size -> (channels, height, width), float32, normalised."""
        pixels = self.preprocess.tensor(self.on_picture(picture))
        return pixels if self.on_tensor is None else self.on_tensor(pixels)


class Mix:
    """(B, C, H, W) or (B, T, mels), (B,) -> blended pictures or sounds and (B, classes) shares of
    labels that sum to 1.

    "mixup" adds two samples, weighted (Zhang et al. 2017, arXiv:1710.09412), "cutmix" puts a box
    of one into the other (Yun et al. 2019, arXiv:1905.04899), "both" draws one of them for each
    batch. Any batch size; one sample alone is mixed with itself.
    """

    def __init__(self, mix: str, classes: int):
        mixup = v2.MixUp(alpha=0.2, num_classes=classes)
        cutmix = v2.CutMix(alpha=1.0, num_classes=classes)
        kinds = {"mixup": [mixup], "cutmix": [cutmix], "both": [mixup, cutmix]}
        self.blend = v2.RandomChoice(kinds[mix])

    def __call__(self, x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Draws from torch's global generator alone."""
        flat = x.ndim == 3
        blended, shares = self.blend(x[:, None] if flat else x, target)
        return blended[:, 0] if flat else blended, shares
