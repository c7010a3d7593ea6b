"""Packages from outside: a working adapter and family are found, broken ones are listed."""

import sys
from importlib.metadata import EntryPoint

import pytest
import torch

import zoo
from zoo import cli, extend

CODE = '''
from dataclasses import dataclass
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
    ],
    "zoo.families": [("dot", "outside_parts:DOT"), ("five", "outside_parts:NOTHING")],
    "zoo.heads": [("Boom", "outside_boom:X")],
}


@pytest.fixture
def outside(tmp_path, monkeypatch):
    (tmp_path / "outside_parts.py").write_text(CODE)
    (tmp_path / "outside_boom.py").write_text("raise RuntimeError('boom')\n")
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
    assert zoo.adapters.Patches is extend.kinds("adapter")["Patches"]
    assert zoo.create("vit_mu_patch8_32") is not None
    assert cli.main(["list", "plugins"]) == 0
    said = capsys.readouterr().out
    assert "Points" in said and "RuntimeError: boom" in said


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
