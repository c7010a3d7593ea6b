"""Config, its layers and origins, recipes on disk: what is found, what is refused and how."""

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from zoo import training
from zoo.errors import UserError
from zoo.training import config as config_module
from zoo.training import places, recipes
from zoo.training.config import Config, Origin, collect, flatten, nearest, resolve, unflatten
from zoo.training.models import build, make_model
from zoo.training.schema import KEYS
from zoo.training.sections import PRESETS, SECTIONS

VIT = """\
# A small one
data:
  augment: none
model:
  name: vit_mu_patch8_32
  drop_path: 0.1
  head: {pool: mean}
optim:
  lr: 1e-3
run: {epochs: 3, global_batch: 64}
"""
TRAIN = {"data.train": "pictures"}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one recipe, the working folder beside it."""
    top = tmp_path / "house"
    (top / "recipes").mkdir(parents=True)
    (top / "configs" / "image_classify").mkdir(parents=True)
    (top / "recipes" / "image_classify.py").write_text("def main(config):\n    return config\n")
    (top / "recipes" / "_shared.py").write_text("raise RuntimeError\n")
    (top / "configs" / "image_classify" / "vit.yaml").write_text(VIT)
    monkeypatch.setattr(recipes, "folders", lambda: (top / "recipes", top / "configs"))
    monkeypatch.chdir(top)
    return top


def write(house: Path, text: str, name: str = "mine.yaml") -> Path:
    path = house / name
    path.write_text(text)
    return path


def refused(recipe: Any, overrides: dict[str, Any] | None = None) -> str:
    """The sentence that `resolve` refuses with."""
    with pytest.raises(UserError) as caught:
        resolve(recipe, overrides)
    return str(caught.value)


# layers and origins


def test_layers_flag_over_preset_over_recipe_over_default(house: Path):
    given = VIT + "hw: {devices: 4, accelerator: gpu, workers: 3}\n"
    path = write(house, "recipe: image_classify\n" + given)
    flags = TRAIN | {"hw.preset": "cpu", "hw.accelerator": "mps"}
    resolved = resolve(path, flags)
    hw, origins = resolved.config.hw, resolved.origins
    assert (hw.precision, origins["hw.precision"]) == ("auto", Origin("default"))
    assert (hw.workers, origins["hw.workers"]) == (3, Origin("recipe", "mine.yaml:12"))
    assert hw.devices == 1
    assert origins["hw.devices"] == Origin("preset", "hw.preset cpu (--hw.preset)")
    assert (hw.accelerator, origins["hw.accelerator"]) == (
        "mps",
        Origin("flag", "--hw.accelerator"),
    )


def test_a_recipes_own_preset_is_above_what_the_recipe_writes_out(house: Path):
    path = write(house, f"recipe: image_classify\n{VIT}hw: {{preset: cpu, devices: 2}}\n")
    resolved = resolve(path, TRAIN)
    assert (resolved.config.hw.accelerator, resolved.config.hw.devices) == ("cpu", 1)
    assert resolve(path, TRAIN | {"hw.devices": 3}).config.hw.devices == 3
    assert resolved.origins["hw.accelerator"] == Origin("preset", "hw.preset cpu (mine.yaml:12)")
    without = resolve(path, TRAIN | {"hw.preset": None}).config.hw
    assert (without.accelerator, without.devices) == ("auto", 2)
    assert resolve(path, TRAIN | {"hw.preset": "1gpu"}).config.hw.devices == 1


def test_a_metric_that_a_flag_gives_brings_its_own_mode(house: Path):
    """That of a file is meant for the file's metric; a mode that is given with it is kept."""
    mine = write(house, f"recipe: image_classify\n{VIT}select: {{metric: loss, mode: min}}\n")
    assert resolve(mine, TRAIN).config.select.mode == "min"
    resolved = resolve(mine, {**TRAIN, "select.metric": "macro_f1"})
    assert resolved.config.select.mode is None
    assert resolved.locate("select.mode") == ""
    both = {"select.metric": "macro_f1", "select.mode": "min"}
    assert resolve(mine, {**TRAIN, **both}).config.select.mode == "min"
    again = write(house, resolve(mine, TRAIN).config.to_yaml(), "again.yaml")
    assert resolve(again).config.select.mode == "min"


