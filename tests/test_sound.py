"""Sounds of every kind become the right spectrograms; folders and tables of them checked splits."""

import csv
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch

import zoo
from zoo import cli, data, training
from zoo.data.check import look_at
from zoo.errors import OptionError, UserError
from zoo.inputs import Prepare, PrepareSound, vary_sound
from zoo.inputs.image import decode_image
from zoo.inputs.sound import FLOOR, SoundError, decode_sound, filters, log_mel, read_sound, say_cut

SHARED = Path(__file__).parents[2] / "shared" / "cases"
needs_shared = pytest.mark.skipif(
    not SHARED.exists(),
    reason="the shared test files (public bug reports as sounds) are no part of this repository; "
    f"looked for them in {SHARED}, beside the checkout",
)
RATE = 16000
look_at_sound = look_at("sound")


def tone(hertz: float = 440.0, seconds: float = 1.0, rate: int = RATE) -> np.ndarray:
    return 0.3 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)


def write(path: Path, wave: np.ndarray, rate: int = RATE, **options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, wave, rate, **options)
    return path


def peaks(wave: torch.Tensor, rate: int = RATE) -> set[int]:
    """Frequencies, in Hz, that are within 20 dB of the loudest."""
    power = torch.fft.rfft(wave * torch.hann_window(len(wave))).abs()
    loud = (power > 0.1 * power.max()).nonzero().flatten() * rate / len(wave)
    return {round(float(hertz) / 20) * 20 for hertz in loud}


def config(**given: object) -> SimpleNamespace:
    keys = dict.fromkeys(("input", "label", "task", "group", "time", "test"))
    sizes = {"rate": 8000, "mels": 16, "seconds": 1.0, "centre": False, "augment": "none"}
    return SimpleNamespace(
        **{**keys, "val": 0.25, "split": "auto", "on_bad": "raise", **sizes, **given}
    )


def noted(splits: data.Splits, *parts: str) -> bool:
    return any(all(part in note for part in parts) for note in splits.notes)


# ---------------------------------------------------------------- the shared cases, row by row


def shared_rows() -> list[tuple[str, str]]:
    if not SHARED.exists():
        return []
    with open(SHARED / "manifest.csv", encoding="utf-8", newline="") as file:
        return [(r["file"], r["case"]) for r in csv.DictReader(file) if "audio/" in r["file"]]


