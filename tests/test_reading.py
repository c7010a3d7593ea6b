"""With `model.load`, texts and sounds are read as the loaded model reads them."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

import zoo
from zoo import training
from zoo.errors import UserError
from zoo.inputs import PrepareText
from zoo.inputs.text import CHARACTERS, read_tokenizer, say_cut, train_tokenizer
from zoo.training import reading

SMALL = {"model.adapter.dim": 16, "model.backbone.dim": 16, "model.backbone.depth": 1}
QUICK = {"data.val": 0.25, "run.epochs": 1, "run.global_batch": 8, "optim.lr": 1e-9,
         "hw.accelerator": "cpu", "hw.precision": "fp32", "hw.workers": 0}  # fmt: skip


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The flags of a run that loads a model of texts."""
    folder = tmp_path_factory.mktemp("texts")
    rows = [f"{word} news of day {i},{word}" for i in range(12) for word in ("good", "bad")]
    (folder / "a.csv").write_text("\n".join(["text,label", *rows]))
    given = {"data.train": str(folder / "a.csv"), **QUICK}
    made = {**SMALL, "data.length": 32, "data.vocabulary": 320, "run.dir": str(folder / "run")}
    training.train("text_classify/small_scratch", {**given, **made})
    return {**given, "model.load": str(folder / "run")}


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """The same of sounds."""
    folder, draw = tmp_path_factory.mktemp("sounds"), np.random.default_rng(0)
    for name, step in (("high", 2000), ("low", 200)):
        (folder / "sounds" / name).mkdir(parents=True)
        for i in range(6):
            wave = np.sin(np.arange(4000) / 8000 * step * 6.28) / 2 + draw.normal(0, 0.01, 4000)
            soundfile.write(folder / "sounds" / name / f"{i}.wav", wave, 8000)
    given = {"data.train": str(folder / "sounds"), **QUICK}
    made = {**SMALL, "data.rate": 8000, "data.mels": 16, "data.seconds": 0.5,
            "model.adapter.kind": "Frames", "run.dir": str(folder / "run")}  # fmt: skip
    training.train("audio_classify/custom", {**given, **made})
    return {**given, "model.load": str(folder / "run")}


