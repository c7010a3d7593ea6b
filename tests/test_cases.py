"""Public bug reports as small inputs: each row of the shared manifest has its right behaviour here.

A row without an assertion fails the test; rows about tagging wait for the head that tags.
"""

import contextlib
import csv
import json
import logging
import shutil
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch
from PIL import Image
from sklearn.metrics import accuracy_score, f1_score

import zoo
from zoo import cli, data, training
from zoo.errors import UserError
from zoo.inputs import PictureError, PrepareSound, PrepareText, Preprocess, SoundError, decode_image
from zoo.inputs.sound import decode_sound, say_cut, sound
from zoo.inputs.text import say_cut as say_cut_text
from zoo.inputs.text import train_tokenizer
from zoo.training.models import make_model

CASES = Path(__file__).parents[2] / "shared" / "cases"
if not CASES.is_dir():
    pytest.skip(
        "the shared cases (public bug reports as files) are no part of this repository",
        allow_module_level=True,
    )
with (CASES / "manifest.csv").open(newline="", encoding="utf-8") as text:
    FILES = [row["file"] for row in csv.DictReader(text)]
TAGGING = [file for file in FILES if file.startswith("text/ner_")]


TINY = {"backbone": {"dim": 16, "depth": 1, "heads": 2}, "head": {"pool": "mean"}}


def pixels(name):
    return np.asarray(decode_image(CASES / "images" / name)).astype(float)


def stored(name):
    """A file's own values, in the mode that it is stored in."""
    return np.asarray(Image.open(CASES / "images" / name)).astype(float)


def data_config(train, **more):
    given = {"train": str(train), "val": 0.1, "test": None, "input": None, "label": None,
             "group": None, "split": "auto", "time": None, "task": None, "on_bad": "raise"}  # fmt: skip
    return SimpleNamespace(**{**given, **more})


def read_text(name, **more):
    return data.splits(data_config(CASES / "text" / name, **more), 0, "text")


def read_folder(name, **more):
    return data.splits(data_config(CASES / "folders" / name, **more), 0, "picture")


