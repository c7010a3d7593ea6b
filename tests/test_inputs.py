"""Pictures of every kind become the right tensors; labels get the right numbers."""

import csv
import io
import json
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, features
from timm.data import create_transform

from zoo import data
from zoo.errors import UserError
from zoo.inputs import Preprocess, augment, decode_image, label_index, order_labels
from zoo.inputs.image import PictureError, fit_picture

SHARED = Path(__file__).parents[2] / "shared" / "cases"
needs_shared = pytest.mark.skipif(
    not SHARED.exists(),
    reason="the shared test files (public bug reports as pictures and folders) are no part of this "
    f"repository; looked for them in {SHARED}, beside the checkout",
)
NOISE = np.random.default_rng(0).integers(90, 160, (1000, 1000, 3), dtype=np.uint8)


def noise(width: int, height: int) -> Image.Image:
    return Image.fromarray(NOISE[:height, :width].copy()).resize((width, height))


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture).astype(int)


def shared_rows(kind: str) -> list[tuple[str, str]]:
    if not SHARED.exists():
        return []
    with open(SHARED / "manifest.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [(r["file"], r["case"]) for r in rows if r["file"].startswith(f"{kind}/")]


# ---------------------------------------------------------------- the shared cases, row by row


def same_as_reference(picture: Image.Image, most: float) -> None:
    reference = Image.open(SHARED / "images/ref_rgb.png")
    assert picture.size == reference.size == (48, 32)
    assert np.abs(pixels(picture) - pixels(reference)).mean() < most


def check_16_bits(path: Path) -> None:
    values = pixels(decode_image(path))
    assert len(np.unique(values)) == 256
    assert 127 <= values.mean() <= 128


def check_unreadable(path: Path) -> None:
    with pytest.raises(PictureError, match="readable image file") as caught:
        decode_image(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def check_other_modes(path: Path) -> None:
    with Image.open(path) as stored:
        raw, size = stored.convert("RGBA"), stored.size
    white = Image.alpha_composite(Image.new("RGBA", size, (255, 255, 255, 255)), raw)
    assert np.array_equal(pixels(decode_image(path)), pixels(white.convert("RGB")))
    if path.name == "bilevel.png":
        assert set(np.unique(pixels(decode_image(path, 1)))) == {0, 255}
    if path.name == "two_frames.gif":
        with Image.open(path) as stored:
            stored.seek(1)
            second = pixels(stored.convert("RGB"))
        assert not np.array_equal(pixels(decode_image(path)), second)


def check_finite(path: Path) -> None:
    with Image.open(path) as stored:
        assert sorted(decode_image(path).size) == sorted(stored.size)
    for channels in (1, 3):
        x = Preprocess((24, 40), channels=channels)(path)
        assert x.shape == (channels, 24, 40)
        assert x.isfinite().all()


CHECKS = {
    "-": lambda path: same_as_reference(decode_image(path), 0.01),
    "IMG-01": check_16_bits,
    "IMG-03": check_other_modes,
    "IMG-04": lambda path: same_as_reference(decode_image(path), 12),
    "IMG-06": lambda path: same_as_reference(decode_image(path), 3),
    "IMG-07": check_unreadable,
    "IMG-08": check_finite,
    "IMG-11": check_finite,
}


@needs_shared
@pytest.mark.parametrize(("file", "case"), shared_rows("images"))
def test_shared_picture(file: str, case: str):
    path = SHARED / file
    if path.name == "png_named_jpg.jpg":
        check_finite(path)
    else:
        CHECKS[case](path)
        if case != "IMG-07":
            check_finite(path)


# ---------------------------------------------------------------- decoding


COLOUR, GREY = (200, 100, 50), 0.299 * 200 + 0.587 * 100 + 0.114 * 50


def in_mode(mode: str) -> tuple[Image.Image, tuple[float, ...]]:
    """A picture of one colour in a mode, and what it should decode to, within 5 levels."""
    colour = Image.new("RGB", (6, 4), COLOUR)
    if mode == "1":
        return Image.new("1", (6, 4), 1), (255,)
    if mode.startswith("I;16"):
        return Image.new(mode, (6, 4), 128 * 257), (128,)
    if mode in ("L", "LA", "La", "I", "F"):
        picture = colour.convert("LA").convert("La") if mode == "La" else colour.convert(mode)
        return picture, (GREY,)
    return colour.convert(mode), COLOUR


@pytest.mark.parametrize("mode", Image.MODES)
def test_every_pillow_mode(mode: str):
    picture, expected = in_mode(mode)
    decoded = decode_image(picture)
    assert (decoded.mode, decoded.size) == ("RGB", (6, 4))
    assert np.abs(pixels(decoded) - np.array(expected)).max() <= 5
    decoded = decode_image(picture, 1)
    assert (decoded.mode, decoded.size) == ("L", (6, 4))
    grey = GREY if len(expected) == 3 else expected[0]
    assert np.abs(pixels(decoded) - grey).max() <= 5


def test_decoding_leaves_the_given_picture_alone():
    picture = Image.new("RGB", (2, 2), (1, 2, 3))
    picture.info["keep"] = "me"
    decode_image(picture).putpixel((0, 0), (9, 9, 9))
    assert picture.getpixel((0, 0)) == (1, 2, 3)
    assert picture.info == {"keep": "me"}


def test_sixteen_bits_from_files_and_memory(tmp_path: Path):
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16).reshape(16, 16)
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    Image.fromarray(ramp).save(tmp_path / "ramp.tif")
    (tmp_path / "ramp.pgm").write_bytes(b"P5 16 16 65535\n" + ramp.astype(">u2").tobytes())
    expected = np.arange(256).reshape(16, 16)
    for source in (
        *tmp_path.iterdir(),
        Image.fromarray(ramp),
        Image.fromarray(ramp.astype(np.int32)),
        Image.fromarray((ramp / 65535).astype(np.float32)),
    ):
        assert np.array_equal(pixels(decode_image(source, 1)), expected), source


@pytest.mark.parametrize("white_is_zero", [False, True])
def test_the_least_value_of_a_sixteen_bit_tiff_may_be_white(white_is_zero: bool):
    values = np.linspace(0, 65535, 64).round().reshape(4, 16)
    stored = 65535 - values if white_is_zero else values
    tags = [  # width, height, bits, no compression, photometric, where, samples, rows, bytes
        (256, 16), (257, 4), (258, 16), (259, 1), (262, int(not white_is_zero)), (273, 122),
        (277, 1), (278, 4), (279, 128),
    ]  # fmt: skip
    entries = [struct.pack("<HHIHH", tag, 3, 1, value, 0) for tag, value in tags]
    folder = struct.pack("<H", len(tags)) + b"".join(entries) + bytes(4)
    data = b"II" + struct.pack("<HI", 42, 8) + folder + stored.astype("<u2").tobytes()
    for channels in (1, 3):
        made = pixels(decode_image(data, channels)).reshape(4, 16, channels)
        assert np.abs(made - values[..., None] / 257).max() <= 1


def test_a_dark_sixteen_bit_file_stays_dark(tmp_path: Path):
    dark = np.full((4, 4), 200, np.uint16)
    (tmp_path / "dark.pgm").write_bytes(b"P5 4 4 65535\n" + dark.astype(">u2").tobytes())
    assert pixels(decode_image(tmp_path / "dark.pgm")).max() == 1


@pytest.mark.parametrize("white", [255, 65535])
@pytest.mark.parametrize("mode", ["I", "F"])
def test_values_without_a_scale_in_files_and_memory(tmp_path: Path, mode: str, white: int):
    expected = np.arange(256).reshape(16, 16)
    values = expected * (white // 255)
    source = Image.fromarray(values.astype(np.int32 if mode == "I" else np.float32))
    assert source.mode == mode
    source.save(tmp_path / "x.tif")
    for given in (source, tmp_path / "x.tif"):
        assert np.array_equal(pixels(decode_image(given, 1)), expected)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.array([[-1, 5]], np.int32), "from -1 to 5"),
        (np.array([[0, 70000]], np.int32), "0 to 65535 can be shown"),
        (np.array([[np.nan, 1]], np.float32), "from nan to nan"),
    ],
)
def test_values_without_a_scale_are_refused(values: np.ndarray, says: str):
    with pytest.raises(PictureError, match=says):
        decode_image(Image.fromarray(values))