def test_every_value_has_an_origin(house: Path):
    resolved = resolve("image_classify/vit", TRAIN)
    values = flatten(resolved.config.to_dict())
    assert resolved.origins.keys() == values.keys()
    assert resolved.origins["optim.lr"] == Origin("recipe", "configs/image_classify/vit.yaml:9")
    assert resolved.origins["data.train"] == Origin("flag", "--data.train")


def test_flags_come_dotted_or_nested(house: Path):
    dotted = resolve("image_classify/vit", TRAIN | {"optim.lr": 0.5, "model.head.pool": "first"})
    flags = {
        "data": {"train": "pictures"},
        "optim": {"lr": 0.5},
        "model": {"head": {"pool": "first"}},
    }
    nested = resolve("image_classify/vit", flags)
    assert dotted == nested
    assert dotted.config.model["head"] == {"pool": "first"}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("optim.lr", "1e-4", 1e-4),
        ("optim.lr", "1", 1.0),
        ("data.val", "0.25", 0.25),
        ("data.val", "folder", "folder"),
        ("data.test", "null", None),
        ("data.train", "2024", "2024"),
        ("data.val", "12:30", "12:30"),
        ("data.val", "true", "true"),
        ("data.val", "null", None),
        ("run.dir", "2024", "2024"),
        ("run.dir", "null", None),
        ("data.flip", "false", False),
        ("hw.devices", "2", 2),
        ("hw.devices", "auto", "auto"),
        ("optim.betas", "[0.8, 0.9]", (0.8, 0.9)),
        ("optim.clip", "null", None),
        ("select.patience", "3", 3),
        ("run.seed", "4294967295", 4294967295),
    ],
)
def test_text_of_flags_becomes_the_keys_type(house: Path, key: str, text: str, value: Any):
    found = flatten(resolve("image_classify/vit", TRAIN | {key: text}).config.to_dict())[key]
    assert (found, type(found)) == (value, type(value))


def test_paths_and_numpy_numbers_become_plain(house: Path):
    found = resolve(
        "image_classify/vit",
        {"data.train": Path("a/b"), "optim.lr": np.float64(0.5), "model.weights": Path("c")},
    ).config
    assert (found.data.train, type(found.optim.lr), found.model["weights"]) == ("a/b", float, "c")


# the model section


def test_model_options_merge_by_name(house: Path):
    found = resolve("image_classify/vit", TRAIN | {"model.head.classes": 3, "model.drop_path": 0.2})
    expected = {
        "name": "vit_mu_patch8_32",
        "drop_path": 0.2,
        "head": {"pool": "mean", "classes": 3},
    }
    assert found.config.model == expected
    assert list(found.config.model) == ["name", "drop_path", "head"]  # as the recipe has them


def test_a_value_replaces_the_mapping_below_its_name_and_back(house: Path):
    assert resolve("image_classify/vit", TRAIN | {"model.head": None}).config.model["head"] is None
    path = write(house, f"recipe: image_classify\n{VIT.replace('{pool: mean}', 'null')}")
    found = resolve(path, TRAIN | {"model.head.pool": "first"})
    assert found.config.model["head"] == {"pool": "first"}


