"""Packages from outside: a working adapter and family are found, broken ones are listed."""

import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch
from PIL import Image

import zoo
from zoo import cli, extend, training
from zoo.errors import UserError

CODE = '''
from dataclasses import dataclass
import torch
from torch import nn
from zoo import Tokens
from zoo.adapters import FramesConfig
from zoo.families import Family
from zoo.heads import Classify
from zoo.nn import Part
from zoo.nn.backbone import one_stage
from zoo.adapters import PatchesConfig


@dataclass(frozen=True, kw_only=True)
class PointsConfig:
    dim: int
    axes: int = 3


class Points(Part):
    """(B, T, axes) -> Tokens of (B, T, D)."""

    api = 1
    Config = PointsConfig

    def __init__(self, config=None, /, **fields):
        c = self.configure(config, fields)
        self.dim, self.has_class = c.dim, False
        self.stem = nn.Linear(c.axes, c.dim)

    def forward(self, points):
        return Tokens(self.stem(points))


class Old(Points):
    Config = PointsConfig
    api = 0


def build(dim, depth, classes=2):
    return (PatchesConfig(dim=dim, size=32, patch=8), one_stage(dim=dim, depth=depth, heads=2), None)


@dataclass(frozen=True)
class CentresConfig:
    dim: int
    classes: int
    target: str = "label"
    sharp: float = 1.0


class Centres(Part):
    """Tokens -> how near their mean is to a centre of each class."""

    api = 1
    Config = CentresConfig

    def __init__(self, config=None, /, **fields):
        c = self.configure(config, fields)
        self.dim = c.dim
        self.centres = nn.Parameter(torch.randn(c.classes, c.dim))

    def forward(self, tokens):
        away = tokens.x.mean(1)[:, None] - self.centres
        return -self.config.sharp * away.square().mean(-1)

    def loss(self, answer, batch, smoothing=0.0):
        total = nn.functional.cross_entropy(answer.float(), batch["target"], reduction="sum")
        return {"loss": (total, torch.tensor(len(answer)))}


@dataclass(frozen=True)
class LooseConfig:
    dim: int


class Loose(Centres):
    Config = LooseConfig


class Bare:
    pass


class Plain(Points):
    Config = Bare


@dataclass(frozen=True, kw_only=True)
class WideConfig:
    dim: int
    channels: int


class Narrow(Part):
    """Without a dim."""

    api = 1
    Config = WideConfig

    def __init__(self, config=None, /, **fields):
        self.configure(config, fields)

    def forward(self, frames):
        return Tokens(frames)


@dataclass(frozen=True, kw_only=True)
class NamedConfig(WideConfig):
    word: str = "a"
    channels: int | None


class Late(Narrow):
    """Without one too, which can be told when it is made alone."""

    Config = NamedConfig


@dataclass(frozen=True, kw_only=True)
class FailsConfig(WideConfig):
    word: str = "a"


class Fails(Narrow):
    Config = FailsConfig

    def __init__(self, config=None, /, **fields):
        self.configure(config, fields)
        raise RuntimeError("boom\\nand more")


@dataclass(frozen=True, kw_only=True)
class TensorsConfig(WideConfig):
    word: str = "a"


class Tensors(Narrow):
    Config = TensorsConfig

    def __init__(self, config=None, /, **fields):
        c = self.configure(config, fields)
        self.dim, self.has_class = c.dim, False
        self.stem = nn.Linear(c.channels, c.dim)

    def forward(self, frames, keep=None):
        return self.stem(frames)


AGAIN = Family("again", {"vit_tiny_patch16_224": dict(dim=16, depth=1)}, build, {})
TWICE = Family("twice", {"dot_mu": dict(dim=16, depth=1)}, build, {})
DOT = Family("dot", {"dot_mu": dict(dim=16, depth=1)}, build, {})
NOTHING = 5
'''
POINTS = {
    "zoo.adapters": [
        ("Points", "outside_parts:Points"),
        ("Patches", "outside_parts:Points"),
        ("Old", "outside_parts:Old"),
        ("Gone", "outside_parts:Gone"),
        ("Dots", "outside_parts:Points"),
        ("Absent", "no_such_module:X"),
        *(
            (name, f"outside_parts:{name}")
            for name in ("Plain", "Narrow", "Late", "Fails", "Tensors")
        ),
    ],
    "zoo.families": [
        ("dot", "outside_parts:DOT"),
        ("five", "outside_parts:NOTHING"),
        ("again", "outside_parts:AGAIN"),
        ("twice", "outside_parts:TWICE"),
    ],
    "zoo.heads": [
        ("Boom", "outside_boom:X"),
        ("Quits", "outside_quits:X"),
        ("Centres", "outside_parts:Centres"),
        ("Loose", "outside_parts:Loose"),
    ],
}


