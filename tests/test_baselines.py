"""What no model reaches is told beside what a model reaches: for every target that one answer can
meet."""

import json
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torch.nn.functional as F
from PIL import Image

import zoo
from zoo.data.masks import baselines as of_masks
from zoo.data.splits import Rows, Splits
from zoo.heads import ClassifyConfig
from zoo.training import train
from zoo.training.baselines import baselines, behind


def rows(targets, classes):
    size = (1,) * len(targets)
    return Rows(Path("x"), tuple(range(len(targets))), tuple(targets), classes, size, size)


def known(target, train, test, classes, **more):
    """The one baseline of test."""
    parts = (rows(train, classes), None, rows(test, classes))
    splits = Splits(tuple("abc"[:classes]), *parts, "", target, **more)
    head = ClassifyConfig(dim=4, classes=classes, target=target)
    found = baselines(splits, zoo.heads.Classify(head))
    assert found.keys() == {"test"} and len(found["test"]) == 1
    return next(iter(found["test"].items()))


def test_classes(monkeypatch):
    monkeypatch.setattr("zoo.training.baselines.CHUNK", 3)
    train, test = [0, 1, 1, 2, 1, 0], [1, 0, 1, 2, 2, 0, 1]
    name, values = known("label", train, test, 3)
    assert name == "always the commonest class"
    assert values["accuracy"] == pytest.approx(3 / 7, abs=1e-6)
    assert values["macro_f1"] == pytest.approx(
        sk.f1_score(test, [1] * 7, average="macro", zero_division=0.0), abs=1e-6
    )
    shares = torch.tensor([2 / 6, 3 / 6, 1 / 6]).log().expand(7, 3)
    assert values["loss"] == pytest.approx(
        F.cross_entropy(shares, torch.tensor(test)).item(), abs=1e-5
    )


def test_several_labels():
    train = [(1, 0), (1, 1), (1, 0), (0, 0)]
    test = [(1, 0), (0, 1), (1, 1)]
    name, values = known("labels", train, test, 2)
    assert name == "always the labels that half of train has"
    assert values["exact_match"] == pytest.approx(1 / 3, abs=1e-6)
    assert values["micro_f1"] == pytest.approx(
        sk.f1_score(test, [(1, 0)] * 3, average="micro"), abs=1e-6
    )


def test_numbers():
    train, test = [(1.0,), (2.0,), (6.0,)], [(3.0,), (5.0,)]
    scale = ((3.0, 2.0),)
    name, values = known("numbers", train, test, 1, scale=scale)
    assert name == "always the mean of train"
    assert values == {"loss": 0.5, "mse": 2.0, "mae": 1.0, "r2": -1.0}


def test_masks():
    def part(*pixels):
        size = (9,) * len(pixels)
        return Rows(Path("x"), pixels, pixels, 3, size, size, (), pixels)

    data = {"train": part((6, 3, 0), (8, 1, 0)), "val": part((1, 8, 0), (9, 0, 0))}
    assert data["train"].pick([1]).pixels == ((8, 1, 0),)
    (values,) = of_masks(data)["val"].values()
    assert values["pixel_accuracy"] == pytest.approx(10 / 18, abs=1e-6)
    assert values["mean_iou"] == pytest.approx(10 / 18 / 2, abs=1e-6)
    shares = -(10 * np.log(14 / 18) + 8 * np.log(4 / 18)) / 18
    assert values["loss"] == pytest.approx(shares, abs=1e-6)
    assert of_masks({"test": data["val"]}) == {}
    unseen = {"train": part((9, 0, 0)), "val": part((0, 9, 0))}
    (values,) = of_masks(unseen)["val"].values()
    assert values["mean_iou"] == 0 and np.isfinite(values["loss"])


def test_without_train_there_is_none():
    head = zoo.heads.Classify(ClassifyConfig(dim=4, classes=2))
    splits = Splits(("a", "b"), None, None, rows([0, 1], 2))
    assert baselines(splits, head) == {}


def test_a_run_tells_them(tmp_path, capsys):
    """In the log, result.json and report.md; and that a model is behind."""
    for split, count in (("train", 6), ("test", 2)):
        for label in ("a", "b"):
            folder = tmp_path / "data" / split / label
            folder.mkdir(parents=True)
            for i in range(count + (label == "b")):
                noise = np.random.default_rng(i + 9 * len(split)).integers(0, 255, (8, 8), np.uint8)
                Image.fromarray(noise).save(folder / f"{i}.png")
    result = train(
        "image_classify/vit_tiny_scratch",
        {
            "data.train": str(tmp_path / "data"), "data.val": None, "model.name": "vit_mu_patch8_32",
            "run.epochs": 1, "run.dir": str(tmp_path / "run"), "hw.workers": 0,
        },
    )  # fmt: skip
    found = json.loads((result.folder / "result.json").read_text())["baselines"]
    values = found["test"]["always the commonest class"]
    assert values["accuracy"] == 0.6 and values.keys() == result.metrics["test"].keys()
    assert "| test, always the commonest class | 5 | " in (result.folder / "report.md").read_text()
    assert "test, always the commonest class: loss " in (result.folder / "log.txt").read_text()
    worse = {"test": {**values, "accuracy": 0.4}}
    select = zoo.training.config.SelectConfig(metric="accuracy", mode="max")
    assert "always the commonest class: 0.6" in behind(worse, found, select)
    assert behind({"test": values}, found, select).startswith("the model is no better than a")
    assert behind({"test": {**values, "accuracy": 0.7}}, found, select) == ""