@pytest.mark.parametrize("order", [1, -1])
def test_options_below_the_name_of_a_kind_join_it(house: Path, order: int):
    flags = {"model.attn.position": "rope", "model.attn.position.base": 100}
    flags = dict([*flags.items()][::order])
    resolved = resolve("image_classify/vit", TRAIN | flags)
    assert resolved.config.model["attn"] == {"position": {"kind": "rope", "base": 100}}
    model = build(resolved.config, ["a", "b"])
    assert model.backbone.config.stages[0].block.attn.position == zoo.nn.Rope(base=100)
    again = write(house, resolved.config.to_yaml())
    assert resolve(again).config.model == resolved.config.model
    assert build(resolve(again).config, ["a", "b"]).backbone.config == model.backbone.config


def test_options_join_the_name_of_a_kind_in_a_recipe(house: Path):
    text = VIT.replace("  head:", "  attn: {position: rope}\n  head:")
    path = write(house, f"recipe: image_classify\n{text}")
    found = resolve(path, TRAIN | {"model.attn.position.base": 100}).config.model
    assert found["attn"] == {"position": {"kind": "rope", "base": 100}}
    found = resolve(path, TRAIN | {"model.attn.position": "alibi"}).config.model
    assert found["attn"] == {"position": "alibi"}


def test_options_below_no_name_are_refused(house: Path):
    assert refused("image_classify/vit", TRAIN | {"model.head": None, "model.head.pool": "x"}) == (
        "model.head takes options below a kind's name; got model.head (--model.head) and "
        "model.head.pool (--model.head.pool): keep one"
    )


def test_another_form_of_model_replaces_the_recipes_with_its_options(house: Path):
    assert resolve("image_classify/vit", TRAIN | {"model.load": "x"}).config.model == {"load": "x"}
    found = resolve("image_classify/vit", TRAIN | {"model.name": "vit_tiny_patch4_32"}).config.model
    assert (found["name"], found["drop_path"]) == ("vit_tiny_patch4_32", 0.1)


def test_two_forms_of_model_are_refused(house: Path):
    assert refused("image_classify/vit", TRAIN | {"model.name": "a", "model.load": "b"}) == (
        "model takes one of name, load, backbone; got model.name (--model.name) and model.load "
        "(--model.load), keep one"
    )


def test_a_model_is_needed(house: Path):
    path = write(
        house, "recipe: image_classify\noptim: {lr: 1}\nrun: {epochs: 1, global_batch: 1}\n"
    )
    assert refused(path, TRAIN) == (
        "image_classify/mine needs a model; give --model.name NAME (`zoo list models`) or "
        "--model.load PATH, or write it in mine.yaml"
    )


def test_model_options_must_be_plain(house: Path):
    assert refused("image_classify/vit", TRAIN | {"model.depth": object()}) == (
        "model.depth takes numbers, text, true, false, null and lists of them; got object "
        "(--model.depth)"
    )


def test_locate_names_line_or_flag(house: Path):
    resolved = resolve("image_classify/vit", TRAIN | {"model.depth": 3})
    assert resolved.locate("drop_path") == "configs/image_classify/vit.yaml:6"
    assert resolved.locate("model.drop_path") == "configs/image_classify/vit.yaml:6"
    assert (
        resolved.locate("head.pool")
        == resolved.locate("head")
        == "configs/image_classify/vit.yaml:7"
    )
    assert resolved.locate("drop_path.rate") == "configs/image_classify/vit.yaml:6"
    assert resolved.locate("depth") == "--model.depth"
    assert resolved.locate("optim.lr") == "configs/image_classify/vit.yaml:9"
    assert resolved.locate("hw.devices") == resolved.locate("nothing") == ""


