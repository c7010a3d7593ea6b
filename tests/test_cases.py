"""Public bug reports as small inputs: each row of the shared manifest has its right behaviour here.

A row without an assertion fails the test; rows about tagging wait for the head that tags.
"""

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import zoo
from zoo import data
from zoo.data.check import look_at
from zoo.errors import UserError
from zoo.inputs import PictureError, PrepareSound, PrepareText, Preprocess, SoundError, decode_image
from zoo.inputs.sound import decode_sound
from zoo.inputs.text import train_tokenizer

CASES = Path(__file__).parents[2] / "shared" / "cases"
if not CASES.is_dir():
    pytest.skip(
        "the shared cases (public bug reports as files) are no part of this repository",
        allow_module_level=True,
    )
with (CASES / "manifest.csv").open(newline="", encoding="utf-8") as text:
    FILES = [row["file"] for row in csv.DictReader(text)]
TAGGING = [file for file in FILES if file.startswith("text/ner_")]


def pixels(name):
    return np.asarray(decode_image(CASES / "images" / name)).astype(float)


def data_config(train, **more):
    given = {"train": str(train), "val": 0.1, "test": None, "input": None, "label": None,
             "group": None, "time": None, "task": None, "on_bad": "raise"}  # fmt: skip
    return SimpleNamespace(**{**given, **more})


def read_text(name, **more):
    return data.splits(data_config(CASES / "text" / name, **more), 0, "text")


def read_folder(name, **more):
    return data.splits(data_config(CASES / "folders" / name, **more), 0, "picture")


# pictures


def gray16():
    values = pixels("gray16_ramp.png")
    assert len(np.unique(values)) == 256 and 126 < values.mean() < 129


def gray8():
    rgb, grey = (decode_image(CASES / "images/gray8.png", channels=c) for c in (3, 1))
    three = np.asarray(rgb)
    assert (three == three[..., :1]).all() and np.asarray(grey).ndim == 2


def gray_alpha():
    path = CASES / "images/gray_alpha.png"
    white, black = (decode_image(path, background=(v, v, v)) for v in (255, 0))
    assert white.mode == black.mode == "RGB" and np.asarray(white).mean() > np.asarray(black).mean()


def bilevel():
    assert set(np.unique(pixels("bilevel.png"))) == {0.0, 255.0}


def cmyk():
    assert np.abs(pixels("cmyk.jpg") - pixels("ref_rgb.png")).mean() < 12


def exif(name):
    def check():
        values = pixels(name)
        assert values.shape[:2] == (32, 48) and np.abs(values - pixels("ref_rgb.png")).mean() < 3

    return check


def no_picture(name):
    def check():
        with pytest.raises(PictureError, match=name):
            decode_image(CASES / "images" / name)

    return check


def any_size(name):
    def check():
        made = Preprocess((16, 16))(CASES / "images" / name)
        assert made.shape == (3, 16, 16) and made.isfinite().all()

    return check


def reference():
    assert pixels("ref_rgb.png").shape == (32, 48, 3)


def loads(name):
    def check():
        assert pixels(name).ndim == 3

    return check


# folders


def val_lacks_class():
    root = CASES / "folders/val_lacks_class"
    splits = data.splits(data_config(root), 0, "picture")
    assert splits.val is not None
    cats = [t for i, t in zip(splits.val.items, splits.val.targets, strict=True) if "cat" in str(i)]
    assert cats and {splits.labels[t] for t in cats} == {"cat"} and set(cats) == {2}


def numeric_names():
    assert read_folder("numeric_names").labels == ("2", "10", "100")


def odd_names():
    splits = read_folder("odd_names")
    assert len(splits.labels) == 5 and len({name.lower() for name in splits.labels}) < 5


def hidden_dirs():
    splits = read_folder("hidden_dirs")
    assert splits.labels == ("a", "b") and any("empty_class" in note for note in splits.notes)


def one_class():
    with pytest.raises(UserError, match="two classes or more"):
        read_folder("one_class")


def splits_no_labels():
    with pytest.raises(UserError, match="no class folders"):
        read_folder("splits_no_labels")


# tables