@pytest.mark.parametrize("white", [1, 255, 65535])
def test_numbers_with_decimals_may_overshoot_their_scale(tmp_path: Path, white: int):
    """As after a resize: such a picture is as bright as one beside it that does not."""
    values = np.array([[0, 0.5, 1]], np.float32) * white
    wild = np.array([[-0.09, 0.5, 1.4]], np.float32) * white
    seen = [pixels(decode_image(Image.fromarray(v), 1)).tolist() for v in (values, wild)]
    assert seen[0] == seen[1] == [[0, 128, 255]]
    for low in (-0.2, -1):
        with pytest.raises(PictureError, match="its values run from"):
            decode_image(Image.fromarray(np.array([[low, 1]], np.float32) * white))


def folder_notes(root: Path) -> list[str]:
    keys = {"train": root, "val": 0.25, "test": None, "on_bad": "raise"}
    return [*data.class_folders(SimpleNamespace(**keys), 0).notes]


def class_pictures(root: Path, *values: np.ndarray) -> Path:
    for label in "ab":
        (root / label).mkdir(parents=True)
        for i, each in enumerate(values):
            made = each + np.arange(len(each), dtype=each.dtype)[:, None] * (label == "b")
            Image.fromarray(made.astype(each.dtype)).save(root / label / f"{i}.tif")
    return root