def test_texts_are_read_as_the_loaded_model_reads_them(texts, tmp_path, capsys):
    training.train("text_classify/small_scratch", {**texts, "run.dir": str(tmp_path / "run")})
    own = zoo.load(texts["model.load"]).record.preprocess
    size = own.adapter()["vocabulary"]
    said = f"reads as it was made to: data.length 32, data.vocabulary {max(size, 300)}"
    assert said in capsys.readouterr().out
    written = training.resolve(tmp_path / "run/config.yaml").config
    assert (written.data.length, written.data.vocabulary) == (32, max(size, 300))
    assert zoo.load(tmp_path / "run").record.preprocess == own
    given = {**texts, "data.length": 8, "run.dir": str(tmp_path / "short")}
    training.train("text_classify/small_scratch", given)  # less of a text fits too
    assert zoo.load(tmp_path / "short").record.preprocess.length == 8
    again = {"run.dir": str(tmp_path / "again")}  # what is written runs again
    training.train(tmp_path / "run/config.yaml", again)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"data.length": 64}, r"data.length takes at most what the loaded model reads, 32; got 64.*\(--data.length\)"),
        ({"data.vocabulary": 500}, "data.vocabulary takes what the loaded model reads, .*; got 500: drop it"),
        ({"data.tokenizer": "other.json"}, "data.tokenizer takes the one of the loaded model"),
    ],
)  # fmt: skip
def test_texts_that_the_loaded_model_cannot_read_are_refused(
    texts, tmp_path, monkeypatch, given, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text(train_tokenizer(["other words"], 300))
    with pytest.raises(UserError, match=says):
        training.train("text_classify/small_scratch", {**texts, **given})
    assert [p.name for p in tmp_path.iterdir()] == ["other.json"]


def test_sounds_are_heard_as_the_loaded_model_hears_them(sounds, tmp_path, capsys):
    recipe, run = "audio_classify/custom", tmp_path / "run"
    training.train(recipe, {**sounds, "data.seconds": 0.25, "run.dir": str(run)})
    assert "reads as it was made to: data.rate 8000, data.mels 16" in capsys.readouterr().out
    own, new = (zoo.load(p).record.preprocess for p in (sounds["model.load"], run))
    assert (new.rate, new.mels, new.seconds, new.mean) == (8000, 16, 0.25, own.mean)
    written = training.resolve(run / "config.yaml").config.data
    assert (written.rate, written.mels, written.seconds) == (8000, 16, 0.25)
    for key, value in {"mels": 32, "seconds": 2, "centre": True}.items():
        with pytest.raises(UserError, match=rf"data.{key} takes .*\(--data.{key}\)"):
            training.train(recipe, {**sounds, f"data.{key}": value})


def test_files_of_another_rate_are_resampled_to_the_loaded_models(sounds, tmp_path, capsys):
    """As `zoo predict` does; the rate that was asked for is said, and not written."""
    for name in ("high", "low"):
        (tmp_path / "sounds" / name).mkdir(parents=True)
        for file in (Path(sounds["data.train"]) / name).iterdir():
            wave, rate = soundfile.read(file)
            soundfile.write(tmp_path / "sounds" / name / file.name, wave.repeat(2), 2 * rate)
    run = tmp_path / "run"
    given = {**sounds, "data.train": str(tmp_path / "sounds"), "run.dir": str(run)}
    training.train("audio_classify/custom", {**given, "data.rate": 16000})
    said = "hears 8000 samples per second, not 16000: files are resampled to it"
    assert said in capsys.readouterr().out
    assert training.resolve(run / "config.yaml").config.data.rate == 8000
    assert zoo.load(run).record.preprocess.rate == 8000
    assert zoo.load(run).predict(next((tmp_path / "sounds").rglob("*.wav")))["label"]


def test_how_a_model_reads_is_read_without_its_weights(sounds, texts, tmp_path, monkeypatch):
    resolved = training.resolve("audio_classify/custom", sounds)
    want = zoo.load(sounds["model.load"]).record.preprocess
    monkeypatch.setattr(reading, "load", None)
    assert reading.adopt(resolved).config.data.rate == 8000
    for place in (sounds["model.load"], f"{sounds['model.load']}/model",
                  f"{sounds['model.load']}/model/model.safetensors"):  # fmt: skip
        assert reading.reading_of(place) == want
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')  # of transformers
    assert reading.reading_of(str(tmp_path)) is None
    monkeypatch.undo()
    (tmp_path / "config.json").write_text('{"zoo": 1}')
    for place, says in (
        (tmp_path, "config.json, model.safetensors"),
        (tmp_path / "x", "x does not"),
    ):
        with pytest.raises(UserError, match=says):
            reading.reading_of(str(place))


def test_a_tokenizer_s_own_padding_and_truncation_are_off(tmp_path):
    from tokenizers import Tokenizer

    made = Tokenizer.from_str(train_tokenizer(["hello world good bad"] * 9, 400))
    made.enable_truncation(8)
    made.enable_padding(length=8)
    made.save(str(tmp_path / "t.json"))
    for prepare in (
        PrepareText(read_tokenizer(tmp_path / "t.json"), 64),
        PrepareText(made.to_str(), 64),  # as an earlier run saved it
    ):
        assert prepare.token("pad") not in prepare("hello").tolist()
        assert not prepare("hello " * 30 + "good").equal(prepare("hello " * 30 + "bad"))


def test_of_a_huge_text_its_start_is_read(caplog, monkeypatch):
    prepare = PrepareText(train_tokenizer(["aa b"] * 9, 300), 16)
    say_cut.cache_clear()
    huge = " " * 50 + "b " * 8 + "a" * 5_000_000
    given: list[int] = []
    spy = lambda part: given.append(len(part)) or part  # noqa: E731
    monkeypatch.setitem(PrepareText.load.__globals__, "repair", spy)
    ids = prepare(huge)
    assert given == [CHARACTERS] and len(ids) == 16
    assert ids.equal(prepare(huge[:1000])) and "is cut to its first 16 subwords" in caplog.text
