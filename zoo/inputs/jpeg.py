"""Noticing JPEG files whose picture data end early although their end marker is there, or that were
damaged where restart markers show it.

A decoder fills what is missing with mid-grey and says so in a warning that Pillow does not pass on.
"""

import io
import random
import re

from PIL import Image, ImageChops
from PIL.JpegImagePlugin import JpegImageFile

_END, _START_OF_SCAN = 0xD9, 0xDA
_MARKER = re.compile(rb"\xff+[^\x00\xff\xd0-\xd7]")  # what ends the data of a scan
_RESTART = re.compile(rb"\xff([\xd0-\xd7])")  # within the data of a scan, numbered 0 to 7 in turn
_INTERVAL = b"\xff\xdd"  # without this marker there are none
_FILL = {127, 128}  # missing blocks in any colour space, inverted or not
_LAST = 32  # pixels, the largest block: its last bits are missing from some encoders' whole files


def check_whole(image: Image.Image, data: bytes) -> None:
    """ValueError if the loaded JPEG `image`, of the file `data`, lacks picture data.

    Restart markers that are not in turn are a sign of it: a decoder skips or fills what is between.
    If its last pixel is of the fill's grey, the file is decoded once more with noise put behind
    the data: noise changes the picture exactly where data were missing, so a picture with a grey
    corner passes. Not noticed: what is missing within the last block, and the later passes of a
    progressive file, which would only have made the picture sharper; nor damage without restart
    markers that leaves as many blocks, since Pillow passes no warning of the decoder on.
    """
    if _INTERVAL in data:
        for start, end in _scans(data):
            marks = [mark[0] - 0xD0 for mark in _RESTART.findall(data[start:end])]
            lost = next((i for i, mark in enumerate(marks) if mark != i % 8), None)
            if lost is not None:
                raise ValueError(f"its picture data are damaged before restart marker {lost + 1}")
    last = image.getpixel((image.width - 1, image.height - 1))
    if not {*(last if isinstance(last, tuple) else (last,))} <= _FILL:
        return
    with JpegImageFile(io.BytesIO(_with_noise(data))) as noisy:
        changed = ImageChops.difference(image.convert("RGB"), noisy.convert("RGB")).getbbox()
    if changed and (changed[0] < image.width - _LAST or changed[1] < image.height - _LAST):
        raise ValueError(f"its picture data end early, in row {changed[1]} of {image.height}")


def _with_noise(data: bytes) -> bytes:
    """The file with more data at the end of every scan."""
    parts, done = [], 0
    for _, end in _scans(data):
        parts += [data[done:end], _noise()]
        done = end
    return b"".join((*parts, data[done:]))


def _noise() -> bytes:
    """Data, then more behind each restart marker, one of which is the one that is waited for."""
    draw = random.Random(0)
    runs = [bytes(draw.choices(range(255), k=512)) for _ in range(8)]
    return runs[0] + b"".join(bytes((0xFF, 0xD0 + i)) + run for i, run in enumerate(runs))


def _scans(data: bytes) -> list[tuple[int, int]]:
    """Where the entropy-coded data of each scan start and end."""
    scans: list[tuple[int, int]] = []
    at = 2  # behind the start marker
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != _END:
        if data[at + 1] == 0xFF:  # padding
            at += 1
            continue
        kind = data[at + 1]
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        if kind == _START_OF_SCAN:
            end = _MARKER.search(data, at)
            if end is None:
                break
            scans.append((at, end.start()))
            at = end.start()
    return scans