def unreadable(path: Path, says: str) -> None:
    with pytest.raises(SoundError, match=says) as caught:
        PrepareSound()(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert look_at_sound(path).reason == caught.value.reason


def bad_number(path: Path) -> None:
    unreadable(path, r"its sample 8000 \(at 0\.500 s\) is (nan|inf)")


def mixed(path: Path) -> None:
    wave = decode_sound(path, RATE)
    assert wave.shape == (RATE,)
    if path.stem == "stereo_l440_r880":
        assert peaks(wave) == {440, 880}
    if path.stem == "stereo_antiphase":
        assert wave.abs().max() < 1e-4


def same_tone(path: Path) -> None:
    wave = decode_sound(path, RATE)
    assert wave.shape == (RATE,) and peaks(wave) == {440}


def nothing(path: Path) -> None:
    says = {"empty_0_samples": "it has no samples", "truncated": "it ends early, after 15978 of",
            "text_named": "format not recognised"}[path.stem]  # fmt: skip
    unreadable(path, says)


def short(path: Path) -> None:
    x = PrepareSound()(path)
    assert x.shape == (1, 64)
    longer = log_mel(torch.cat((decode_sound(path, RATE), torch.zeros(400)))[:400], RATE, 64)
    assert torch.equal(x, longer)


def any_depth(path: Path) -> None:
    wave, reference = (decode_sound(p, RATE) for p in (path, path.with_name("ref_tone_16k.wav")))
    assert wave.dtype == torch.float32
    if path.stem == "tone_f64":
        assert torch.allclose(wave, reference, atol=1e-3)
        loud = log_mel(reference, RATE, 64) > 0
        difference = (log_mel(wave, RATE, 64) - log_mel(reference, RATE, 64))[loud]
        assert difference.abs().max() < 1e-3
    if path.stem == "tone_u8":
        assert torch.allclose(wave, reference, atol=1 / 127) and abs(wave.mean()) < 1e-2
    if path.stem == "over_full_scale":
        assert abs(wave.abs().max() - 3) < 0.01  # kept


def long(path: Path) -> None:
    assert decode_sound(path, RATE).shape == (65 * RATE,)
    assert PrepareSound(seconds=10)(path).shape == (998, 64)
    assert PrepareSound(seconds=30, fixed=True)(path).shape == (3008, 64)


def same_length(path: Path) -> None:
    prepare = PrepareSound()
    others = [prepare(path.with_name(f"len_{n}.wav")) for n in (799, 800, 801)]
    batch = prepare.batch([prepare(path), *others])
    assert {len(x) for x in others} == {3} and prepare(path).shape == (3, 64)
    assert batch["keep"].shape == batch["frames"].shape[:2] and batch["keep"].sum(1).eq(3).all()


CHECKS = {
    "-": same_tone,
    "AUD-01": bad_number,
    "AUD-02": mixed,
    "AUD-03": same_tone,
    "AUD-05": nothing,
    "AUD-06": short,
    "AUD-08": any_depth,
    "AUD-09": long,
    "AUD-12": same_length,
}


@needs_shared
@pytest.mark.parametrize(("file", "case"), shared_rows())
def test_shared_sound(file: str, case: str):
    path = SHARED / file
    CHECKS[case](path)
    if case not in ("AUD-01", "AUD-05"):
        for fixed in (False, True):
            x = PrepareSound(fixed=fixed)(path)
            assert x.dtype == torch.float32 and x.isfinite().all()


@needs_shared
def test_shared_bad_sounds_are_left_out_and_listed(tmp_path: Path):
    bad = ["empty_0_samples.wav", "nan_one_sample.wav", "text_named.wav", "truncated.wav"]
    for i in range(4):
        write(tmp_path / "a" / f"{i}.wav", tone(300 + i))
        write(tmp_path / "b" / f"{i}.wav", tone(600 + i))
    for name in bad:
        (tmp_path / "a" / name).write_bytes((SHARED / "audio" / name).read_bytes())
    with pytest.raises(UserError, match=r"readable sounds; 4 of 12 cannot .*empty_0_samples.wav"):
        data.splits(config(train=tmp_path), 0, "sound")
    splits = data.splits(config(train=tmp_path, on_bad="skip"), 0, "sound")
    assert len(splits.skipped) == 4 and noted(splits, "left out 4 unreadable sounds")
    assert all(name in line for name, line in zip(bad, splits.skipped, strict=True))


@needs_shared
def test_a_short_sound_is_answered_alike_in_any_batch():
    """Silence that is masked in changes nothing."""
    prepare = PrepareSound()
    model = zoo.Model(
        zoo.adapters.Frames(dim=32, channels=64, stem="conv"),
        zoo.Backbone(dim=32, depth=1, heads=2, position="rope"),
        zoo.heads.Classify(dim=32, classes=2, pool="mean"),
    ).eval()
    short, long = (prepare(SHARED / "audio" / f"{n}.wav") for n in ("short_160", "ref_tone_16k"))
    with torch.no_grad():
        alone = model(**prepare.batch([short]))
        beside = model(**prepare.batch([short, long]))[:1]
    assert torch.allclose(alone, beside, atol=1e-5)


# ---------------------------------------------------------------- decoding


@pytest.mark.parametrize(
    ("name", "options"),
    [("a.wav", {}), ("a.wav", {"subtype": "PCM_24"}), ("a.wav", {"subtype": "DOUBLE"}),
     ("a.flac", {}), ("a.ogg", {}), ("a.mp3", {}), ("a.aiff", {}), ("a.au", {}), ("a.caf", {})],
)  # fmt: skip
def test_every_format(tmp_path: Path, name: str, options: dict):
    path = write(tmp_path / name, np.stack([tone(), tone()], 1), **options)
    wave = decode_sound(path, RATE)
    assert peaks(wave) == {440} and abs(len(wave) - RATE) < 3000  # codecs add a little
    assert torch.equal(wave, decode_sound(path.read_bytes(), RATE))
    assert torch.equal(wave, decode_sound(str(path), None))


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 48000])
def test_the_rate_is_the_files_own(tmp_path: Path, rate: int):
    wave = decode_sound(write(tmp_path / "a.wav", tone(rate=rate), rate), RATE)
    assert abs(len(wave) - RATE) <= 1 and peaks(wave[:RATE]) == {440}


