"""Pictures of which each pixel has a class, and their masks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.errors import SampleError, UserError
from zoo.inputs.names import listed, printable
from zoo.inputs.preprocess import Preprocess

if TYPE_CHECKING:
    from PIL.Image import Image

IGNORED = -100  # the class of a pixel that does not count, as torch's losses have it
MOST = 256  # classes
LARGEST = 65535  # value of a mask
LOSSY_TIFF = ("jpeg", "tiff_jpeg", "webp", "tiff_sgilog", "tiff_sgilog24")
TRANSFORM = {b"\xff\x52": 13, b"\xff\x53": 10}  # where COD and COC of JPEG 2000 say which


class Pair(NamedTuple):
    """A picture and its mask, each a path or a file's bytes."""

    picture: Any
    mask: Any

    @property
    def name(self) -> str:
        """Of the mask, for messages."""
        return "its mask" if isinstance(self.mask, bytes) else f"the mask {printable(self.mask)}"


class Masked(NamedTuple):
    """A decoded picture, and the class of each of its pixels."""

    picture: "Image"
    classes: np.ndarray
    """(h, w) int16, `IGNORED` where a pixel does not count."""


@dataclass(frozen=True)
class PrepareScene(Preprocess, kind="scene"):
    """`prepare(picture)` gives (channels, height, width) at the picture's own size; nothing is cut.

    While training, pieces of `size` are drawn from picture and mask together.
    """

    alone: ClassVar[bool] = True

    values: tuple[int, ...] = (0, 1)
    """What each class is in a mask."""
    ignore: int | None = None
    """The value of a mask's pixels that do not count."""

    def load(self, source: Any) -> Any:
        """A picture, or a Pair with its mask -> a decoded picture, or Masked.

        UserError for a file that cannot be read, for a mask of another size than its picture, and
        for a value in it that no class has.
        """
        if not isinstance(source, Pair):
            return super().load(source)
        picture, mask = super().load(source.picture), decode_mask(source.mask)
        same_size(picture, mask, source)
        table = np.full(max(MOST, *self.values, int(mask.max())) + 1, IGNORED - 1, np.int16)
        table[list(self.values)] = range(len(self.values))
        if self.ignore is not None:
            table[self.ignore] = IGNORED
        classes = table[mask]
        if (classes < IGNORED).any():
            known, other = listed(self.values), listed(np.unique(mask[classes < IGNORED]))
            wants = f"a mask takes the values of the training data's masks ({known})"
            raise UserError(f"{wants}; {source.name} holds {other}: correct it, or take it out")
        return Masked(picture, classes)

    def finish(self, loaded: Any) -> Any:
        """A decoded picture -> (channels, h, w), normalised; Masked -> that, and (h, w) int64."""
        if not isinstance(loaded, Masked):
            return self.tensor(loaded)
        return self.tensor(loaded.picture), torch.from_numpy(loaded.classes).long()

    def augment(self, config: Any) -> Callable[[Any], Any]:
        """`config.augment`, `config.flip`, `config.turn` -> what gives pieces of `size`."""
        from zoo.inputs.vary_scene import VaryScene

        return VaryScene(self, config.augment, config.flip, config.turn)

    def batch(self, samples: Sequence[Any]) -> dict[str, Tensor]:
        """[(C, H, W)], or those with [(H, W)] -> {"pixels": (B, C, H, W), "target": (B, H, W)}."""
        if isinstance(samples[0], Tensor):
            return {"pixels": torch.stack(list(samples))}
        pixels, targets = zip(*samples, strict=True)
        return {"pixels": torch.stack(pixels), "target": torch.stack(targets)}

    def answer(self, logits: Tensor, labels: Sequence[str] | None) -> dict[str, Any]:
        """(classes, h, w) -> {"mask": a PIL picture of the classes' values, "shares": {label: share
        of the pixels}}."""
        from PIL import Image

        best = logits.argmax(0).cpu().numpy()
        counts = np.bincount(best.ravel(), minlength=len(self.values)) / best.size
        values = np.array(self.values, np.uint16 if max(self.values) > 255 else np.uint8)[best]
        mask = Image.fromarray(values)
        if mask.mode == "L":
            mask.putpalette([part for value in range(256) for part in colour(value)])
        names = labels or [str(value) for value in self.values]
        return {"mask": mask, "shares": dict(zip(names, counts.tolist(), strict=True))}

    @classmethod
    def of(cls, base: Preprocess, values: Sequence[int], ignore: int | None, size: Any) -> Any:
        """How a model reads pictures, and what masks hold -> how it reads both."""
        fields: Mapping[str, Any] = {
            name: value for name, value in asdict(base).items() if name not in ("values", "ignore")
        }
        size = base.size if size is None else size
        return cls(**{**fields, "size": size, "values": tuple(values), "ignore": ignore})