# refused values


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        ({"optim.lr": "-1"}, "optim.lr takes a number above 0; got -1 (--optim.lr)"),
        ({"optim.lr": float("nan")}, "optim.lr takes a number above 0; got nan (--optim.lr)"),
        ({"optim.lr": float("inf")}, "optim.lr takes a number above 0; got inf (--optim.lr)"),
        ({"optim.lr": None}, "optim.lr takes a number above 0; got null (--optim.lr)"),
        ({"optim.lr": True}, "optim.lr takes a number above 0; got true (--optim.lr)"),
        (
            {"optim.smoothing": 1},
            "optim.smoothing takes a number of at least 0 and below 1; got 1 (--optim.smoothing)",
        ),
        (
            {"optim.warmup": "1.0"},
            "optim.warmup takes a number of at least 0 and below 1; got 1.0 (--optim.warmup)",
        ),
        (
            {"optim.min_lr": 2},
            "optim.min_lr takes a number of at least 0 and of at most 1; got 2 (--optim.min_lr)",
        ),
        (
            {"optim.betas": [0.9, 1]},
            "optim.betas takes [number, number], each of at least 0 and below 1; got [0.9, 1] "
            "(--optim.betas)",
        ),
        (
            {"optim.betas": "0.9"},
            "optim.betas takes [number, number], each of at least 0 and below 1; got '0.9' "
            "(--optim.betas)",
        ),
        (
            {"data.val": 1},
            "data.val takes a number above 0 and below 1, a path or null; got 1 (--data.val)",
        ),
        (
            {"data.val": "1.5"},
            "data.val takes a number above 0 and below 1, a path or null; got 1.5 (--data.val)",
        ),
        (
            {"data.test": "2"},
            "data.test takes a number above 0 and below 1, a path or null; got 2 (--data.test)",
        ),
        ({"data.train": 2024}, "data.train takes text; got 2024 (--data.train); put it in quotes"),
        (
            {"data.augment": "lite"},
            "data.augment takes 'none', 'light' or 'strong'; got 'lite' (--data.augment); did you "
            "mean 'light'?",
        ),
        ({"data.flip": "maybe"}, "data.flip takes true or false; got 'maybe' (--data.flip)"),
        ({"run.epochs": 0}, "run.epochs takes a whole number of at least 1; got 0 (--run.epochs)"),
        (
            {"run.global_batch": 2.5},
            "run.global_batch takes a whole number of at least 1; got 2.5 (--run.global_batch)",
        ),
        (
            {"run.seed": -1},
            "run.seed takes a whole number of at least 0 and of at most 4294967295; got -1 "
            "(--run.seed)",
        ),
        (
            {"select.patience": 0},
            "select.patience takes a whole number of at least 1 or null; got 0 (--select.patience)",
        ),
        (
            {"hw.preset": "gpu"},
            "hw.preset takes 'cpu', '1gpu', 'ddp' or null; got 'gpu' (--hw.preset); did you mean "
            "'1gpu'?",
        ),
        (
            {"hw.devices": "autp"},
            "hw.devices takes a whole number of at least 1 or 'auto'; got 'autp' (--hw.devices); "
            "did you mean 'auto'?",
        ),
        ({"optim.lrr": 1}, "there is no key 'optim.lrr' (--optim.lrr); did you mean 'optim.lr'?"),
        (
            {"optim.learning_rate": 1},
            "there is no key 'optim.learning_rate' (--optim.learning_rate); did you mean "
            "'optim.lr'?",
        ),
        (
            {"optimizer.lr": 1},
            "there is no key 'optimizer.lr' (--optimizer.lr); did you mean 'optim.lr'?",
        ),
        ({"epochs": 1}, "there is no key 'epochs' (--epochs); did you mean 'run.epochs'?"),
        (
            {"hw.xyz": 1},
            "there is no key 'hw.xyz' (--hw.xyz); hw has hw.preset, hw.accelerator, hw.devices, "
            "hw.precision, hw.threads, hw.workers, hw.micro_batch",
        ),
        (
            {"xyz": 1},
            "there is no key 'xyz' (--xyz); the sections are data, optim, run, distill, ema, select, hw, model",
        ),
        ({"optim": 3}, "optim takes keys of its own, such as optim.lr; got 3 (--optim)"),
        ({"model": "vit"}, "model takes keys of its own, such as model.name; got 'vit' (--model)"),
    ],
)
def test_one_sentence_for_a_bad_flag(house: Path, overrides: dict[str, Any], sentence: str):
    assert refused("image_classify/vit", TRAIN | overrides) == sentence