@pytest.mark.parametrize("share", [0.67, 0.97])
@pytest.mark.parametrize(
    "name", ["a.wav", "a.flac", "a.ogg", "a.aiff", "a.au", "a.w64", "a.rf64", "a.caf", "big.wav"]
)
def test_a_file_that_ends_early_is_refused(tmp_path: Path, name: str, share: float):
    options = {"endian": "BIG"} if name == "big.wav" else {}  # RIFX
    wave = np.random.default_rng(0).normal(0, 0.1, RATE)
    content = write(tmp_path / name, wave, **options).read_bytes()
    assert len(decode_sound(tmp_path / name, RATE)) == RATE
    (tmp_path / name).write_bytes(content[: int(len(content) * share)])
    with pytest.raises(SoundError, match=name):
        decode_sound(tmp_path / name, RATE)


@pytest.mark.parametrize("name", ["a.ogg", "a.opus"])
def test_an_ogg_file_that_ends_within_or_before_its_last_page_is_refused(tmp_path: Path, name: str):
    options = {"format": "OGG", "subtype": "OPUS"} if name == "a.opus" else {}
    content = write(tmp_path / name, tone(seconds=4), **options).read_bytes()
    last = content.rfind(b"OggS")
    assert last > 0 and len(decode_sound(content, RATE)) >= 4 * RATE
    for end in (last, last + 3, last + 20, last + 26, last + 27, last + 29, len(content) - 1):
        with pytest.raises(SoundError, match="ends early"):
            decode_sound(content[:end], RATE)


def test_a_length_that_was_not_known_when_it_was_written_is_no_early_end(tmp_path: Path):
    content = write(tmp_path / "a.au", tone()).read_bytes()
    assert content[:4] == b".snd"
    assert len(decode_sound(content[:8] + b"\xff" * 4 + content[12:], RATE)) == RATE