def test_pictures_of_one_data_set_on_two_scales_are_noted(tmp_path: Path):
    small, large = (np.full((4, 4), top, np.int32) for top in (200, 1000))
    notes = folder_notes(class_pictures(tmp_path / "two", small, large, 0 * small))
    (told,) = [note for note in notes if "different scales" in note]
    assert "3 as 0 to 255 (" in told and "2 as 0 to 65535 (" in told  # black tells nothing
    assert "save them as PNG" in told and str(tmp_path / "two" / "a" / "1.tif") in told
    one = folder_notes(class_pictures(tmp_path / "one", small, small + 9, 0 * small))
    assert not any("scales" in note for note in one)
    floats = [np.float32([[0.0, top], [0.5, 0.1]]) for top in (0.9, 1.001)]
    for label in "ab":
        (tmp_path / "near" / label).mkdir(parents=True)
        for i, values in enumerate(floats):
            Image.fromarray(values).save(tmp_path / "near" / label / f"{i}.tif")
    near = folder_notes(tmp_path / "near")
    assert not any("scales" in note for note in near)
    assert any(note.startswith("2 pictures hold values a little outside") for note in near)


@pytest.mark.parametrize(("most", "told"), [(4095, "17 of 256"), (1023, "5 of 256"), (5000, "")])
def test_sixteen_bits_that_are_fewer_are_noted(tmp_path: Path, most: int, told: str):
    values = [np.array([[0, most - 1 - i]], np.uint16) for i in range(3)]
    notes = folder_notes(class_pictures(tmp_path / "x", *values, values[0] + 1))
    few = [note for note in notes if "no value of the 8 pictures of 16 bits" in note]
    assert len(few) == bool(told) and (not told or told in few[0])
    assert not told or f"multiply their values by {65536 // (most + 1)} and" in few[0]


def test_what_is_done_to_pictures_is_counted_in_one_line(tmp_path: Path):
    for label in "ab":
        (tmp_path / label).mkdir()
        for i in range(4):
            noise(9 + i, 8).save(tmp_path / label / f"{i}.png")
    assert not any(note.startswith("of 8 pictures") for note in folder_notes(tmp_path))
    turned_file(tmp_path / "a" / "0.png", 6)
    turned_file(tmp_path / "a" / "1.tif", 6)
    noise(8, 8).convert("RGBA").save(tmp_path / "b" / "2.png")  # all opaque
    Image.merge("RGBA", (*noise(8, 8).split(), Image.new("L", (8, 8), 99))).save(
        tmp_path / "b" / "0.png"
    )
    Image.fromarray(np.array([[0, 60000]], np.uint16)).save(tmp_path / "b" / "1.png")
    assert [note for note in folder_notes(tmp_path) if note.startswith("of 9 pictures")] == [
        "of 9 pictures 2 are turned upright (EXIF), 1 have transparent pixels and lie on white, or the "
        "model's own background, 1 have more than 8 bits, which are scaled to 8"
    ]


