"""Picture files of every kind, as 8-bit grey or RGB.

What the file's own tags say is done here, once, so that nothing behind needs to know: it is turned
upright (EXIF), 16 bits become 8, transparent pixels show the background, palettes, CMYK and the
like become RGB, an animation is its first frame. Colour profiles are not applied.
"""

import io
import os
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from PIL import ExifTags, Image, ImageChops
from torch import Tensor

from zoo.errors import SampleError, UserError
from zoo.inputs.jpeg import check_whole
from zoo.inputs.names import is_endless, printable

# What Pillow may open. Not EPS, WMF and others that hand the file to another program.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "MPO", "PPM", "ICO")
SUFFIXES = frozenset(
    ".jpg .jpeg .jpe .jfif .mpo .png .apng .webp .gif .bmp .dib .tif .tiff .avif .jp2 .j2k .ppm"
    " .pgm .pbm .pnm .ico".split()
)
_UNREADABLE = (  # what Pillow's decoders raise on broken files
    OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError,
    MemoryError, struct.error, zlib.error, Image.DecompressionBombError,
)  # fmt: skip
_WIDENED = ("PNG", "PPM")  # their 16 bits may be opened in mode "I", with 65535 for white
PHOTOMETRIC = 262  # TIFF's tag of what a value means; 0 where the least is white
WHITES = (1, 255, 65535)  # of values without a stated scale; 1 for "F" alone
OVER, UNDER = 0.5, 0.1  # shares of white by which filters may overshoot "F", which is cut off
TURNED = "turned"  # what stands in a picture's info once Pillow has turned it, tag and all
T = TypeVar("T")
_UPRIGHT = {  # EXIF's orientation -> what undoes it
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


# What is far too large is an error. A filter for each call would not hold among several threads.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class PictureError(SampleError):
    """A file or value that cannot be read as a picture; `reason` says why, without naming it."""

    @classmethod
    def of(cls, name: str, reason: str) -> "PictureError":
        """The error whose sentence says that `name` is no picture, for this reason."""
        takes = "a picture must be a readable image file (JPEG, PNG, WebP, ...)"
        return cls(f"{takes}; {name} is not: {reason}; replace it or take it out", reason)


class Marks(NamedTuple):
    """What a picture's file was, of what is gone once it is decoded."""

    turned: bool = False
    """Whether it was not upright."""
    clear: bool = False
    """Whether it has transparent pixels."""
    white: int = 0
    """Which of `WHITES` became 255; 0 for pictures of 8 bits."""
    stated: bool = True
    """Whether that was known, and not taken from its values."""
    high: float = 0.0
    """The largest of its values, where `white` is not 0."""
    over: bool = False
    """Whether some of them lay a little outside of 0 to `white`, and were cut off."""


def decode_image(
    source: str | Path | bytes | Image.Image,
    channels: int = 3,
    background: tuple[int, int, int] = (255, 255, 255),
) -> Image.Image:
    """A file, its bytes or a PIL picture -> an upright PIL picture, "L" (1 channel) or "RGB" (3).

    Where 65535 is known to be white (PIL's "I;16", PGM and PNG files), it becomes 255. Values
    without a stated scale ("I" and "F": TIFF files, pictures in memory) are taken to be of the
    first of the ranges 0..1 ("F" only), 0..255, 0..65535 that holds them all; "F" may be outside of
    it by `OVER` and `UNDER`, as after a resize, and is cut off there. PictureError (a UserError)
    names a file that cannot be read, and says why; so for a JPEG that ends early.
    """
    return decode_marked(source, channels, background)[0]


def decode_marked(
    source: str | Path | bytes | Image.Image,
    channels: int = 3,
    background: tuple[int, int, int] = (255, 255, 255),
) -> tuple[Image.Image, Marks]:
    """The same, with what the file was."""
    if channels not in (1, 3):
        raise UserError(
            f"pictures decode to 1 channel (grey) or 3 (RGB); the model takes {channels}, so give "
            "it tensors"
        )
    return reading(source, lambda image: _plain(image, channels, background))


def reading(
    source: Any,
    take: Callable[[Image.Image], T],
    check: Callable[[Image.Image, bytes], None] | None = None,
) -> T:
    """A file, its bytes or a PIL picture -> what `take` makes of the loaded picture.

    PictureError where it cannot be read, or `take`, or `check` with the file's bytes (none of a PIL
    picture), finds it unfit with an error of those that decoders raise.
    """
    if not isinstance(source, (str, os.PathLike, bytes, Image.Image)):
        raise UserError(
            "a picture is a path, a file's bytes or a PIL picture; got "
            f"{type(source).__name__}; from an array, use PIL.Image.fromarray"
        )
    try:
        if isinstance(source, Image.Image):
            if check:
                check(source, b"")
            return take(source)
        if not isinstance(source, bytes) and is_endless(Path(source)):
            raise OSError("it is no regular file")
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        if not data:
            raise ValueError("it is empty (0 bytes)")
        with Image.open(io.BytesIO(data), formats=_formats()) as image:
            # Pillow turns TIFFs by itself when they are loaded, and drops the tag
            turned = image.format == "TIFF" and orientation(image) in _UPRIGHT
            image.load()
            image.info |= {TURNED: True} if turned else {}
            if check:
                check(image, data)
            if image.format in ("JPEG", "MPO"):
                check_whole(image, data)
            return take(image)
    except Image.UnidentifiedImageError:
        raise PictureError.of(_name(source), "its content is in no known picture format") from None
    except _UNREADABLE as error:
        reason = str(getattr(error, "strerror", None) or error or type(error).__name__)
        raise PictureError.of(_name(source), reason[:1].lower() + reason[1:]) from error


def orientation(image: Image.Image) -> int:
    """EXIF's number of how a picture lies; 1 is upright."""
    return image.getexif().get(ExifTags.Base.Orientation, 1)


def upright(image: Image.Image) -> Image.Image:
    """A copy of an opened picture, turned as its tag says."""
    image.load()  # before the tag is asked for: see `reading`
    turn = _UPRIGHT.get(orientation(image))
    return image.copy() if turn is None else image.transpose(turn)


def fit_picture(
    picture: Image.Image,
    size: tuple[int, int],
    crop: float,
    mode: str,
    interpolation: str,
    background: tuple[int, int, int],
) -> Image.Image:
    """Resize, then cut or fill around the middle, to `size` (height, width): see Preprocess.

    Only the part that will be seen is resized, so a strip of 1 x 10000 pixels costs no more than
    any other picture.
    """
    width, height = picture.size
    early, mode = mode == "crop_early", mode.removesuffix("_early")
    rows, columns = (int(side / crop) for side in size)  # the size before the cut
    whole = int if mode == "crop" and rows == columns else round  # as torchvision and timm do
    if mode != "squash":
        full_rows = rows * width >= columns * height  # filling the rows fills the columns too
        if full_rows == (mode == "crop"):
            columns = max(whole(rows * width / height), 1)
        else:
            rows = max(whole(columns * height / width), 1)
    (top, bottom), (left, right) = (
        _middle(side, kept, early) for side, kept in zip((rows, columns), size, strict=True)
    )
    box = (
        left * width / columns,
        top * height / rows,
        min(right * width / columns, width),
        min(bottom * height / rows, height),
    )
    filter_ = Image.Resampling[interpolation.upper()]
    seen = picture.resize((right - left, bottom - top), filter_, box)
    if (seen.height, seen.width) == tuple(size):
        return seen
    canvas = Image.new("RGB", (size[1], size[0]), background).convert(picture.mode)
    canvas.paste(seen, ((size[1] - seen.width) // 2, (size[0] - seen.height) // 2))
    return canvas


def to_tensor(picture: Image.Image) -> Tensor:
    """A picture in mode "L" or "RGB" -> (1 or 3, height, width), uint8."""
    pixels = np.array(picture).reshape(picture.height, picture.width, -1)
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def _middle(resized: int, size: int, early: bool) -> tuple[int, int]:
    """Where the middle `size` pixels of `resized` start and end, or all of them if fewer."""
    start = (int if early else round)(max(resized - size, 0) / 2)
    return start, start + min(resized, size)


def _formats() -> list[str]:
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]  # some builds of Pillow lack some


def _name(source: Any) -> str:
    if isinstance(source, bytes):
        return f"what was given as {len(source)} bytes"
    if isinstance(source, Image.Image):
        return printable(getattr(source, "filename", "") or f"the PIL picture (mode {source.mode})")
    return printable(source)


def _plain(
    opened: Image.Image, channels: int, background: tuple[int, int, int]
) -> tuple[Image.Image, Marks]:
    """Turn upright, scale to 8 bits, put on the background, convert."""
    if 0 in opened.size:
        raise ValueError(f"it has no pixels ({opened.width} x {opened.height})")
    image = upright(opened)
    marks = Marks(TURNED in opened.info or orientation(opened) in _UPRIGHT)
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        has_scale = image.mode not in ("I", "F") or opened.format in _WIDENED
        negative = image.mode.startswith("I;16") and _white_is_zero(opened)
        image, marks = _eight_bits(image, has_scale, marks)
        image = ImageChops.invert(image) if negative else image
    if image.mode == "La":
        image = image.convert("LA")
    if image.has_transparency_data:
        front = image.convert("RGBA")
        marks = marks._replace(clear=bool(np.asarray(front.getchannel("A")).min() < 255))
        behind = Image.new("RGBA", front.size, (*background, 255))
        image = Image.alpha_composite(behind, front)
    if image.mode != "L" or channels == 3:
        image = image.convert("RGB")
    if channels == 1 and image.mode != "L":
        image = image.convert("L")
    image.info.clear()  # its tags are done; a second decode must not do them again
    return image, marks


def _white_is_zero(image: Image.Image) -> bool:
    """Whether a TIFF's least value is white, which Pillow undoes for 8 bits and not for 16."""
    return getattr(image, "tag_v2", {}).get(PHOTOMETRIC) == 0


def _eight_bits(image: Image.Image, has_scale: bool, marks: Marks) -> tuple[Image.Image, Marks]:
    """Modes "I;16", "I" and "F" -> "L", or "LA" where one value is declared transparent."""
    values = np.asarray(image).astype(np.float64)
    low, high = values.min(), values.max()
    scales, over, under = WHITES, OVER, UNDER
    if image.mode != "F":  # whole numbers are exact
        scales, over, under = WHITES[2:] if has_scale else WHITES[1:], 0, 0
    white = next((scale for scale in scales if high <= scale * (1 + over)), None)
    if white is None or not low >= -under * white:
        raise ValueError(
            f"its values run from {low:g} to {high:g}, where 0 to {scales[-1]} can be shown"
        )
    outside = bool(low < 0 or high > white)
    marks = marks._replace(white=white, stated=has_scale, high=float(high), over=outside)
    grey = Image.fromarray(np.rint(values.clip(0, white) * (255 / white)).astype(np.uint8))
    clear = image.info.get("transparency")
    if not isinstance(clear, int):
        return grey, marks
    return Image.merge("LA", (grey, Image.fromarray(np.uint8(255) * (values != clear)))), marks