@pytest.mark.parametrize("whole", [None, 0, 8, 36, 0x7FFFF024, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_a_wav_that_was_written_into_a_pipe_is_whole(tmp_path: Path, size: int, whole: int | None):
    content = bytearray(write(tmp_path / "a.wav", tone()).read_bytes())
    assert content[36:40] == b"data"
    content[40:44] = size.to_bytes(4, "little")
    if whole is not None:
        content[4:8] = whole.to_bytes(4, "little")
    if size == 0 and whole is None:  # then it is sure of having no samples
        with pytest.raises(SoundError, match="it has no samples"):
            decode_sound(bytes(content), RATE)
        return
    wave = decode_sound(bytes(content), RATE)
    assert torch.equal(wave, decode_sound(tmp_path / "a.wav", RATE))


def test_large_formats_may_leave_their_length_open(tmp_path: Path):
    caf = bytearray(write(tmp_path / "a.caf", tone()).read_bytes())
    at = caf.index(b"data") + 4
    caf[at : at + 8] = b"\xff" * 8
    assert len(decode_sound(bytes(caf), RATE)) == RATE
    rf64 = bytearray(write(tmp_path / "a.rf64", tone()).read_bytes())
    assert rf64[12:16] == b"ds64"
    at = rf64.index(b"data") + 4
    rf64[at : at + 4] = (2 * RATE).to_bytes(4, "little")  # a size of its own goes before
    assert len(decode_sound(bytes(rf64), RATE)) == RATE


@pytest.mark.parametrize("subtype", ["GSM610", "G721_32", "NMS_ADPCM_16"])
def test_codecs_that_cannot_be_sought_in_are_read(tmp_path: Path, subtype: str):
    content = write(tmp_path / "a.wav", tone(), subtype=subtype).read_bytes()
    wave = decode_sound(content, RATE)
    assert 0 <= len(wave) - RATE < 400 and 440 in peaks(wave)
    with pytest.raises(SoundError, match="it ends early"):
        decode_sound(content[: int(0.7 * len(content))], RATE)


def test_a_wav_may_hold_more_than_samples(tmp_path: Path):
    content = write(tmp_path / "a.wav", tone()).read_bytes()
    (tmp_path / "a.wav").write_bytes(content + b"LIST\x04\x00\x00\x00abcd")
    assert len(decode_sound(tmp_path / "a.wav", RATE)) == RATE


def test_what_is_no_sound(tmp_path: Path):
    (tmp_path / "empty.wav").touch()
    cases = {"empty.wav": "it is empty", "absent.wav": "no such file", ".": "is a directory"}
    for name, reason in cases.items():
        with pytest.raises(SoundError, match=reason):
            decode_sound(tmp_path / name, RATE)
    with pytest.raises(SoundError, match="given as 3 bytes is not"):
        decode_sound(b"abc", RATE)
    with pytest.raises(UserError, match="got ndarray: write it to a file"):
        decode_sound(np.zeros(3), RATE)


def test_a_bad_sound_keeps_its_reason_across_processes():
    error = pickle.loads(pickle.dumps(SoundError.of("a.wav", "it is empty")))
    assert type(error) is SoundError and error.reason == "it is empty"


def test_a_look_is_about_the_content(tmp_path: Path):
    wave = np.int16(32767 * tone())
    one, two = write(tmp_path / "a.wav", wave), write(tmp_path / "b.flac", wave)
    looks = [look_at_sound(one), look_at_sound(two), look_at_sound(one.read_bytes())]
    assert len({look.digest for look in looks}) == 1 and looks[0].values == 100
    assert looks[0].length == one.stat().st_size and not looks[0].reason
    slow = look_at_sound(write(tmp_path / "c.wav", wave, 8000))
    assert slow.digest != looks[0].digest  # the same numbers at another rate sound otherwise


# ---------------------------------------------------------------- spectrograms


@pytest.mark.parametrize(("rate", "mels"), [(8000, 64), (16000, 128), (44100, 40), (2000, 200)])
def test_every_band_has_a_bin(rate: int, mels: int):
    bank = filters(rate, mels)
    assert bank.shape[1] == mels and bank.any(0).all() and bank.dtype == torch.float32


def test_a_tone_is_in_its_band():
    spectrum = log_mel(torch.from_numpy(tone(1000)).float(), RATE, 64).mean(0)
    bank = filters(RATE, 64)
    hertz = torch.linspace(0, RATE / 2, len(bank))[bank[:, spectrum.argmax()].argmax()]
    assert abs(hertz - 1000) < 60


def test_loudness_is_a_sum():
    wave = torch.from_numpy(tone()).float() + 0.1 * torch.randn(RATE)
    louder = log_mel(10 * wave, RATE, 32) - log_mel(wave, RATE, 32)
    assert torch.allclose(louder, torch.tensor(100.0).log(), atol=0.01)


def test_fixed_sounds_are_filled_with_silence_and_cut(caplog: pytest.LogCaptureFixture, tmp_path):
    prepare = PrepareSound(8000, 16, 0.77, fixed=True, mean=(1.0,), std=(2.0,))
    assert prepare.frames == 80 and prepare.adapter() == {"size": (16, 80)}
    x = prepare(write(tmp_path / "a.wav", tone(seconds=0.1, rate=8000), 8000))
    silence = (torch.tensor(FLOOR).log() - 1) / 2
    assert x.shape == (80, 16) and torch.allclose(x[8:], silence)
    for _ in range(2):
        assert prepare(write(tmp_path / "b.wav", tone(seconds=3, rate=8000), 8000)).shape == x.shape
    assert caplog.text.count("is cut to its first 0.77 s (data.seconds)") == 1


def test_that_sounds_are_cut_is_said_once_for_each_limit(caplog: pytest.LogCaptureFixture):
    say_cut.cache_clear()
    for seconds in (0.03, 2.5):
        for length in range(300, 310):
            PrepareSound(8000, 8, seconds).finish(torch.zeros(length, 8))
    PrepareSound(8000, 8, 0.025).finish(torch.zeros(4, 8))
    assert [record.getMessage().partition(" (")[0] for record in caplog.records] == [
        "a sound of 3.00 s is cut to its first 0.03 s",
        "a sound of 3.00 s is cut to its first 2.5 s",
        "a sound of 0.04 s is cut to its first 0.025 s",
    ]
    say_cut.cache_clear()


@pytest.mark.parametrize("augment", ["none", "light", "strong"])
def test_silence_beside_a_centred_sound_is_as_silence_in_it(tmp_path: Path, augment: str):
    """It was 13.8 below the middle of a sound, however loud that is."""
    prepare = PrepareSound(8000, 16, 1.0, fixed=True, centre=True)
    vary = prepare.augment(config(augment=augment))
    wave = np.concatenate((tone(seconds=0.2, rate=8000), np.zeros(1600)))
    loaded = prepare.load(write(tmp_path / "a.wav", wave, 8000))
    if augment == "none":
        seen = vary(loaded)
        assert torch.equal(seen[:38], loaded) and (seen[38:] == loaded[-1]).all()
        assert torch.equal(loaded[-1], loaded.amin(0))
    for seed in range(10):
        torch.manual_seed(seed)
        assert vary(0.1 * loaded).min() > -6
    plain = PrepareSound(8000, 16, 1.0, fixed=True)
    assert (plain.finish(loaded)[38:] == torch.tensor(FLOOR).log()).all()


def test_another_microphone_is_no_other_sound_where_sounds_are_centred(tmp_path: Path):
    wave = np.random.default_rng(0).normal(0, 0.1, 8000) * np.linspace(0.2, 1, 8000)
    heard = np.convolve(wave, [0.6, 0.3, 0.1], "same")  # a filter of its own
    paths = [write(tmp_path / f"{i}.wav", w, subtype="FLOAT") for i, w in enumerate((wave, heard))]
    plain, centred = ([PrepareSound(mels=16, centre=c)(p) for p in paths] for c in (False, True))
    assert (centred[0] - centred[1]).abs().mean() < 0.1 < (plain[0] - plain[1]).abs().mean()


def test_batches_of_any_lengths():
    prepare = PrepareSound(mels=8)
    assert prepare.adapter() == {"channels": 8, "length": 998}
    batch = prepare.batch([torch.ones(5, 8), torch.ones(20, 8)])
    assert batch["frames"].shape == (2, 32, 8) and batch["keep"].sum(1).tolist() == [5, 20]
    assert set(prepare.batch([torch.ones(16, 8)] * 2)) == {"frames"}


def test_it_travels_as_json():
    prepare = PrepareSound(8000, 8, 2.5, True, (0.5,) * 8, (2.0,) * 8)
    assert Prepare.from_dict(json.loads(json.dumps(prepare.to_dict()))) == prepare


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"rate": 10}, "rate of at least 1000; got 10"),
        ({"mels": 0}, "mels of at least 8; got 0"),
        ({"seconds": float("nan")}, "seconds of at least"),
        ({"mean": (1.0, 2.0)}, r"takes 64 \(its bands\) finite numbers of mean"),
        ({"std": (0.0,)}, "a std above 0; got 0"),
    ],
)
def test_impossible_values_are_refused(values: dict, says: str):
    with pytest.raises(UserError, match=says):
        PrepareSound(**values)


