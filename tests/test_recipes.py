"""Every recipe: complete, short, runnable in miniature, and every weight of it learns."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from zoo import cli, training
from zoo.training import recipes

NAMES = recipes.names()
LINES = 60
MINIATURE = {"model.name": "vit_mu_patch8_32"}  # what stands in for the model of a recipe


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Two classes of 8 noisy pictures, dark and light; the test folder has 2 of each."""
    root, noise = tmp_path_factory.mktemp("recipes"), np.random.default_rng(0)
    for split, count in (("train", 8), ("test", 2)):
        for name, level in (("dark", 60), ("light", 190)):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.clip(noise.normal(level, 30, (40, 32, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(root / split / name / f"{i}.png")
    return root


def miniature(pictures, folder):
    return {
        **MINIATURE,
        "data.train": str(pictures / "train"),
        "data.test": str(pictures / "test"),
        "run.epochs": 1,
        "run.global_batch": 8,
        "run.dir": str(folder),
        "hw.accelerator": "cpu",
        "hw.precision": "fp32",
        "hw.workers": 0,
    }


def test_there_are_recipes():
    assert "image_classify/vit_tiny_scratch" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_config_is_one_page_that_says_how_to_run_it(name):
    text = recipes.find(name).read_text(encoding="utf-8")
    lines = text.splitlines()
    header = [line for line in lines if line.startswith("#")]
    assert len(lines) <= LINES and lines[0].startswith("# ")
    assert any(f"zoo train {name} " in line for line in header)
    sections = yaml.safe_load(text)
    assert {"data", "model", "optim", "run"} <= sections.keys()  # complete but for the data's place
    assert {"lr", "weight_decay", "warmup"} <= sections["optim"].keys()
    assert {"epochs", "global_batch"} <= sections["run"].keys()
    assert not {"hw", "recipe"} & sections.keys()  # hardware is no part of a recipe's science


@pytest.mark.parametrize("task", sorted({name.split("/")[0] for name in NAMES}))
def test_a_script_is_one_page(task):
    assert len(recipes.scripts()[task].read_text(encoding="utf-8").splitlines()) <= LINES


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_gets_a_gradient(name):
    """So plain DDP, which waits for every gradient, can train it."""
    config = training.resolve(name, {"data.train": "anywhere"}).config
    torch.manual_seed(0)
    model = training.build(config, labels=["a", "b", "c"])
    pixels = torch.randn(2, model.record.preprocess.channels, *model.record.preprocess.size)
    total, _ = model.head.loss(model(pixels), {"target": torch.tensor([0, 2])})["loss"]
    total.backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


@pytest.mark.parametrize("name", NAMES)
def test_a_miniature_runs(name, pictures, tmp_path):
    result = training.train(name, miniature(pictures, tmp_path / "run"))
    assert result.folder == tmp_path / "run" and set(result.metrics) == {"val", "test"}
    assert result.seconds > 0
    assert training.evaluate(result.folder) == result.metrics["test"]


def test_the_script_is_the_same_run_as_the_command(pictures, tmp_path):
    name = "image_classify/vit_tiny_scratch"
    flags = miniature(pictures, tmp_path / "command")
    assert cli.main(["train", name, *(f"--{key}={value}" for key, value in flags.items())]) == 0
    script = recipes.scripts()["image_classify"]
    flags["run.dir"] = tmp_path / "script"
    words = [sys.executable, str(script), "--config", str(recipes.find(name))]
    words += [f"--{key}={value}" for key, value in flags.items()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    one, two = (
        torch.load(tmp_path / kind / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
        for kind in ("command", "script")
    )
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_a_recipe_can_take_another_main(pictures, tmp_path):
    """`zoo copy` gives a script to change; what it returns is the result."""
    seen = []

    def main(config):
        seen.append(config)
        return training.RunResult(Path("nowhere"), {}, 0.0)

    flags = miniature(pictures, tmp_path / "run")
    assert training.train(NAMES[0], flags, main=main).folder == Path("nowhere")
    assert seen == [replace(training.resolve(NAMES[0], flags).config)]