def odd_text():
    with (CASES / "text/odd_text.csv").open(newline="", encoding="utf-8") as file:
        count = len(list(csv.DictReader(file)))
    splits = read_text("odd_text.csv", val=0.2)
    assert len(splits.train) + len(splits.val) == count
    prepare = PrepareText(train_tokenizer(splits.train.items, 400), 64)
    torch.manual_seed(0)
    model = zoo.Model(
        zoo.adapters.Subwords(dim=16, **prepare.adapter()),
        zoo.Backbone(dim=16, depth=1, heads=2),
        zoo.heads.Classify(dim=16, classes=2, pool="mean"),
        zoo.Record(labels=splits.labels, preprocess=prepare),
    )
    answers = model.predict(list(splits.train.items), batch=8)
    assert len(answers) == len(splits.train)
    for answer in answers:
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    halves = model.predict(["flower", "\ud83c\udf37"])  # an emoji as a pair of surrogates
    assert len(halves) == 2


def labels(name, wanted):
    def check():
        splits = read_text(name)
        assert splits.labels == wanted
        numbers = {*splits.train.targets} | {*splits.val.targets}
        assert numbers == set(range(len(wanted)))

    return check


def single_class():
    with pytest.raises(UserError, match=r"two classes or more; .* all are 'only'"):
        read_text("single_class.csv")


def imbalance():
    splits = read_text("imbalance.csv")
    assert min(splits.train.counts()) >= 1 and min(splits.val.counts()) >= 1


def unseen_class():
    with pytest.raises(UserError, match="got 'e', which is none of them"):
        read_text("train_4cls.csv", val=str(CASES / "text/val_unseen_class.csv"))


def four_classes():
    assert read_text("train_4cls.csv").labels == ("a", "b", "c", "d")


def header_only():
    with pytest.raises(UserError, match="takes a table with rows"):
        read_text("header_only.csv")


# sounds

RATE = 16000


def wave(name):
    return decode_sound(CASES / "audio" / name, RATE)


def peak(samples):
    """The strongest frequency of a sound, in Hz."""
    spectrum = torch.fft.rfft(samples * torch.hann_window(len(samples))).abs()
    return spectrum.argmax().item() * RATE / len(samples)


def features(name, **options):
    made = PrepareSound(**options)(CASES / "audio" / name)
    assert made.dtype == torch.float32 and made.isfinite().all()
    return made


def no_sound(name, reason):
    def check():
        with pytest.raises(SoundError, match=f"{name} is not: .*{reason}"):
            wave(name)
        splits = {"train": [CASES / "audio" / "ref_tone_16k.wav", CASES / "audio" / name]}
        assert [bool(look_at("sound")(path).reason) for path in splits["train"]] == [False, True]

    return check


def tone(name, tolerance=1.0):
    def check():
        samples = wave(name)
        assert abs(len(samples) - RATE) <= 1 and abs(peak(samples) - 440) < tolerance
        features(name)

    return check


def stereo():
    samples = wave("stereo_l440_r880.wav")
    spectrum = torch.fft.rfft(samples * torch.hann_window(len(samples))).abs()
    per = len(samples) / RATE
    both = [spectrum[round(f * per) - 2 : round(f * per) + 3].max() for f in (440, 880)]
    assert samples.ndim == 1 and min(both) > 20 * spectrum.median()


def silence():
    assert wave("stereo_antiphase.wav").abs().max() < 1e-3
    features("stereo_antiphase.wav")


def mono():
    assert wave("six_channels.wav").ndim == 1
    features("six_channels.wav")


def short(name):
    def check():
        made = PrepareSound()
        assert len(made(CASES / "audio" / name)) == 1
        frames = [made(CASES / "audio" / file) for file in (name, "ref_tone_16k.wav")]
        torch.manual_seed(0)
        model = zoo.Model(
            zoo.adapters.Frames(dim=16, channels=64, stem="conv"),
            zoo.Backbone(dim=16, depth=1, heads=2),
            zoo.heads.Classify(dim=16, classes=2, pool="mean"),
        ).eval()
        with torch.no_grad():  # more silence, masked, changes nothing
            alone, together = model(**made.batch(frames[:1])), model(**made.batch(frames))
        torch.testing.assert_close(alone[0], together[0], rtol=1e-4, atol=1e-5)

    return check