# ---------------------------------------------------------------- variation


@pytest.mark.parametrize("strength", ["light", "strong"])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("length", [1, 3, 50, 400])
def test_varied_sounds(strength: str, fixed: bool, length: int):
    prepare = PrepareSound(8000, 16, 1.0, fixed)
    vary, x = prepare.augment(config(augment=strength)), torch.randn(length, 16)
    before = x.clone()
    for seed in range(20):
        torch.manual_seed(seed)
        y = vary(x)
        torch.manual_seed(seed)
        assert torch.equal(y, vary(x)) and torch.equal(x, before)  # torch's generator alone
        assert y.isfinite().all() and y.dtype == torch.float32
        assert 1 <= len(y) <= prepare.frames and (not fixed or len(y) == prepare.frames)


def test_none_is_the_preparation_itself():
    prepare = PrepareSound(8000, 16)
    x = torch.randn(30, 16)
    assert torch.equal(prepare.augment(config())(x), prepare.finish(x))


def test_a_longer_vocal_tract_moves_bands_down_and_one_is_the_identity():
    x = log_mel(torch.from_numpy(tone(1000)).float(), RATE, 64)
    assert torch.allclose(vary_sound.warp(x, 1.0, RATE), x, atol=1e-3)
    expected = log_mel(torch.from_numpy(tone(800)).float(), RATE, 64).mean(0).argmax()
    moved = vary_sound.warp(x, 0.8, RATE).mean(0).argmax()
    assert abs(int(moved) - int(expected)) <= 1


def test_masks_hide_bands_and_frames():
    torch.manual_seed(0)
    x = torch.ones(100, 50)
    for axis in (0, 1):
        hidden = [(vary_sound.mask(x, 0.2, axis) == 0).all(1 - axis).sum() for _ in range(50)]
        assert 0 < max(hidden) <= 0.2 * x.shape[axis]


# ---------------------------------------------------------------- sources