def test_transparency_shows_the_background(tmp_path: Path):
    half = Image.new("RGBA", (2, 1), (0, 0, 0, 255))
    half.putpixel((1, 0), (10, 20, 30, 0))  # the colour below full transparency is nobody's
    palette = half.convert("P")
    palette.save(tmp_path / "palette.png", transparency=palette.getpixel((1, 0)))
    half.save(tmp_path / "rgba.png")
    half.convert("LA").save(tmp_path / "la.png")
    Image.fromarray(np.array([[0, 9]], np.uint16)).save(tmp_path / "16.png", transparency=9)
    for path in tmp_path.iterdir():
        seen = decode_image(path, background=(200, 150, 100))
        assert seen.getpixel((0, 0)) == (0, 0, 0), path.name
        assert seen.getpixel((1, 0)) == (200, 150, 100), path.name
        assert decode_image(path, 1).getpixel((1, 0)) == 255


def turned_file(path: Path, orientation: int, **options: Any) -> Image.Image:
    """What a file that is written, turned and tagged with its EXIF orientation, must show."""
    upright = Image.new("RGB", (24, 16))
    upright.paste((250, 10, 10), (0, 0, 8, 8))
    stored = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    turned = upright.transpose(stored[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned.save(path, exif=exif, **options)
    return upright


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif", "avif", "mpo"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_is_applied_once(tmp_path: Path, orientation: int, suffix: str):
    if suffix == "avif" and not features.check("avif"):
        pytest.skip("this build of Pillow has no AVIF")
    path = tmp_path / f"x.{suffix}"
    options: dict[str, Any] = {} if suffix == "tif" else {"quality": 95}
    if suffix == "mpo":
        options |= {"save_all": True, "append_images": [Image.new("RGB", (8, 8))]}
    upright = turned_file(path, orientation, **options)
    once = decode_image(path)
    assert once.size == (24, 16)
    assert np.abs(pixels(once) - pixels(upright)).mean() < 6
    assert np.array_equal(pixels(decode_image(once)), pixels(once))
    with Image.open(path) as opened:  # a picture given open is turned, too, loaded or not
        assert np.array_equal(pixels(decode_image(opened)), pixels(once))
        assert np.array_equal(pixels(decode_image(opened)), pixels(once))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_kind_of_tiff_is_turned_once(tmp_path: Path, orientation: int):
    frames = [Image.new("RGB", (8, 8))]
    for options in (
        {"compression": "tiff_lzw"},
        {"compression": "tiff_adobe_deflate", "save_all": True, "append_images": frames},
        {"save_all": True, "append_images": frames},
    ):
        upright = turned_file(tmp_path / "x.tif", orientation, **options)
        assert np.array_equal(pixels(decode_image(tmp_path / "x.tif")), pixels(upright))


def test_path_text_bytes_and_picture_are_the_same(tmp_path: Path):
    path = tmp_path / "a.png"
    noise(9, 5).save(path)
    with Image.open(path) as opened:
        decoded = [decode_image(s) for s in (path, str(path), path.read_bytes(), opened)]
    assert all(np.array_equal(pixels(d), pixels(decoded[0])) for d in decoded)


def test_unreadable_files_are_named_with_the_reason(tmp_path: Path):
    whole = tmp_path / "whole.jpg"
    noise(64, 64).save(whole)
    broken = {
        "empty.png": (b"", "it is empty (0 bytes)"),
        "page.jpg": (b"<!DOCTYPE html><p>404", "no known picture format"),
        "short.jpg": (whole.read_bytes()[:1500], "truncated"),
        "code.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no known picture"),
        "bomb.bmp": (bmp_header(40000, 40000), "exceeds limit"),
    }
    for name, (content, reason) in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError) as caught:
            decode_image(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)
        assert reason in str(caught.value)
    with pytest.raises(UserError, match=r"gone\.png is not: no such file"):
        decode_image(tmp_path / "gone.png")
    with pytest.raises(UserError, match="is a directory"):
        decode_image(tmp_path)
    with pytest.raises(UserError, match="given as 3 bytes is not"):
        decode_image(b"abc")
    with pytest.raises(UserError, match=r"no pixels \(0 x 5\)"):
        decode_image(Image.new("RGB", (0, 5)))