def test_a_missing_key_names_its_flag(house: Path):
    assert refused("image_classify/vit") == (
        "image_classify/vit needs data.train (class folders of files, a table or hf:NAME); "
        "give --data.train VALUE or write it in configs/image_classify/vit.yaml"
    )


def test_nearest_marks_flags():
    assert nearest("lr", mark="--") == "; did you mean '--optim.lr'?"
    assert nearest("optim.lrr", mark="--") == "; did you mean '--optim.lr'?"


@pytest.mark.parametrize(
    ("slip", "key"),
    [
        ("data.epcohs", "run.epochs"),  # and not data.seconds, which is less near
        ("optim.wrokers", "hw.workers"),
        ("data.trian", "data.train"),
        ("run.epohcs", "run.epochs"),
        ("select.metrc", "select.metric"),
    ],
)
def test_a_slip_in_the_wrong_section_finds_the_key(slip: str, key: str):
    assert nearest(slip) == f"; did you mean '{key}'?"


def test_other_names_point_at_keys():
    assert set(config_module.OTHER_NAMES.values()) <= KEYS.keys()


# YAML


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("lr: 1e-3", "lr: fast", "optim.lr takes a number above 0; got 'fast' (mine.yaml:10)"),
        ("lr: 1e-3", "lr: '", "mine.yaml:12: found unexpected end of stream"),
        (
            "lr: 1e-3",
            "lr: 1\n  clip: 2\n  lr: 3",
            "mine.yaml:12: 'lr' is given twice (first in line 10), keep one",
        ),
        (
            "optim:",
            "run: {seed: 1}\noptim:",
            "mine.yaml:12: 'run' is given twice (first in line 9), keep one",
        ),
        (
            "lr: 1e-3",
            "lr: &rate 1\n  clip: *rate",
            "mine.yaml:11: aliases (*name) are not taken, write the value out",
        ),
        (
            "drop_path: 0.1",
            "head.pool: first",
            "mine.yaml:8: 'model.head.pool' is given twice (first in line 7), keep one",
        ),
        (
            "drop_path: 0.1",
            "head.pool.kind: first",
            "mine.yaml:8: 'model.head.pool' and 'model.head.pool.kind' (line 7) exclude each "
            "other, keep one",
        ),
        ("drop_path: 0.1", "? [a, b]\n  : 3", "mine.yaml:7: a key must be plain text"),
        (
            "drop_path: 0.1",
            "drop_path: !!python/object/apply:os.getcwd []",
            "mine.yaml:7: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.getcwd'",
        ),
        (
            "optim:",
            "optim: x\nopt:",
            "optim takes keys of its own, such as optim.lr; got 'x' (mine.yaml:9)",
        ),
        ("lr:", "lrr:", "there is no key 'optim.lrr' (mine.yaml:10); did you mean 'optim.lr'?"),
        (
            "augment: none",
            "augment: None",
            "data.augment takes 'none', 'light' or 'strong'; got 'None' (mine.yaml:4); did you "
            "mean 'none'?",
        ),
        ("augment: none", "flip: no", "data.flip takes true or false; got 'no' (mine.yaml:4)"),
        (
            "epochs: 3",
            "epochs: 010",
            "run.epochs takes a whole number of at least 1; got '010' (mine.yaml:11)",
        ),
    ],
)
def test_one_sentence_with_the_line(house: Path, old: str, new: str, sentence: str):
    text = f"recipe: image_classify\n{VIT}"
    assert old in text
    path = write(house, text.replace(old, new, 1))
    assert refused(path, TRAIN) == sentence


@pytest.mark.parametrize("text", ["", "just words\n", "- a\n- b\n", "# only a comment\n"])
def test_a_file_without_sections_is_refused(house: Path, text: str):
    path = write(house, text)
    assert refused(path) == (
        "mine.yaml must hold sections with keys, such as `optim:` with `lr: 1e-3` below it"
    )