@pytest.fixture
def tones(tmp_path: Path) -> Path:
    """Class folders: 8 low and 8 high tones, at two rates, by 4 players, with metadata.csv."""
    rows = ["file_name,label,player,length"]
    for label, hertz in (("low", 300), ("high", 2000)):
        for i in range(8):
            name = f"{label}/{i}.{'flac' if i % 2 else 'wav'}"
            rate = 8000 if i % 3 else 16000
            write(tmp_path / "tones" / name, tone(hertz + 10 * i, 0.2 + 0.02 * i, rate), rate)
            rows.append(f"{name},{label},p{i % 4},{i}")
    (tmp_path / "metadata.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "tones"


def with_metadata(folder: Path) -> Path:
    (folder.parent / "metadata.csv").rename(folder / "metadata.csv")
    return folder


def test_class_folders_of_sounds(tones: Path):
    (tones / "low" / "notes.txt").touch()
    splits = data.splits(config(train=tones), 0, "sound")
    assert splits.labels == ("high", "low") and splits.val is not None
    assert (len(splits.train), len(splits.val)) == (12, 4)
    assert noted(splits, "left out, not sounds by their ending: 1 (low/notes.txt)")
    assert noted(splits, "train: 12 sounds of 2 classes")
    with pytest.raises(
        UserError, match=r"sub-folder of pictures per class; .*hold no pictures, only"
    ):
        data.splits(config(train=tones), 0, "picture")


def test_a_folder_with_metadata_is_a_table(tones: Path):
    folder = with_metadata(tones)
    splits = data.splits(config(train=folder, group="player"), 0, "sound")
    assert noted(splits, "sounds are in the column 'file_name'") and splits.labels == (
        "high",
        "low",
    )
    assert noted(splits, "sounds of train (0.25), whole groups by player: p")
    assert len(splits.val) == 4 and splits.train.items[0].parent.parent == folder
    again = data.held_out(config(test=folder, train=folder), splits.labels, "sound")
    assert len(again.test) == 16


def test_split_folders_with_metadata_each(tones: Path, tmp_path: Path):
    top = tmp_path / "top"
    top.mkdir()
    with_metadata(tones).rename(top / "train")
    write(top / "test" / "a.wav", tone(300))
    (top / "test" / "metadata.csv").write_text("file_name,label\na.wav,low\n")
    splits = data.splits(config(train=top), 0, "sound")
    assert len(splits.test) == 1 and splits.test.items[0] == top / "test" / "a.wav"
    assert splits.train.items[0].is_file() and len(splits.train) == 12


def test_a_table_of_paths_and_one_of_bytes(tones: Path):
    import pyarrow as pa
    from pyarrow import parquet

    table = tones.parent / "mine.csv"
    rows = (tones.parent / "metadata.csv").read_text().splitlines()[1:]
    lines = [f"tones/{name},{label}" for name, label, *_ in (row.split(",") for row in rows)]
    table.write_text("\n".join(["clip,class", *lines]) + "\n")
    by_path = data.splits(config(train=table), 0, "sound")
    cells = [
        {"bytes": (tones.parent / line.split(",")[0]).read_bytes(), "path": None} for line in lines
    ]
    labels = [line.split(",")[1] for line in lines]
    file = tones.parent / "mine.parquet"
    audio = {"audio": {"_type": "Audio"}, "label": {"dtype": "string", "_type": "Value"}}
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})  # as `datasets` writes them
    columns = {"audio": pa.array(cells, kind), "label": pa.array(labels)}
    facts = {"huggingface": json.dumps({"info": {"features": audio}})}
    parquet.write_table(pa.table(columns).replace_schema_metadata(facts), file)
    by_bytes = data.splits(config(train=file), 0, "sound")
    assert by_path.labels == by_bytes.labels and by_path.train.digests == by_bytes.train.digests
    assert isinstance(by_bytes.train.items[0], bytes)
    raw = {"sound": [cell["bytes"] for cell in cells], "label": labels}
    parquet.write_table(pa.table(raw), file)
    assert data.splits(config(train=file), 0, "sound").train.digests == by_path.train.digests


def test_bad_rows_are_named_by_their_file(tones: Path):
    folder = with_metadata(tones)
    (folder / "low" / "3.flac").write_text("no sound")
    (folder / "high" / "0.wav").unlink()
    says = (
        r"2 of 16 cannot be read \(tones row 4 \(low/3.flac\): format not recognised, tones row 9"
    )
    with pytest.raises(UserError, match=says):
        data.splits(config(train=folder), 0, "sound")
    splits = data.splits(config(train=folder, on_bad="skip"), 0, "sound")
    assert len(splits.skipped) == 2 and noted(splits, "left out 2 rows")