@pytest.fixture
def outside(tmp_path, monkeypatch):
    (tmp_path / "outside_parts.py").write_text(CODE)
    (tmp_path / "outside_boom.py").write_text("raise RuntimeError('boom')\n")
    (tmp_path / "outside_quits.py").write_text("import sys\nsys.exit('needs a licence')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def entry_points(group):
        return [EntryPoint(name, value, group) for name, value in POINTS[group]]

    monkeypatch.setattr(extend, "entry_points", entry_points)
    extend.plugins.cache_clear()
    yield
    extend.plugins.cache_clear()
    sys.modules.pop("outside_parts", None)


def test_a_part_from_outside_stands_in_models_and_files(outside, tmp_path):
    kind = extend.kinds("adapter")["Points"]
    body = zoo.Backbone(dim=16, depth=1, heads=2)
    model = zoo.Model(kind(dim=16), body, zoo.heads.Classify(dim=16, classes=2, pool="mean")).eval()
    points = torch.randn(2, 5, 3)
    model.save(tmp_path / "m")
    assert torch.equal(zoo.load(tmp_path / "m").eval()(points), model(points))
    with pytest.raises(zoo.OptionError, match="Points has no option 'axis'; did you mean 'axes'"):
        kind(dim=16, axis=2)


def test_a_family_from_outside_is_created_by_its_name(outside):
    assert "dot_mu" in zoo.list_models()
    assert zoo.create("dot_mu", depth=2).backbone.config.stages[0].depth == 2


def test_broken_and_clashing_ones_are_listed_and_nothing_else_fails(outside, capsys):
    state = {(p.group, p.name): p.reason for p in extend.plugins()}
    assert state["adapters", "Points"] == state["families", "dot"] == ""
    assert state["adapters", "Patches"] == "omnizoo has that name"
    assert "its api is 0" in state["adapters", "Old"]
    assert "AttributeError" in state["adapters", "Gone"]
    assert state["adapters", "Dots"] == "it calls itself Points: name the entry point so too"
    assert "ModuleNotFoundError" in state["adapters", "Absent"]
    assert "not a Family" in state["families", "five"]
    assert state["heads", "Boom"] == "RuntimeError: boom"
    assert state["heads", "Quits"] == "SystemExit: needs a licence"
    assert zoo.adapters.Patches is extend.kinds("adapter")["Patches"]
    assert zoo.create("vit_mu_patch8_32") is not None
    assert cli.main(["list", "plugins"]) == 0
    said = capsys.readouterr().out
    assert "Points" in said and "RuntimeError: boom" in said and "needs a licence" in said


@pytest.fixture
def flags(tmp_path):
    """A run on dark and on light pictures."""
    draw = np.random.default_rng(0)
    for name, light in (("dark", 60), ("light", 190)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(12):
            values = np.clip(draw.normal(light, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(values).save(tmp_path / "pictures" / name / f"{i}.png")
    return {
        "data.train": str(tmp_path / "pictures"), "data.val": 0.25, "data.augment": "none",
        "model.adapter.size": 16, "model.adapter.patch": 8, "model.adapter.dim": 32,
        "model.backbone.dim": 32, "model.backbone.depth": 1, "run.epochs": 12,
        "run.global_batch": 6, "run.dir": str(tmp_path / "run"), "optim.lr": 3e-3,
        "hw.accelerator": "cpu", "hw.precision": "fp32", "hw.workers": 0,
    }  # fmt: skip


def test_a_head_from_outside_is_trained_saved_and_asked(outside, flags, tmp_path):
    custom, mine = "image_classify/custom", {"model.head.kind": "Centres", "model.head.sharp": 2.0}
    result = training.train(custom, {**flags, **mine})  # whose own head takes a pool
    assert result.metrics["val"]["accuracy"] == 1
    model = zoo.load(tmp_path / "run")
    assert type(model.head).__name__ == "Centres" and model.head.config.sharp == 2
    for name in ("dark", "light"):
        answer = model.predict(tmp_path / "pictures" / name / "0.png")
        assert answer["label"] == name and answer["probabilities"].keys() == {"dark", "light"}
    given = {**flags, "run.dir": str(tmp_path / "other"), "run.epochs": 1}
    with pytest.raises(UserError, match=r"a head with dim, classes and target.*got Loose"):
        training.train(custom, {**given, "model.head.kind": "Loose"})
    with pytest.raises(UserError, match="Centres has no option 'pool'"):
        training.train(custom, {**given, **mine, "model.head.pool": "mean"})
    same = {**given, "model.head.kind": "Classify"}  # keeps what the recipe says of it
    assert training.resolve(custom, same).config.model["head"] == {
        "kind": "Classify", "pool": "mean",
    }  # fmt: skip


def test_what_a_plugin_would_bring_is_asked_for_with_its_reason(outside, tmp_path, capsys):
    body = zoo.Backbone(dim=16, depth=1, heads=2)
    head = zoo.heads.Classify(dim=16, classes=2, pool="mean")
    zoo.Model(extend.kinds("adapter")["Points"](dim=16), body, head).save(tmp_path / "m")
    file = tmp_path / "m" / "config.json"
    for name, hint in {
        "Stretches": r"'Stretches' in .*: install the package that brings it \(`zoo list plugins`\)$",
        "Old": r"'Old' in .*: its api is 0; this version takes 1$",
    }.items():
        file.write_text(file.read_text().replace('"Points"', f'"{name}"'))
        with pytest.raises(zoo.UserError, match=hint):
            zoo.load(tmp_path / "m")
        file.write_text(file.read_text().replace(f'"{name}"', '"Points"'))
    assert cli.main(["show", "image_classify/custom", "--model.head.kind", "Boom"]) == 2
    assert capsys.readouterr().err == (
        "model takes the head.kind of a part; got 'Boom', a plugin that cannot be used: "
        "RuntimeError: boom (--model.head.kind)\n"
    )


def test_import_looks_for_none():
    assert not any("entry_points" in line for line in open(zoo.__file__, encoding="utf-8"))


def test_what_cannot_work_is_listed_with_its_reason(outside):
    state = {(p.group, p.name): p.reason for p in extend.plugins()}
    assert state["adapters", "Plain"] == "its Config is no frozen dataclass"
    assert state["adapters", "Narrow"].startswith("it has no `dim`, the width of its tokens")
    assert state["families", "again"] == "its name vit_tiny_patch16_224 is one of the family vit"
    assert state["families", "twice"] == "its name dot_mu is one of the family dot"
    assert not any(state["adapters", name] for name in ("Late", "Fails", "Tensors"))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("Plain", "a plugin that cannot be used: its Config is no frozen dataclass"),
        ("Fails", r"Fails of the package \? cannot be made, RuntimeError: boom$"),
        ("Late", r"Late of the package \? cannot be used: it has no `dim`"),
        ("Tensors", r"an adapter that gives zoo.Tokens; outside_parts.Tensors gives Tensor$"),
        ("Patches", r"adapter of frames, SpectrogramPatches, Frames, .*Tensors.*; got Patches"),
    ],
)
def test_a_part_that_fails_is_one_sentence(outside, tmp_path, kind, says):
    rows = "\n".join(f"2020-01-{d:02}T{h:02},{d * h % 7}" for d in range(1, 5) for h in range(24))
    (tmp_path / "t.csv").write_text(f"date,value\n{rows}\n")
    given = {"data.train": str(tmp_path / "t.csv"), "data.past": 8, "data.ahead": 2, "run.epochs": 1,
             "model.adapter.kind": kind, "model.adapter.dim": 64, "run.dir": str(tmp_path / "run"),
             "hw.accelerator": "cpu", "hw.precision": "fp32", "hw.workers": 0}  # fmt: skip
    with pytest.raises(UserError, match=says):
        training.train("series_forecast/custom", given)
    assert not (tmp_path / "run").exists()
