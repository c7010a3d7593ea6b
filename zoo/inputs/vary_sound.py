"""Varying sounds while training, as spectrograms: another speaker, pace, place, loudness, room."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from zoo.inputs.sound import PrepareSound

DECIBEL = math.log(10) / 10  # as a difference of logarithms of power
WAVES = 3  # of a smooth curve over the bands


@dataclass(frozen=True)
class Strength:
    """How far each change goes at most; 0 leaves it out."""

    pace: float
    """Share of the length by which a sound is stretched or pressed along time."""
    tract: float
    """The same along frequency, as with another vocal tract (Jaitly & Hinton 2013, "Vocal Tract
    Length Perturbation (VTLP) improves speech recognition")."""
    gain: float
    """Decibels, louder or softer."""
    tilt: float
    """Decibels by which a smooth curve over the bands rises or falls, as microphones and rooms
    differ (Nam et al. 2022, arXiv:2110.03282)."""
    noise: float
    """The chance of noise behind it, 10 to 50 decibels softer than its loudest band."""
    shift: float
    """Share of the length that is cut, or put there as silence, at either end."""
    masks: int
    """How many masks along time, and along frequency (SpecAugment, Park et al. 2019,
    arXiv:1904.08779)."""
    hidden: float
    """The share of the length, or of the bands, that one mask hides at most."""


STRENGTHS = {
    "none": None,
    "light": Strength(0.1, 0.05, 3.0, 1.5, 0.0, 0.05, 1, 0.05),
    "strong": Strength(0.2, 0.15, 6.0, 3.0, 0.2, 0.1, 1, 0.1),
}


@dataclass(frozen=True)
class VarySound:
    """(T, mels) log-mel as it was loaded -> (T', mels), varied, cut or filled, and normalised.

    Draws from torch's global generator alone.
    """

    prepare: "PrepareSound"
    strength: Strength

    def __call__(self, loaded: Tensor) -> Tensor:
        """What is cut is cut at random: any `frames` in a row of a longer sound are seen."""
        s, most = self.strength, self.prepare.frames
        x = crop(loaded, math.ceil(most * (1 + s.pace + s.shift)))
        x = stretch(warp(x, 1 + s.tract * one(), self.prepare.rate), math.exp(s.pace * one()))
        x = x + DECIBEL * (s.gain * one() + s.tilt * curve(x.shape[1]))
        if torch.rand(()) < s.noise:
            x = torch.logaddexp(x, hiss(x))
        x = crop(shift(x, s.shift), most)
        before = int(torch.randint(most - len(x) + 1, ())) if self.prepare.fixed else 0
        x = self.prepare.normal(self.prepare.fit(x, before))
        for _ in range(s.masks):
            x = mask(mask(x, s.hidden, 0), s.hidden, 1)
        return x


def one() -> float:
    """A number from -1 to 1."""
    return 2 * torch.rand(()).item() - 1


def crop(x: Tensor, most: int) -> Tensor:
    """(T, mels) -> (T or most, mels): some `most` frames in a row of a longer one."""
    start = int(torch.randint(max(len(x) - most, 0) + 1, ()))
    return x[start : start + most]


def stretch(x: Tensor, factor: float) -> Tensor:
    """(T, mels) -> (round(T * factor), mels), in a line between frames."""
    length = max(round(len(x) * factor), 1)
    return F.interpolate(x.T[None], length, mode="linear", align_corners=False)[0].T


def warp(x: Tensor, factor: float, rate: int) -> Tensor:
    """(T, mels) -> the same shape: what was at a frequency is at `factor` times it."""
    from zoo.inputs.sound import LOWEST

    low, high = mel(torch.tensor([LOWEST, rate / 2]))
    step = (high - low) / (x.shape[1] + 1)
    hertz = 700 * (10 ** ((low + step * torch.arange(1, x.shape[1] + 1)) / 2595) - 1)
    at = ((mel(hertz / factor) - low) / step - 1).clamp(0, x.shape[1] - 1)
    below = at.long().clamp(max=x.shape[1] - 2)
    return torch.lerp(x[:, below], x[:, below + 1], at - below)


def mel(hertz: Tensor) -> Tensor:
    """Hertz -> mel, as the filters have it: 2595 log10(1 + f / 700)."""
    return 2595 * torch.log10(1 + hertz / 700)


def curve(bands: int) -> Tensor:
    """-> (bands,): a smooth curve from -1 to 1, of a few waves of random heights."""
    place = (torch.arange(bands) + 0.5) / bands * math.pi
    waves = torch.cos(torch.arange(1, WAVES + 1)[:, None] * place)
    return (2 * torch.rand(WAVES) - 1) @ waves / WAVES**0.5


def hiss(x: Tensor) -> Tensor:
    """(T, mels) -> the same shape: noise of one spectrum, softer than the loudest of `x`."""
    level = x.max() - DECIBEL * (30 + 20 * one())
    return level + DECIBEL * 10 * curve(x.shape[1]) + 0.5 * torch.randn(x.shape)


def shift(x: Tensor, share: float) -> Tensor:
    """(T, mels) -> (T', mels): up to a share cut off, or put there as silence, at each end."""
    from zoo.inputs.sound import FLOOR

    ends = [round(share * one() * len(x)) for _ in range(2)]
    x = x[max(-ends[0], 0) : len(x) - max(-ends[1], 0)]
    return F.pad(x, (0, 0, max(ends[0], 0), max(ends[1], 0)), value=math.log(FLOOR))


def mask(x: Tensor, share: float, axis: int) -> Tensor:
    """(T, mels) -> the same shape: up to a share of the frames (axis 0) or bands (1) are the
    mean."""
    from torchaudio.functional import mask_along_axis

    return mask_along_axis(x[None], round(share * x.shape[axis]), 0.0, axis + 1)[0]