def decode_mask(source: Any) -> np.ndarray:
    """A file, its bytes or a PIL picture of whole numbers, grey or palette -> (h, w) int64.

    UserError for one that cannot be read, that has colours, or whose format is not exact.
    """
    from zoo.inputs.image import reading, upright

    def take(opened: "Image") -> np.ndarray:
        image = upright(opened)  # as its picture is
        values = np.asarray(image)
        if image.mode in ("RGB", "RGBA", "LA"):
            colours = values[..., : len(image.mode.rstrip("A"))]
            values = colours[..., 0]
            if (colours != values[..., None]).any():
                raise ValueError("a mask holds one whole number for each pixel, this one has "
                                 "colours: save it as grey, or with a palette")  # fmt: skip
        if values.ndim != 2 or values.dtype.kind not in "biu":
            raise ValueError(f"a mask holds one whole number for each pixel, not {image.mode}")
        values = values.astype(np.int64)
        if not 0 <= values.min() <= values.max() <= LARGEST:
            got = f"it runs from {values.min()} to {values.max()}"
            raise ValueError(f"a mask holds numbers from 0 to {LARGEST}, {got}")
        return values

    return reading(source, take, check_exact)


def check_exact(image: "Image", data: bytes) -> None:
    """ValueError if an opened picture, of the file `data`, is of a kind that changes values.

    AVIF always counts as such: its files do not say in one place whether they are exact. Of a PIL
    picture, without `data`, only what its format and tags tell is known.
    """
    kind, packed = image.format, image.info.get("compression")
    if kind == "TIFF" and packed in LOSSY_TIFF:
        kind = f"TIFF with {packed} compression"
    elif kind == "WEBP" and lossy_webp(data):
        kind = "lossy WebP"
    elif kind == "JPEG2000" and lossy_jpeg2000(data):
        kind = "lossy JPEG 2000"
    elif kind not in ("JPEG", "MPO", "AVIF"):
        return
    name = "JPEG" if kind == "MPO" else kind
    raise ValueError(f"a mask must be exact, which {name} is not: save it as PNG")


def lossy_webp(data: bytes) -> bool:
    """Whether the first picture of a WebP file is lossy: in a chunk "VP8 ", and not "VP8L"."""
    at = 12  # behind RIFF, its size and WEBP
    while at + 8 <= len(data) and data[at : at + 4] not in (b"VP8 ", b"VP8L"):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        # a frame of an animation has chunks of its own, behind 16 bytes on where it is
        at += 24 if data[at : at + 4] == b"ANMF" else 8 + size + size % 2
    return data[at : at + 4] == b"VP8 "


def lossy_jpeg2000(data: bytes) -> bool:
    """Whether a JPEG 2000 file, or bare codestream, has a transform that is not reversible (9/7).

    What was left out of a reversible one to make it smaller is not noticed.
    """
    at = data.find(b"\xff\x4f\xff\x51") + 2  # the start of a codestream, and its first segment
    while at + 4 <= len(data) and data[at : at + 2] != b"\xff\x90":  # the first tile
        kind, size = data[at : at + 2], int.from_bytes(data[at + 2 : at + 4], "big")
        if kind in TRANSFORM and data[at + TRANSFORM[kind]] == 0:
            return True
        at += 2 + size
    return False


def same_size(picture: "Image", mask: np.ndarray, pair: Pair) -> None:
    """UserError where a mask is not of its picture's size."""
    if mask.shape != (picture.height, picture.width):
        is_ = f"{mask.shape[1]} x {mask.shape[0]} pixels"
        has = f"{is_}, the picture {picture.width} x {picture.height}"
        told = f"a mask takes the size of its picture; {pair.name} is {has}: make them one size"
        raise SampleError(told, f"the mask is {has}")


def colour(value: int) -> tuple[int, int, int]:
    """0 to 255 -> red, green, blue, such that near numbers look different; 0 is black.

    The bits of a number in turn, from the highest bit of a colour down, as in PASCAL VOC's masks.
    """
    parts = [0, 0, 0]
    for bit in range(8):
        parts[bit % 3] |= (value >> bit & 1) << (7 - bit // 3)
    return parts[0], parts[1], parts[2]


def values_in(present: Sequence[int], ignore: int | None, where: Path | str) -> tuple[int, ...]:
    """The values of train's masks -> those of classes. UserError for fewer than two, or too many.

    Masks of 0 and 255 alone have two classes; else `ignore` (255) is none.
    """
    values = tuple(present)
    if set(values) != {0, ignore}:
        values = tuple(value for value in values if value != ignore)
    if not 2 <= len(values) <= MOST:
        got = f"those of {where} have {listed(values)}" if values else f"{where} has none"
        hint = ": are they numbers of single things?" if len(values) > MOST else ""
        raise UserError(f"data.train takes masks of 2 to {MOST} classes; {got}{hint}")
    return values


def scene(config: Any, labels: Sequence[str]) -> Callable[[Preprocess], PrepareScene]:
    """The data section of a config, the labels of its masks -> what makes a model's way to read
    pictures one to read masks too."""
    values = [int(label) for label in labels]
    ignore = None if config.ignore in values else config.ignore

    def prepare(base: Preprocess) -> PrepareScene:
        return PrepareScene.of(base, values, ignore, config.crop)

    return prepare