def rows_in(name):
    """A table of texts as it is written."""
    with (CASES / "text" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@contextlib.contextmanager
def said(notice):
    """What is logged, as if this notice had not been before."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    notice.cache_clear()
    logging.getLogger("zoo").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("zoo").removeHandler(handler)
        notice.cache_clear()


def beside_good(kind, bad, good):
    """A bad file among good ones stops a training by its name, or is left out, counted, listed."""
    for name in ("a/1", "a/2", "b/1", "b/2"):
        (Path("files") / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(good, Path("files", name).with_suffix(good.suffix))
    shutil.copy(bad, Path("files/b", bad.name))
    with pytest.raises(UserError, match=f"1 of 5 cannot be read .*{bad.name}"):
        data.splits(data_config("files", val=0.5), 0, kind)
    splits = data.splits(data_config("files", val=0.5, on_bad="skip"), 0, kind)
    assert len(splits.skipped) == 1 and bad.name in splits.skipped[0]
    assert any("left out 1 " in note and bad.name in note for note in splits.notes)
    assert sorted(f.stem for rows in splits.rows().values() for f in rows.items) == list("1122")


def favour(model, number):
    """A model that answers one class whatever it gets."""
    with torch.no_grad():
        model.head.out.weight.zero_()
        model.head.out.bias.zero_()[number] = 5
    return model


def round_trip(splits, prepare=None, kind="text"):
    """The name that a saved and loaded model gives each class of these data, by its number."""
    adapter = {"dim": 16, **({"size": 8, "patch": 8} if kind == "picture" else {})}
    made = make_model({"adapter": adapter, **TINY}, splits.labels, "label", kind, prepare)
    made.save("model")
    model, sample = zoo.load("model"), splits.train.items[0]
    assert model.record.labels == splits.labels
    before, after = (m.predict(sample)["probabilities"] for m in (made, model))
    assert tuple(after) == splits.labels and after == pytest.approx(before, abs=1e-5)
    return [favour(model, i).predict(sample)["label"] for i in range(len(splits.labels))]


def folder_names(splits):
    """Each class is answered by the name of its folder."""
    names = round_trip(splits, kind="picture")
    for rows in splits.rows().values():
        assert [names[t] for t in rows.targets] == [
            unicodedata.normalize("NFC", item.parent.name) for item in rows.items
        ]
    return splits.labels


def prepare_for(splits, length=64):
    return PrepareText(train_tokenizer(splits.train.items, 400), length)


def cell_names(splits, name):
    """Each row is answered by what stands in its cell, without the blanks around."""
    names, cells = round_trip(splits, lambda: prepare_for(splits)), rows_in(name)
    for rows in splits.rows().values():
        wanted = [cells[i]["label"].strip() for i in rows.items.order]
        assert [names[t] for t in rows.targets] == wanted
    assert sum(map(len, splits.rows().values())) == len(cells)


# pictures


def gray16():
    values = pixels("gray16_ramp.png")
    assert len(np.unique(values)) == 256 and 127 <= values.mean() <= 128
    assert np.abs(values[..., 0] - stored("gray16_ramp.png") / 257).max() <= 1


def gray8():
    path = CASES / "images/gray8.png"
    rgb, grey = (np.asarray(decode_image(path, channels=c)) for c in (3, 1))
    assert rgb.shape == (32, 48, 3) and (rgb == rgb[..., :1]).all()
    assert (grey == stored("gray8.png")).all() and (grey == rgb[..., 0]).all()
    assert Preprocess((16, 16), channels=1)(path).shape == (1, 16, 16)


def gray_alpha():
    grey, share = np.moveaxis(stored("gray_alpha.png") / (1, 255), -1, 0)
    for behind in (255, 100, 0):
        made = decode_image(CASES / "images/gray_alpha.png", background=(behind,) * 3)
        wanted = (share * grey + (1 - share) * behind)[..., None]
        assert made.mode == "RGB" and np.abs(np.asarray(made) - wanted).max() <= 1


def bilevel():
    values = pixels("bilevel.png")
    assert (values == 255 * stored("bilevel.png")[..., None]).all() and len(np.unique(values)) == 2


def cmyk():
    assert np.abs(pixels("cmyk.jpg") - pixels("ref_rgb.png")).mean() < 12


def exif(name):
    def check():
        values = pixels(name)
        assert values.shape == (32, 48, 3) and np.abs(values - pixels("ref_rgb.png")).mean() < 3

    return check


def no_picture(name):
    def check():
        with pytest.raises(PictureError, match=name):
            decode_image(CASES / "images" / name)
        beside_good("picture", CASES / "images" / name, CASES / "images/ref_rgb.png")

    return check


def any_size(name):
    def check():
        path, values = CASES / "images" / name, stored(name)
        made = Preprocess((16, 16))(path)
        assert made.shape == (3, 16, 16) and made.isfinite().all()
        native = Preprocess(values.shape[:2])(path)  # nothing to resize: each value in its place
        assert np.abs(127.5 * (native.numpy() + 1) - values.transpose(2, 0, 1)).max() < 1e-3

    return check


def reference():
    values = pixels("ref_rgb.png")
    assert values.shape == (32, 48, 3) and (values == stored("ref_rgb.png")).all()


def same_scene(name):
    def check():
        assert (pixels(name) == pixels("ref_rgb.png")).all()

    return check


def first_frame():
    with Image.open(CASES / "images/two_frames.gif") as file:
        frames = []
        for i in range(2):
            file.seek(i)
            frames.append(np.asarray(file.convert("RGB")).astype(float))
    assert (pixels("two_frames.gif") == frames[0]).all() and (frames[0] != frames[1]).any()


# folders


def val_lacks_class():
    splits = read_folder("val_lacks_class")
    assert splits.val is not None
    cats = [t for f, t in zip(splits.val.items, splits.val.targets, strict=True) if "cat" in str(f)]
    assert cats and set(cats) == {2} and folder_names(splits) == ("ant", "bee", "cat")


def numeric_names():
    assert folder_names(read_folder("numeric_names")) == ("2", "10", "100")


def odd_names():
    splits = read_folder("odd_names")
    assert folder_names(splits) == ("Ant", "a.b", "ant", "golden retriever", "été — mer")


def hidden_dirs():
    splits = read_folder("hidden_dirs")
    assert folder_names(splits) == ("a", "b")
    assert any("no picture in class folders" in n and "empty_class" in n for n in splits.notes)
    assert sum(map(len, splits.rows().values())) == 6


def one_class():
    with pytest.raises(UserError, match=r"two classes or more; .* holds one, 'only'"):
        read_folder("one_class")


def splits_no_labels():
    for part in ("", "train"):
        with pytest.raises(UserError, match="no class folders"):
            read_folder(Path("splits_no_labels", part))


# tables


def odd_text():
    rows = rows_in("odd_text.csv")
    splits = read_text("odd_text.csv", val=0.2)
    order = [*splits.train.items.order, *splits.val.items.order]
    assert sorted(order) == list(range(len(rows)))  # each row is on one side
    for part in (splits.train, splits.val):
        assert [rows[i]["text"] for i in part.items.order] == list(part.items)
    prepare = prepare_for(splits)
    for row in rows:  # whatever is more than blanks reaches the model
        assert (len(prepare(row["text"])) > 1) == bool(row["text"].strip()), row["kind"]
    torch.manual_seed(0)
    model = make_model(
        {"adapter": {"dim": 16}, **TINY}, ("0", "1"), "label", "text", lambda: prepare
    )
    with torch.no_grad():
        model.head.out.weight.mul_(50)  # so that texts differ in their answers
    model.save("model")
    with said(say_cut_text) as lines:
        words = ["predict", "model", str(CASES / "text/odd_text.csv"), "--out", "out.jsonl"]
        assert cli.main(words) == 0
    assert len(lines) == 1 and lines[0].startswith("a text is cut to its first 64 subwords")
    answers = [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]
    assert [a["id"] for a in answers] == [row["id"] for row in rows]
    for answer, row in zip(answers, rows, strict=True):
        alone = model.predict(row["text"])["probabilities"]
        assert answer["probabilities"] == pytest.approx(alone, abs=1e-5)
        assert sum(alone.values()) == pytest.approx(1, abs=1e-5)
    assert len({round(a["probabilities"]["0"], 4) for a in answers}) > len(rows) // 2
    halves = model.predict(["flower", "\ud83c\udf37"])  # an emoji as a pair of surrogates
    whole = model.predict(["flower", "\U0001f337"])
    for half, other in zip(halves, whole, strict=True):
        assert half["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)


def labels(name, wanted):
    def check():
        splits = read_text(name)
        assert splits.labels == wanted
        numbers = {*splits.train.targets} | {*splits.val.targets}
        assert numbers == set(range(len(wanted)))
        cell_names(splits, name)

    return check


def spaces():
    labels("labels_spaces.csv", ("Sport", "sport", "world news"))()
    splits = read_text("labels_spaces.csv")
    assert any("blanks around labels do not count" in note for note in splits.notes)
    table = data_config(None, test=str(CASES / "text/labels_spaces.csv"))
    held = data.held_out(table, splits.labels, "text").test
    for rows in splits.rows().values():  # a row is of one class, whatever is done with it
        assert [held.targets[i] for i in rows.items.order] == list(rows.targets)


def single_class():
    with pytest.raises(UserError, match=r"two classes or more; .* all are 'only'"):
        read_text("single_class.csv")


def trained(name, **more):
    """A run of one pass over a table of texts."""
    flags = {
        "data.train": str(CASES / "text" / name), "data.vocabulary": 300, "run.epochs": 1,
        "model.adapter.dim": 16, "model.backbone.dim": 16, "model.backbone.depth": 1,
        "model.backbone.heads": 2, "hw.accelerator": "cpu", "hw.precision": "fp32",
        "hw.workers": 0, "run.global_batch": 16, "run.dir": "run", **more,
    }  # fmt: skip
    return training.train("text_classify/small_scratch", flags)


def by_scikit_learn(model, items, targets):
    answers = [a["label"] for a in model.predict(list(items))]
    names = [model.record.labels[t] for t in targets]
    macro = f1_score(names, answers, average="macro", zero_division=0)
    return {"accuracy": accuracy_score(names, answers), "macro_f1": macro}


def imbalance():
    splits = read_text("imbalance.csv")
    assert min(splits.train.counts()) >= 1 and min(splits.val.counts()) >= 1
    figures = trained("imbalance.csv", **{"data.val": 0.1}).metrics["val"]
    wanted = by_scikit_learn(zoo.load("run"), splits.val.items, splits.val.targets)
    assert {name: figures[name] for name in wanted} == pytest.approx(wanted, abs=1e-5)
    page = Path("run/report.md").read_text("utf-8")
    assert "| macro_f1 |" in page and f"| {figures['macro_f1']:.4f} |" in page


def unseen_class():
    with pytest.raises(UserError, match="got 'e', which is none of them"):
        read_text("train_4cls.csv", val=str(CASES / "text/val_unseen_class.csv"))
    known = [row for row in rows_in("val_unseen_class.csv") if row["label"] != "e"]
    lines = ["text,label", *(f"{row['text']},{row['label']}" for row in known)]
    Path("val.csv").write_text("\n".join(lines) + "\n")
    splits = read_text("train_4cls.csv", val="val.csv")
    assert splits.val.counts() == (3, 3, 0, 0)  # c and d keep their numbers
    trained("train_4cls.csv", **{"data.val": "val.csv"})
    model = favour(zoo.load("run"), 0)  # c and d are neither there nor answered
    model.save("run/model")
    wanted = by_scikit_learn(model, splits.val.items, splits.val.targets)
    figures = training.evaluate("run", "val.csv")
    assert {name: figures[name] for name in wanted} == pytest.approx(wanted, abs=1e-5)
    assert wanted["macro_f1"] == pytest.approx((2 / 3 + 0) / 2)


def four_classes():
    labels("train_4cls.csv", ("a", "b", "c", "d"))()


def header_only():
    with pytest.raises(UserError, match=r"takes a table with rows; .*header_only\.csv has none"):
        read_text("header_only.csv")


# sounds

RATE = 16000


def wave(name):
    return decode_sound(CASES / "audio" / name, RATE)


def loudness(samples, hertz):
    """How loud the strongest tone near a frequency is, 1 for a sine of full scale."""
    window = torch.hann_window(len(samples))
    spectrum = torch.fft.rfft(samples * window).abs() / (window.sum() / 2)
    at = round(hertz * len(samples) / RATE)
    return spectrum[max(at - 2, 0) : at + 3].max().item()


def peak(samples):
    """The strongest frequency of a sound, in Hz."""
    spectrum = torch.fft.rfft(samples * torch.hann_window(len(samples))).abs()
    return spectrum.argmax().item() * RATE / len(samples)


def features(name, **options):
    made = PrepareSound(**options)(CASES / "audio" / name)
    assert made.dtype == torch.float32 and made.isfinite().all()
    return made


def hearing(prepare):
    torch.manual_seed(0)
    adapter = zoo.adapters.Frames(dim=16, **prepare.adapter(), stem="conv")
    body = zoo.Backbone(dim=16, depth=1, heads=2)
    model = zoo.Model(adapter, body, zoo.heads.Classify(dim=16, classes=2, pool="mean")).eval()
    with torch.no_grad():
        model.head.out.weight.mul_(50)  # so that little in a sound is much in its answer
    return model


def no_sound(name, reason):
    def check():
        with pytest.raises(SoundError, match=f"{name} is not: .*{reason}"):
            wave(name)
        beside_good("sound", CASES / "audio" / name, CASES / "audio/ref_tone_16k.wav")

    return check


def tone(name, tolerance=1.0):
    def check():
        samples = wave(name)
        assert abs(len(samples) - RATE) <= 1 and abs(peak(samples) - 440) < tolerance
        assert loudness(samples, 440) == pytest.approx(0.3, abs=0.01)
        assert features(name).shape == features("ref_tone_16k.wav").shape

    return check


def stereo():
    samples = wave("stereo_l440_r880.wav")
    assert samples.shape == (RATE,)
    for hertz in (440, 880):  # each at half, as it is on one side of two
        assert loudness(samples, hertz) == pytest.approx(0.15, abs=0.01)
    assert features("stereo_l440_r880.wav").shape == features("ref_tone_16k.wav").shape


def silence():
    assert wave("stereo_antiphase.wav").abs().max() < 1e-3
    features("stereo_antiphase.wav")


def mono():
    samples = wave("six_channels.wav")
    each = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3]  # how loud the tone is in each of them
    assert samples.shape == (RATE,)
    assert loudness(samples, 440) == pytest.approx(sum(each) / 6, abs=0.005)
    features("six_channels.wav")


def short(name):
    def check():
        made, path = PrepareSound(), CASES / "audio" / name
        assert len(made(path)) == 1
        samples, _ = soundfile.read(path, dtype="float32")
        soundfile.write("padded.wav", np.pad(samples, (0, 400 - len(samples))), RATE, "FLOAT")
        torch.testing.assert_close(made(path), made("padded.wav"))
        frames = [made(CASES / "audio" / file) for file in (name, "ref_tone_16k.wav")]
        model = hearing(made)
        with torch.no_grad():  # more silence, masked, changes nothing
            alone, together = model(**made.batch(frames[:1])), model(**made.batch(frames))
        torch.testing.assert_close(alone[0], together[0], rtol=1e-4, atol=1e-5)

    return check


def one_frame():
    short("short_400.wav")()
    features("short_400.wav", centre=True)
    config = SimpleNamespace(rate=RATE, mels=64, seconds=1.0, centre=False)
    same = 3 * [CASES / "audio/short_400.wav"]  # nothing varies, neither over time nor over train
    made = sound(config, SimpleNamespace(train=SimpleNamespace(items=same)))()
    for file in (same[0], CASES / "audio/ref_tone_16k.wav"):  # nor is anything blown up
        assert made(file).isfinite().all() and made(file).abs().max() < 200


def same_values(name, most):
    def check():
        ref = features("ref_tone_16k.wav")
        made = features(name)
        assert made.shape == ref.shape
        assert (wave(name) - wave("ref_tone_16k.wav")).abs().max() < most
        assert abs(wave(name).mean()) < 0.01

    return check


def loud():
    samples = wave("over_full_scale.wav")  # kept: a float file may be louder than full
    assert samples.abs().max().item() == pytest.approx(3, abs=1e-3)
    features("over_full_scale.wav")


def long():
    path, made = CASES / "audio/long_65s.flac", PrepareSound(seconds=10.0)
    with said(say_cut) as lines:
        frames = made(path)
        made(path)
    assert lines == ["a sound of 65.0 s is cut to its first 10 s (data.seconds), and so is each "
                     "longer one"]  # fmt: skip
    start, _ = soundfile.read(path, 10 * RATE, dtype="float32")
    soundfile.write("start.wav", start, RATE, "FLOAT")
    with said(say_cut) as lines:
        torch.testing.assert_close(frames, made("start.wav"), rtol=1e-4, atol=1e-4)
    assert len(frames) == made.frames and not lines
    with torch.no_grad():
        assert hearing(made)(**made.batch([frames])).isfinite().all()


def lengths():
    made = PrepareSound()
    samples = [made(CASES / "audio" / f"len_{n}.wav") for n in (799, 800, 801)]
    assert [len(s) for s in samples] == [3, 3, 3]  # whole windows of 400, every 160
    model = hearing(made)
    for some in ([samples[0]], [samples[1]], [samples[2]], samples,
                 [*samples, made(CASES / "audio/ref_tone_16k.wav")]):  # fmt: skip
        batch = made.batch(some)
        assert batch["frames"].shape[:2] == batch["keep"].shape
        assert batch["keep"].sum(1).tolist() == [len(s) for s in some]
        with torch.no_grad():
            assert model(**batch).isfinite().all()


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
    "short_400.wav": one_frame,
    "tone_f64.wav": same_values("tone_f64.wav", 1e-3),
    "tone_u8.wav": same_values("tone_u8.wav", 1 / 127),
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
    "images/png_named_jpg.jpg": same_scene("png_named_jpg.jpg"),
    **{file: any_size(file.split("/")[1]) for file in FILES if file.startswith("images/size_")},
    "images/two_frames.gif": first_frame,
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
    "text/labels_spaces.csv": spaces,
    "text/single_class.csv": single_class,
    "text/imbalance.csv": imbalance,
    "text/train_4cls.csv": four_classes,
    "text/val_unseen_class.csv": unseen_class,
    "text/header_only.csv": header_only,
}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """What a row writes lies in a folder of its own, Arrow files of tables too."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "datasets"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("file", [file for file in FILES if file not in TAGGING])
def test_row(file):
    assert file in ROWS, f"{file} has no assertion"
    ROWS[file]()


def test_only_tagging_is_left_for_later():
    assert {file for file in FILES if file not in ROWS} == {*TAGGING}