JPEGS = [
    {}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_rows": 1}, {"optimize": True}
]  # fmt: skip


def jpeg(picture: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", **options)
    return file.getvalue()


@pytest.mark.parametrize("options", JPEGS)
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_cut_jpeg_with_an_end_marker_is_refused(tmp_path: Path, mode: str, options: dict):
    whole = jpeg(noise(200, 120).convert(mode), **options)
    end = len(whole) // 2
    if "progressive" in options:  # the first pass alone leaves grey; later ones leave it blurred
        end = whole.index(b"\xff\xda") + 40
    cut = whole[:end].rstrip(b"\xff") + b"\xff\xd9"
    (tmp_path / "cut.jpg").write_bytes(cut)
    for source in (cut, tmp_path / "cut.jpg"):
        with pytest.raises(PictureError, match=r"picture data end early, in row \d+ of 120;"):
            decode_image(source)


@pytest.mark.parametrize("options", JPEGS)
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_a_whole_jpeg_may_end_in_grey(mode: str, options: dict):
    for size in ((200, 120), (33, 17), (1, 1)):
        for top in (noise(*size), Image.new("RGB", size, (128, 128, 128))):
            width, height = size
            top.paste((128, 128, 128), (0, height // 2, width, height))
            whole = jpeg(top.convert(mode), **options)
            for tail in (b"", b"\0" * 99, jpeg(noise(8, 8))):  # what cameras put behind it
                assert decode_image(whole + tail).size == size


@pytest.mark.parametrize("options", [{}, {"progressive": True}])
def test_a_jpeg_that_lost_a_restart_marker_is_refused(options: dict):
    """The rows behind it are grey, or another's."""
    whole = jpeg(noise(80, 160), restart_marker_rows=1, **options)
    assert decode_image(whole).size == (80, 160)
    third = whole.index(b"\xff\xd2")
    damaged = whole[: third - 40] + bytes(64) + whole[third + 24 :]
    with pytest.raises(PictureError, match=r"data are damaged before restart marker [123];"):
        decode_image(damaged)


def bmp_header(width: int, height: int) -> bytes:
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + info


def test_what_is_no_picture_is_refused():
    with pytest.raises(UserError, match=r"got ndarray; from an array, use PIL\.Image\.fromarray"):
        decode_image(np.zeros((3, 4, 3)))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the model takes 4"):
        decode_image(noise(4, 4), channels=4)


def test_a_broken_picture_keeps_its_message_across_processes():
    error = PictureError.of("a.png", "it is empty")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (PictureError, str(error))


# ---------------------------------------------------------------- Preprocess


@pytest.mark.parametrize(
    ("mode", "timms"), [("crop", "center"), ("squash", "squash"), ("pad", "border")]
)
@pytest.mark.parametrize("crop", [1.0, 0.9, 0.875])
@pytest.mark.parametrize("size", [(64, 64), (48, 80)])
def test_same_as_timm(size: tuple[int, int], crop: float, mode: str, timms: str):
    for interpolation in ("bicubic", "bilinear"):
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        theirs = create_transform(
            (3, *size),
            interpolation=interpolation,
            crop_pct=crop,
            crop_mode=timms,
            mean=mean,
            std=std,
        )
        ours = Preprocess(size, mean, std, 3, interpolation, crop, mode, (124, 116, 104))
        for wide, high in [(500, 375), (113, 200), (64, 64), (33, 900), (8, 8), (1, 1)]:
            one, other = ours(noise(wide, high)), theirs(noise(wide, high))
            assert one.dtype == torch.float32
            # two levels of 255: Pillow chooses the order of its two passes by size
            assert (one - other).abs().max() * min(std) * 255 < 2.1, (wide, high, interpolation)


@pytest.mark.parametrize("mode", ["crop", "squash", "pad"])
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 1000), (1000, 1), (2000, 8), (8, 2000), (5, 3), (3, 3)]
)
def test_any_picture_gives_the_size_asked_for(shape: tuple[int, int], mode: str):
    for channels in (1, 3):
        for size in ((32, 32), (24, 56)):
            x = Preprocess(size, channels=channels, mode=mode, crop=0.9)(Image.new("RGB", shape))
            assert x.shape == (channels, *size)
            assert x.isfinite().all()