def test_a_file_that_is_nested_too_deep_is_refused(house: Path):
    mine = write(house, f"recipe: image_classify\ndata: {'[' * 20000}\n")
    assert refused(mine) == "mine.yaml cannot be read as YAML text: its values are nested too deep"
    assert places.scalar("[" * 20000) == "[" * 20000


def test_a_file_that_is_no_text_is_refused(house: Path):
    path = house / "mine.yaml"
    path.write_bytes(b"\xff\xfe\x00lr")
    assert refused(path).startswith("mine.yaml cannot be read as YAML text: 'utf-8' codec")
    path.write_bytes(b"optim: \x07\n")
    assert refused(path).startswith("mine.yaml cannot be read as YAML text: unacceptable character")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        ("-.5", -0.5),
        ("3.", 3.0),
        (".inf", float("inf")),
        ("-7", -7),
        ("0", 0),
        ("012", "012"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("true", True),
        ("on", "on"),
        ("yes", "yes"),
        ("null", None),
        ("~", None),
        ("'1'", "1"),
        ("[1, a, 1e-2]", [1, "a", 0.01]),
        ("{a: 1}", {"a": 1}),
        ("[1, 2", "[1, 2"),
        ("e5", "e5"),
        (".", "."),
    ],
)
def test_plain_yaml_values(text: str, value: Any):
    found = places.scalar(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "value",
    [
        "1e-3",
        "no",
        "null",
        "2024-01-01",
        "012",
        "a: b",
        "# x",
        "",
        "ä\n",
        1e-5,
        1e22,
        None,
        [True, "true"],
    ],
)
def test_written_values_are_read_back(value: Any):
    found = places.scalar(places.inline(value))
    assert (found, type(found)) == (value, type(value))


# round trip


def test_saved_configs_run_again(house: Path):
    flags = {
        "data.train": "null",
        "data.test": "0.2",
        "optim.betas": [0.5, 0.6],
        "hw.preset": "cpu",
        "hw.devices": 3,
        "model.labels": ["no", "1e-3", "ä"],
        "model.change": {0: {"window": 7}},
        "model.sizes": (1, 2),
    }
    first = resolve("image_classify/vit", flags)
    again = resolve(write(house, first.config.to_yaml(), "config.yaml"))
    hardware = dataclasses.replace(first.config.hw, preset=None)  # what it stands for is written
    assert (hardware.accelerator, hardware.devices) == ("cpu", 3)
    assert again.config == dataclasses.replace(first.config, hw=hardware)
    assert again.config.recipe == "image_classify/vit"
    assert first.config.model["change"] == {0: {"window": 7}}
    assert first.config.data.train == "null"


def test_configs_are_frozen_and_made_by_hand(house: Path):
    parts = {
        "data": SECTIONS["data"](train="x"),
        "optim": SECTIONS["optim"](lr=1.0),
        "run": SECTIONS["run"](epochs=1, global_batch=2),
    }
    config = Config(recipe="image_classify/mine", model={"name": "vit_mu_patch8_32"}, **parts)
    assert resolve(write(house, config.to_yaml())).config == config
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.optim.lr = 2.0  # type: ignore[misc]


# the schema


def test_every_key_explains_itself():
    for key in KEYS.values():
        assert len(key.help) > 5 and len(key.help) <= 60, key.name
        assert key.wants and key.short
    assert all(kind.__doc__ for kind in SECTIONS.values())


def test_defaults_and_presets_pass_their_own_checks(house: Path):
    for preset in PRESETS:
        found = collect("image_classify/vit", {"hw.preset": preset})
        for key, value in PRESETS[preset].items():
            assert found.values[key] == value
    assert set(KEYS["hw.preset"].choices) == PRESETS.keys()