def same_values(name):
    def check():
        ref = features("ref_tone_16k.wav")
        made = features(name)
        assert made.shape == ref.shape
        if name == "tone_f64.wav":
            assert (wave(name) - wave("ref_tone_16k.wav")).abs().max() < 1e-3
        assert abs(wave(name).mean()) < 0.01

    return check


def loud():
    assert wave("over_full_scale.wav").abs().max() > 1  # kept: a float file may be louder than full
    features("over_full_scale.wav")


def long():
    made = PrepareSound(seconds=10.0)
    assert len(made(CASES / "audio/long_65s.flac")) == made.frames


def lengths():
    made = PrepareSound()
    samples = [made(CASES / "audio" / f"len_{n}.wav") for n in (799, 800, 801)]
    batch = made.batch([*samples, made(CASES / "audio/ref_tone_16k.wav")])
    assert batch["frames"].shape[:2] == batch["keep"].shape
    assert batch["keep"].sum(1).tolist()[:3] == [len(s) for s in samples]


SOUNDS = {
    "ref_tone_16k.wav": tone("ref_tone_16k.wav"),
    "nan_one_sample.wav": no_sound("nan_one_sample.wav", "nan"),
    "inf_one_sample.wav": no_sound("inf_one_sample.wav", "inf"),
    "stereo_l440_r880.wav": stereo,
    "stereo_antiphase.wav": silence,
    "six_channels.wav": mono,
    "tone_8k.wav": tone("tone_8k.wav"),
    "tone_44k1.wav": tone("tone_44k1.wav"),
    "empty_0_samples.wav": no_sound("empty_0_samples.wav", "no samples"),
    **{name: short(name) for name in ("one_sample.wav", "short_160.wav", "short_399.wav")},
    "short_400.wav": short("short_400.wav"),
    "tone_f64.wav": same_values("tone_f64.wav"),
    "tone_u8.wav": same_values("tone_u8.wav"),
    "over_full_scale.wav": loud,
    "long_65s.flac": long,
    **{f"len_{n}.wav": lengths for n in (799, 800, 801)},
    "truncated.wav": no_sound("truncated.wav", "ends early"),
    "text_named.wav": no_sound("text_named.wav", ""),
}
ROWS = {
    **{f"audio/{name}": check for name, check in SOUNDS.items()},
    "images/ref_rgb.png": reference,
    "images/gray16_ramp.png": gray16,
    "images/gray8.png": gray8,
    "images/gray_alpha.png": gray_alpha,
    "images/bilevel.png": bilevel,
    "images/cmyk.jpg": cmyk,
    **{f"images/exif_o{i}.jpg": exif(f"exif_o{i}.jpg") for i in range(1, 9)},
    **{
        f"images/{name}": no_picture(name)
        for name in ("truncated.jpg", "zero_bytes.jpg", "html_named.jpg")
    },
    "images/png_named_jpg.jpg": loads("png_named_jpg.jpg"),
    **{file: any_size(file.split("/")[1]) for file in FILES if file.startswith("images/size_")},
    "images/two_frames.gif": loads("two_frames.gif"),
    "folders/val_lacks_class": val_lacks_class,
    "folders/numeric_names": numeric_names,
    "folders/odd_names": odd_names,
    "folders/hidden_dirs": hidden_dirs,
    "folders/one_class": one_class,
    "folders/splits_no_labels": splits_no_labels,
    "text/odd_text.csv": odd_text,
    "text/labels_1based.csv": labels("labels_1based.csv", ("1", "2", "3", "4")),
    "text/labels_neg.csv": labels("labels_neg.csv", ("-1", "1")),
    "text/labels_gap.csv": labels("labels_gap.csv", ("0", "7", "40")),
    "text/labels_spaces.csv": labels("labels_spaces.csv", ("Sport", "sport", "world news")),
    "text/single_class.csv": single_class,
    "text/imbalance.csv": imbalance,
    "text/train_4cls.csv": four_classes,
    "text/val_unseen_class.csv": unseen_class,
    "text/header_only.csv": header_only,
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Arrow files of the tests' tables go nowhere else."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))


@pytest.mark.parametrize("file", [file for file in FILES if file not in TAGGING])
def test_row(file):
    assert file in ROWS, f"{file} has no assertion"
    ROWS[file]()


def test_only_tagging_is_left_for_later():
    assert {file for file in FILES if file not in ROWS} == {*TAGGING}