def test_height_and_width_are_not_swapped():
    picture = noise(200, 113)
    one = Preprocess((24, 56), interpolation="bilinear")(picture)
    turned = picture.transpose(Image.Transpose.TRANSPOSE)
    other = Preprocess((56, 24), interpolation="bilinear")(turned)
    assert one.shape == (3, 24, 56)
    assert torch.allclose(one, other.transpose(1, 2), atol=2.1 / 127.5)


def test_native_size_is_the_identity():
    picture = noise(56, 24)
    for mode in ("crop", "squash", "pad"):
        seen = fit_picture(picture, (24, 56), 1.0, mode, "bicubic", (0, 0, 0))
        assert np.array_equal(pixels(seen), pixels(picture))


def test_shrinking_is_antialiased():
    stripes = Image.fromarray(np.tile(np.array([[0], [255]], np.uint8), (64, 128)))
    for interpolation in ("bilinear", "bicubic", "lanczos", "box", "hamming"):
        x = Preprocess((16, 16), channels=1, interpolation=interpolation)(stripes)
        assert x.abs().max() < 0.1, interpolation


def test_normalisation_and_padding():
    prepare = Preprocess((4, 8), mean=(0.5, 0.4, 0.3), std=(0.5, 0.2, 0.1), mode="pad")
    x = prepare(Image.new("RGB", (4, 4), (0, 0, 0)))  # shown in columns 2 to 5, white beside
    assert torch.allclose(x[:, 0, 3], torch.tensor([-1.0, -2.0, -3.0]), atol=1e-6)
    assert torch.allclose(x[:, 0, 0], torch.tensor([1.0, 3.0, 7.0]), atol=1e-5)
    black = Preprocess((4, 8), channels=1, mode="pad", background=(0, 0, 0))
    assert (
        black(Image.new("L", (4, 4), 255))[0, 0] == torch.tensor([-1, -1, 1, 1, 1, 1, -1, -1])
    ).all()


def test_it_travels_as_json():
    prepare = Preprocess(224, 0.5, (0.2,), 1, "bilinear", 0.9, "pad", (1, 2, 3))
    assert prepare.size == (224, 224)
    again = Preprocess.from_dict(json.loads(json.dumps(prepare.to_dict())))
    assert again == prepare
    assert hash(again) == hash(prepare)
    assert pickle.loads(pickle.dumps(prepare)) == prepare


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            dict(size=(8, 8), mean=(0.1, 0.2, 0.3), channels=1),
            r"takes 1 \(its channels\) values of mean; got 3",
        ),
        (dict(size=(8, 8), std=(0.1, 0.2)), r"takes 3 \(its channels\) values of std; got 2"),
        (dict(size=(0, 8)), "size .0, 8.; it takes a height and a width of 1 to 16384"),
        (dict(size=8.5), "size 8.5; it takes whole numbers"),
        (dict(size="8"), "size '8'"),
        (dict(size=8, std=0), r"std \(0.0, 0.0, 0.0\); it takes numbers above 0"),
        (dict(size=8, mean=float("nan")), "mean nan; it takes numbers"),
        (dict(size=8, crop=1.2), "crop 1.2; it takes a number above 0 and up to 1"),
        (
            dict(size=8, mode="squish"),
            "one of crop, crop_early, squash, pad; did you mean 'squash'",
        ),
        (dict(size=8, interpolation="bicubc"), "did you mean 'bicubic'"),
        (dict(size=8, background=(0, 0, 256)), "three numbers from 0 to 255"),
        (dict(size=8, channels=0), "channels"),
        (dict(size=8, means=0.5), "no 'means'; did you mean 'mean'"),
        (dict(mean=0.5), "takes a size"),
    ],
)
def test_impossible_preprocessing_is_refused(values: dict, says: str):
    with pytest.raises(UserError, match=says):
        Preprocess.from_dict(values)