def test_a_group_needs_a_table(tones: Path):
    with pytest.raises(UserError, match=r"data\.group takes a column of a table, such as metadata"):
        data.splits(config(train=tones, group="player"), 0, "sound")


def test_the_same_sound_on_two_sides_is_noted(tones: Path, tmp_path: Path):
    write(tmp_path / "test" / "low" / "again.wav", tone(300, 0.2, 16000), 16000)
    splits = data.splits(config(train=tones, test=tmp_path / "test"), 0, "sound")
    assert noted(splits, "1 of 1 sounds of test are also in", "sample for sample")


def test_a_picture_folder_with_metadata(tmp_path: Path):
    from PIL import Image

    for i in range(8):
        Image.new("RGB", (8, 8), (30 * i, 0, 0)).save(tmp_path / f"{i}.png")
    rows = [f"{i}.png,{'dark' if i < 4 else 'light'}" for i in range(8)]
    (tmp_path / "metadata.csv").write_text("\n".join(["file_name,label", *rows]) + "\n")
    splits = data.splits(config(train=tmp_path), 0, "picture")
    assert splits.labels == ("dark", "light") and len(splits.train) == 6


# ---------------------------------------------------------------- models


def flags(tones: Path, run: Path, **more: object) -> dict[str, object]:
    return {
        "data.train": str(tones), "data.val": 0.25, "data.rate": 8000, "data.seconds": 0.5,
        "data.mels": 16, "run.epochs": 1, "run.global_batch": 8, "run.dir": str(run),
        "hw.accelerator": "cpu", "hw.precision": "fp32", "hw.workers": 0, **more,
    }  # fmt: skip


SMALL = {"model.adapter.dim": 32, "model.backbone.dim": 32, "model.backbone.depth": 1}
FRAMES = """
recipe: audio_classify
data: {augment: strong}
model:
  adapter: {dim: 32, stem: conv}
  backbone: {dim: 32, depth: 1, heads: 2, position: rope}
  head: {pool: mean}
optim: {lr: 1e-3}
run: {}
"""


def test_frames_get_sounds_of_any_length(tones: Path, tmp_path: Path):
    (tmp_path / "frames.yaml").write_text(FRAMES)
    result = training.train(tmp_path / "frames.yaml", flags(tones, tmp_path / "run"))
    model = zoo.load(result.folder / "model")
    prepare = model.record.preprocess
    assert isinstance(prepare, PrepareSound) and not prepare.fixed and len(prepare.mean) == 16
    assert model.adapter.config.channels == 16
    rows = data.splits(config(train=tones), 0, "sound").train
    frames = torch.cat([prepare(item) for item in rows.items])
    assert torch.allclose(frames.mean(0), torch.zeros(16), atol=1e-3)
    assert torch.allclose(frames.std(0), torch.ones(16), atol=0.05)


def test_patches_get_sounds_of_one_length_and_predict_by_name(tones: Path, tmp_path: Path, capsys):
    given = {**flags(tones, tmp_path / "run"), **SMALL}
    training.train("audio_classify/small_scratch", given)
    model = zoo.load(tmp_path / "run" / "model")
    assert model.record.preprocess.fixed and model.adapter.config.size == (16, 48)
    capsys.readouterr()
    (tones / "bad.wav").write_text("no sound")
    words = ["predict", str(tmp_path / "run"), str(tones), "--format", "jsonl"]
    assert cli.main(words) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 17 and rows[0]["error"] == "format not recognised"
    assert {row["label"] for row in rows[1:]} <= {"low", "high"}
    assert model.predict(rows[1]["file"])["label"] == rows[1]["label"]
    with pytest.raises(UserError, match="a sound must be"):
        model.predict(str(tones / "bad.wav"))


def test_a_family_of_spectrograms_is_trained_by_its_name(tones: Path, tmp_path: Path):
    named = FRAMES.replace("adapter: {dim: 32, stem: conv}", "name: ast_mu")
    (tmp_path / "ast.yaml").write_text(
        "\n".join(x for x in named.splitlines() if "  back" not in x and "  head" not in x)
    )
    given = {**flags(tones, tmp_path / "run"), "data.mels": 32}
    model = zoo.load(training.train(tmp_path / "ast.yaml", given).folder / "model")
    assert model.adapter.config.size == (32, 48) and model.record.preprocess.fixed