def test_collect_leaves_open_what_must_be_given(house: Path):
    found = collect("image_classify/vit")
    assert [key for key, v in found.values.items() if v is dataclasses.MISSING] == ["data.train"]


def test_flatten_and_back():
    nested = {"a": {"b": {"c": 1}, "d": {}}, "e": {1: 2}}
    assert flatten(nested) == {"a.b.c": 1, "a.d": {}, "e": {1: 2}}
    assert unflatten(flatten(nested)) == nested


# finding


def test_names_scripts_and_paths(house: Path):
    assert recipes.names() == ["image_classify/vit"]
    assert list(recipes.scripts()) == ["image_classify"]
    assert recipes.find("image_classify/vit") == house / "configs/image_classify/vit.yaml"
    path = write(house, VIT)
    assert recipes.find(path) == recipes.find(str(path)) == path


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ("image_clasify/vit", "no recipe 'image_clasify/vit'; did you mean 'image_classify/vit'?"),
        ("vit", "no recipe 'vit'; did you mean 'image_classify/vit'?"),
        ("xyz", "no recipe 'xyz'; `zoo list recipes` names them"),
        (
            "no.yaml",
            "no.yaml is no file; give a name from `zoo list recipes` or a YAML file's path",
        ),
        (
            "configs",
            "configs is a folder, a recipe is a name or a YAML file; give configs/config.yaml",
        ),
        (
            "../configs/image_classify/vit",
            "no recipe '../configs/image_classify/vit'; did you mean 'image_classify/vit'?",
        ),
    ],
)
def test_unknown_recipes(house: Path, recipe: str, sentence: str):
    assert refused(recipe) == sentence


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "mine.yaml names no script; write `recipe: TASK` in it, one of image_classify"),
        (
            "recipe: image_clasify",
            "recipe takes a task, one of image_classify; got 'image_clasify' (mine.yaml:1); did "
            "you mean 'image_classify'?",
        ),
        ("recipe: ../x", "recipe takes a name TASK or TASK/NAME; got '../x' (mine.yaml:1)"),
        (
            "recipe: /tmp/x.py",
            "recipe takes a name TASK or TASK/NAME; got '/tmp/x.py' (mine.yaml:1)",
        ),
        (
            "recipe: image_classify/../x",
            "recipe takes a name TASK or TASK/NAME; got 'image_classify/../x' (mine.yaml:1)",
        ),
        ("recipe: [1]", "recipe takes a name TASK or TASK/NAME; got [1] (mine.yaml:1)"),
        (
            "recipe: _shared",
            "recipe takes a task, one of image_classify; got '_shared' (mine.yaml:1)",
        ),
    ],
)
def test_recipe_names_only_known_scripts(house: Path, line: str, sentence: str):
    assert refused(write(house, f"{line}\n{VIT}"), TRAIN) == sentence


def test_a_file_of_ones_own_has_its_own_name(house: Path):
    assert resolve(write(house, f"recipe: image_classify\n{VIT}"), TRAIN).config.recipe == (
        "image_classify/mine"
    )
    named = write(house, f"recipe: image_classify/other\n{VIT}")
    assert resolve(named, TRAIN).config.recipe == "image_classify/other"


def test_checkout_wins_over_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "zoo"
    package.mkdir()
    monkeypatch.setattr(recipes, "PACKAGE", package)
    (tmp_path / "recipes").mkdir()  # another distribution's, beside an installed zoo
    assert recipes.folders() == (package / "_recipes", package / "_configs")
    (tmp_path / "pyproject.toml").touch()
    assert recipes.folders() == (tmp_path / "recipes", tmp_path / "configs")


def test_shipped_recipes_are_whole():
    shipped = recipes.names()
    assert shipped
    for name in shipped:
        found = collect(name, {"data.train": "x"})
        assert found.name == name
        assert dataclasses.MISSING not in found.values.values()
        assert len(recipes.find(name).read_text().splitlines()) <= 60