def test_importing_the_records_brings_no_image_library():
    code = (
        "import sys, zoo.inputs; "
        "sys.exit(any(m in sys.modules for m in ('PIL', 'torchvision', 'timm', 'lightning')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ---------------------------------------------------------------- augmentation


def how(augment: str, flip: bool = True) -> SimpleNamespace:
    return SimpleNamespace(augment=augment, flip=flip)


def test_none_is_the_preprocessing_itself():
    prepare = Preprocess((8, 8))
    assert augment(how("none"), prepare) == prepare.finish


@pytest.mark.parametrize("strength", ["light", "strong"])
@pytest.mark.parametrize("channels", [1, 3])
def test_varied_pictures(strength: str, channels: int):
    prepare = Preprocess((24, 40), channels=channels)
    vary = pickle.loads(pickle.dumps(augment(how(strength), prepare)))
    for shape in [(1, 1), (1, 500), (500, 1), (90, 70)]:
        picture = decode_image(noise(*shape), channels)
        torch.manual_seed(0)
        several = [vary(picture) for _ in range(20)]
        assert all(x.shape == (channels, 24, 40) and x.isfinite().all() for x in several)
        torch.manual_seed(0)
        assert all(torch.equal(vary(picture), x) for x in several)
    assert not torch.equal(several[0], several[1])


def test_mirroring_only_where_asked():
    halves = Image.new("L", (32, 32))
    halves.paste(255, (16, 0, 32, 32))
    right_is_brighter = {True: set(), False: set()}
    torch.manual_seed(0)
    for flip, seen in right_is_brighter.items():
        vary = augment(how("light", flip), Preprocess((16, 16), channels=1))
        seen |= {
            bool(x[..., 8:].mean() > x[..., :8].mean()) for x in (vary(halves) for _ in range(40))
        }
    assert right_is_brighter == {True: {True, False}, False: {True}}


def test_strong_erases():
    vary = augment(how("strong"), Preprocess((16, 16), mean=0.0, std=1.0))
    torch.manual_seed(0)
    white = Image.new("RGB", (16, 16), (255, 255, 255))
    assert any((vary(white) == 0).any() for _ in range(40))


@pytest.mark.parametrize("interpolation", ["nearest", "lanczos", "hamming"])
def test_every_filter_can_be_augmented(interpolation: str):
    vary = augment(how("strong"), Preprocess((16, 16), interpolation=interpolation))
    torch.manual_seed(0)
    assert all(vary(noise(20, 20)).shape == (3, 16, 16) for _ in range(40))


def test_unknown_strength():
    with pytest.raises(
        UserError, match=r"data\.augment takes none, light, strong; got 'ligth'; did"
    ):
        augment(how("ligth"), Preprocess((8, 8)))


# ---------------------------------------------------------------- labels


def test_order_of_labels():
    assert order_labels(["100", "2", "10"]) == ("2", "10", "100")
    assert order_labels(["b", "10", "a", "9", "B", "-1", "1.5"]) == (
        "-1",
        "1.5",
        "9",
        "10",
        "B",
        "a",
        "b",
    )
    assert order_labels(["1", "01", "1.0"]) == ("01", "1", "1.0")
    assert order_labels(["x ", "x", " y"]) == ("x", "y")
    assert order_labels(["e\u0301te\u0301", "\u00e9t\u00e9"]) == ("\u00e9t\u00e9",)


def test_number_of_a_label():
    labels = ("ant", "bee", "golden retriever")
    assert [label_index(name, labels, "val") for name in ("bee", " ant ")] == [1, 0]
    with pytest.raises(UserError) as caught:
        label_index("golden retreiver", labels, "pets/val")
    assert str(caught.value) == (
        "pets/val takes the 3 classes of the training data (ant, bee, golden retriever); got "
        "'golden retreiver', which is none of them: rename it, leave it out or add it to train; did you mean 'golden retriever'?"
    )


def test_a_pipe_named_as_a_picture_is_refused_and_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(UserError, match=r"pipe.png.*no regular file"):
        decode_image(tmp_path / "pipe.png")


def test_a_large_picture_is_no_warning(tmp_path):
    """Pillow would warn of it, in the middle of whatever is printed."""
    Image.new("RGB", (15, 10)).save(tmp_path / "a.png")
    code = (
        "import sys; from PIL import Image; from zoo.inputs.image import decode_image\n"
        "Image.MAX_IMAGE_PIXELS = 100; print(decode_image(sys.argv[1]).size)"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "a.png")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "(15, 10)\n" and done.stderr == ""
