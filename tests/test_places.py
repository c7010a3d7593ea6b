"""Where models are written to and read from: names that are none, rights, and what is already there."""

import json
import os
import shutil
import stat
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import zoo
from zoo.errors import UserError
from zoo.loading import Make, fitting

NAME = "vit_mu_patch8_32"
PLACES = {"~nosuch/x": "home", "a" * 300: "name too long", f"m/{'a' * 300}": "name too long",
          "a\0b": "null"}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("layout", [None, "zoo", "timm"])
def test_what_can_be_no_path_is_one_sentence(place, layout, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    with pytest.raises(UserError) as error:
        if layout is None:
            zoo.load(place)
        else:
            zoo.create(NAME, classes=2).save(place, layout=layout)
    said, verb = str(error.value), "load" if layout is None else "save"
    assert said.startswith(f"{verb} takes a folder") and PLACES[place] in said.lower()
    assert "\0" not in said and "\n" not in said and len(said) < 400
    assert [*tmp_path.rglob("*")] == [tmp_path / "m"]


@pytest.mark.parametrize("mask", [0o022, 0o002, 0o077])
@pytest.mark.parametrize("layout", ["zoo", "timm", "hf", "torchvision"])
def test_a_folder_has_the_rights_of_any_other(layout, mask, tmp_path):
    before = os.umask(mask)
    try:
        folder = zoo.create(NAME, classes=2).save(tmp_path / "m", layout=layout)
    finally:
        os.umask(before)
    rights = {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert rights == {0o666 & ~mask} and stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~mask


@pytest.mark.parametrize(
    "there",
    [
        {"config.json": '{"model_type": "vit"}', "pytorch_model.bin": "x"},
        {"config.json": '{"architecture": "vit_tiny_patch16_224"}'},
        {"config.json": "[1]"},
        {"config.json": "{broken"},
        {"model.safetensors": None},
    ],
    ids=str,
)
def test_a_model_of_another_library_stays(there, tmp_path):
    (tmp_path / "m").mkdir()
    for name, text in there.items():
        if text is None:
            save_file({"x": torch.ones(2)}, tmp_path / "m" / name, {"format": "pt"})
        else:
            (tmp_path / "m" / name).write_text(text)
    before = {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()}
    with pytest.raises(
        UserError, match=r"without another library's model, .*m holds such: name an"
    ):
        zoo.create(NAME, classes=2).save(tmp_path / "m")
    assert {file.name: file.read_bytes() for file in (tmp_path / "m").iterdir()} == before


def test_a_save_that_was_killed_half_way_is_read_whole(tmp_path, monkeypatch):
    zoo.create(NAME, classes=2).save(tmp_path / "m[1]")
    moved, real = [], os.replace

    def killed(source, target):
        moved.append(target)
        if len(moved) == 2:  # the weights are new, the config is not
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", killed)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # what a kill leaves too
    with pytest.raises(KeyboardInterrupt):
        zoo.create(NAME, classes=5).save(tmp_path / "m[1]")
    monkeypatch.undo()
    assert zoo.load(tmp_path / "m[1]").head.config.classes == 5
    assert zoo.load(zoo.create(NAME, classes=3).save(tmp_path / "m[1]")).head.config.classes == 3


def test_here_is_a_folder_too(tmp_path, monkeypatch):
    model = zoo.create(NAME, classes=2)
    for layout in ("zoo", "timm"):
        (tmp_path / layout).mkdir()
        monkeypatch.chdir(tmp_path / layout)
        model.save(".", layout=layout)
        monkeypatch.chdir(tmp_path / layout)  # which may be another by now
        assert zoo.load(".").head.config.classes == zoo.load(Path()).head.config.classes == 2


def test_what_may_not_be_read_is_told_so(tmp_path, monkeypatch):
    zoo.create(NAME, classes=2).save(tmp_path / "m", layout="timm")
    shut = {tmp_path / "m" / "model.safetensors"}
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, how: path not in shut and may(path, how))
    with pytest.raises(UserError, match="may not be read: give yourself the right to"):
        zoo.load(tmp_path / "m")
    shut.add(tmp_path / "m")
    for use in (zoo.load, zoo.create(NAME, classes=2).save):
        with pytest.raises(UserError, match="it may not be entered"):
            use(tmp_path / "m")


def test_our_own_is_written_over_also_where_half_of_it_was(tmp_path):
    model = zoo.create(NAME, classes=2)
    model.save(tmp_path / "m")
    (tmp_path / "m" / "notes.txt").write_text("mine")
    model.save(tmp_path / "m")
    (tmp_path / "m" / "config.json").unlink()  # the weights are written first
    assert zoo.load(model.save(tmp_path / "m")).record.name == NAME
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.safetensors"])
def test_a_broken_config_is_told_before_weights_of_another_name(weights, tmp_path):
    state = {k: v.detach().clone() for k, v in zoo.create(NAME, 2).state_for("timm").items()}
    save = save_file if weights.endswith("safetensors") else torch.save
    save(state, tmp_path / weights)
    (tmp_path / "config.json").write_text('{"architecture": ')
    with pytest.raises(UserError, match=r"config.json is not readable JSON: ") as error:
        zoo.load(tmp_path)
    assert "has no" not in str(error.value)


def test_many_unknown_keys_are_told_soon(tmp_path):
    """The time does not grow with the rules of what is carried, as of a decoder or a text tower."""
    name = "vit_mu_patch8_clip_32"
    state = {k: v.detach().clone() for k, v in zoo.create(name).state_for("timm").items()}
    state |= {f"x{i}.weight": torch.ones(1) for i in range(30_000)}
    start = time.process_time()
    with pytest.raises(UserError, match="30000 differ from the nearest, timm"):
        fitting(Make(name, {}), state, None, tmp_path)
    assert time.process_time() - start < 3


def test_the_config_of_ours_says_so(tmp_path):
    folder = zoo.create(NAME, classes=2).save(tmp_path / "m")
    assert json.loads((folder / "config.json").read_text())["zoo"] == 1