@pytest.mark.parametrize("mix", ["mixup", "cutmix"])
def test_sounds_of_one_length_are_mixed(tones: Path, tmp_path: Path, mix: str):
    given = {**flags(tones, tmp_path / "run"), **SMALL, "data.mix": mix}
    result = training.train("audio_classify/small_scratch", given)
    assert 0 <= result.metrics["val"]["accuracy"] <= 1


def test_sounds_of_their_own_lengths_are_not_mixed(tones: Path, tmp_path: Path):
    (tmp_path / "frames.yaml").write_text(FRAMES)
    given = {**flags(tones, tmp_path / "run"), "data.mix": "mixup"}
    with pytest.raises(UserError, match="mix takes sounds of one length"):
        training.train(tmp_path / "frames.yaml", given)
    assert not (tmp_path / "run").exists()


def test_other_adapters_are_refused(tones: Path, tmp_path: Path):
    given = {**flags(tones, tmp_path / "run"), **SMALL, "model.adapter.kind": "Patches"}
    with pytest.raises(
        UserError,
        match="adapter of frames, SpectrogramPatches or Frames; got Patches, which takes pixels",
    ):
        training.train("audio_classify/small_scratch", given)


def test_importing_inputs_brings_no_sound_library():
    code = "import sys, zoo.inputs.sound, zoo.inputs.vary_sound, zoo.data; print([m for m in ('soundfile', 'torchaudio') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_read_sound_says_its_rate():
    file = io.BytesIO()
    soundfile.write(file, tone(rate=8000), 8000, format="WAV")
    wave, rate = read_sound(file.getvalue())
    assert rate == 8000 and len(wave) == 8000


@pytest.mark.parametrize("own", [99_991, 11_127, 44_100])
def test_rates_without_a_common_divisor_are_resampled_at_once(own: int):
    """The exact kernel would take gigabytes; the tone stays where it is."""
    file = io.BytesIO()
    soundfile.write(file, tone(rate=own), own, format="WAV")
    wave = decode_sound(file.getvalue(), 16000)
    assert abs(len(wave) - 16000) <= 2
    spectrum = torch.fft.rfft(wave).abs()
    assert abs(spectrum.argmax().item() * 16000 / len(wave) - 440) <= 1


@pytest.mark.parametrize("rate", [3, 2_000_000_000])
def test_a_rate_of_no_sound_is_refused(rate: int):
    file = io.BytesIO()
    soundfile.write(file, tone(rate=8000), 8000, format="WAV")
    data = file.getvalue()
    odd = data[:24] + rate.to_bytes(4, "little") + data[28:]
    with pytest.raises(UserError, match="is that of no sound"):
        decode_sound(odd, 16000)


def test_a_device_is_not_read_for_ever():
    with pytest.raises(UserError, match="it is no regular file"):
        decode_sound("/dev/zero", 16000)
    with pytest.raises(UserError, match="it is no regular file"):
        decode_image("/dev/zero")


def test_a_sound_beyond_float32_is_named_and_stops_no_other(tmp_path: Path):
    """Its samples are finite, their power is not."""
    loud = write(tmp_path / "loud.wav", np.full(8000, 1e38), subtype="FLOAT")
    with pytest.raises(SoundError, match=r"loud.wav is not: its sample 0 \(at 0.000 s\) is 1e\+38"):
        PrepareSound()(loud)
    assert "1e+38" in look_at_sound(loud).reason
    most = write(tmp_path / "most.wav", np.where(tone() > 0, 1e12, -1e12), subtype="DOUBLE")
    assert bool(PrepareSound(mels=8)(most).isfinite().all())


def test_sounds_of_one_length_are_of_a_bearable_one():
    with pytest.raises(OptionError, match=r"at most 30000 windows, 300 s; got data.seconds 36000"):
        PrepareSound(seconds=36000).fitted(keeps=False)
    assert not PrepareSound(seconds=36000).fitted(keeps=True).fixed
    assert PrepareSound(seconds=60).fitted(keeps=False).fixed


def test_bytes_that_only_begin_like_an_mp3_are_told_as_such():
    noise = np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8).tobytes()
    with pytest.raises(SoundError, match="is not: format not recognised"):
        read_sound(b"\xff\xfb\x90\x00" + noise)