# running and copying


def test_load_gives_main(house: Path):
    main = recipes.load("image_classify/vit")
    assert main("config") == "config"
    assert sys.modules[main.__module__].__file__ == str(house / "recipes" / "image_classify.py")
    with pytest.raises(
        UserError, match=r"no recipe script 'image'.*did you mean 'image_classify'\?"
    ):
        recipes.load("image/vit")
    (house / "recipes" / "empty.py").write_text("main = 3\n")
    with pytest.raises(UserError, match=r"recipes/empty.py defines no main\(config\)"):
        recipes.load("empty")


def test_copies_train_by_path(house: Path):
    script, values = recipes.copy("image_classify/vit", house / "new" / "mine")
    assert script.read_text() == (house / "recipes" / "image_classify.py").read_text()
    copied, shipped = resolve(values, TRAIN), resolve("image_classify/vit", TRAIN)
    assert (copied.config, copied.path) == (shipped.config, values)


def test_copy_keeps_a_recipe_line(house: Path):
    source = house / "configs" / "image_classify" / "vit.yaml"
    source.write_text(f"# A small one\nrecipe: image_classify/vit\n{VIT}")
    values = recipes.copy("image_classify/vit", house / "new")[1]
    assert values.read_text() == source.read_text()


@pytest.mark.parametrize("taken", ["image_classify.py", "vit.yaml"])
def test_copy_never_overwrites(house: Path, taken: str):
    (house / "new").mkdir()
    (house / "new" / taken).write_text("mine")
    with pytest.raises(UserError, match=re.escape(f"new/{taken} exists; give another folder")):
        recipes.copy("image_classify/vit", "new")
    assert [p.name for p in (house / "new").iterdir()] == [taken]


def test_copy_takes_a_folder(house: Path):
    (house / "file").touch()
    with pytest.raises(UserError, match="zoo copy takes a folder to copy into; file is none"):
        recipes.copy("image_classify/vit", "file")
    with pytest.raises(UserError, match="zoo copy takes a folder to copy into; file/x is none"):
        recipes.copy("image_classify/vit", "file/x")


def test_numbers_of_numpy_are_numbers_and_a_nul_is_no_path(tmp_path):
    recipe = "image_classify/vit_tiny_scratch"
    given = {"data.train": "x", "optim.lr": np.float32(0.5), "run.epochs": np.int64(3)}
    config = training.resolve(recipe, given).config
    assert (config.optim.lr, config.run.epochs) == (0.5, 3)
    with pytest.raises(
        UserError, match=r"run.dir takes text or null; got 'a\\x00b'.*: drop the NUL"
    ):
        training.resolve(recipe, {**given, "run.dir": "a\0b"})


def test_what_is_no_recipe_and_no_override_is_one_sentence():
    with pytest.raises(UserError, match="a recipe is a name, or a YAML file's path; got None"):
        training.train(None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"overrides are .* got \[1\]"):
        training.train("image_classify/vit_tiny_scratch", [1])  # type: ignore[arg-type]
    with pytest.raises(UserError, match="evaluate takes the paths of a run and of test data; got"):
        training.evaluate("run", test=0.2)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["none", None, {"kind": "none"}])
def test_none_is_the_word_for_no_part_wherever_there_may_be_none(given: Any):
    """As it is for norms and added positions; also for numbers that may be none."""
    body = {"dim": 16, "depth": 1, "heads": 2, "position": given, "hidden": "none"}
    sections = {"adapter": {"size": 8, "patch": 4, "dim": 16}, "backbone": body}
    block = make_model(sections, ["a", "b"]).backbone.config.stages[0].block
    assert block.attn.position is None and block.mlp.hidden is None
    with pytest.raises(UserError, match="takes heads as a whole number; got 'none'"):
        make_model({**sections, "backbone": {**body, "heads": "none"}}, ["a", "b"])
