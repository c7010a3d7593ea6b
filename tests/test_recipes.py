"""Every recipe: complete, short, runnable in miniature, and every weight of it learns."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import yaml
from PIL import Image

import zoo
from zoo import cli, training
from zoo.training import recipes
from zoo.training.task import Task, inputs_of

NAMES = recipes.names()
LINES = 60


def write_pictures(root):
    """Two classes of 8 noisy pictures, dark and light; the test folder has 2 of each."""
    noise = np.random.default_rng(0)
    for split, count in (("train", 8), ("test", 2)):
        for name, level in (("dark", 60), ("light", 190)):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.clip(noise.normal(level, 30, (40, 32, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(root / split / name / f"{i}.png")
    return {"data.train": root / "train", "data.test": root / "test"}


def write_taught(root):
    """The same, and a teacher of the two classes."""
    teacher = zoo.create("vit_mu_patch8_32", classes=["light", "dark"])
    return {**write_pictures(root), "distill.teacher": teacher.save(root / "teacher")}


def write_texts(root):
    """Two classes of 8 texts, cold and warm; the test table has 2 of each."""
    words = {"cold": ["ice", "snow", "frost"], "warm": ["sun", "sand", "fire"]}
    for split, count in (("train", 8), ("test", 2)):
        rows = [
            f"{w[i % 3]} and {w[(i + 1) % 3]},{n}" for n, w in words.items() for i in range(count)
        ]
        (root / f"{split}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return {"data.train": root / "train.csv", "data.test": root / "test.csv"}


def write_sounds(root):
    """Two classes of 8 noisy tones, low and high; the test folder has 2 of each."""
    noise, time = np.random.default_rng(0), np.arange(4000) / 8000
    for split, count in (("train", 8), ("test", 2)):
        for name, pitch in (("low", 200), ("high", 1500)):
            (root / split / name).mkdir(parents=True)
            for i in range(count):
                wave = 0.3 * np.sin(2 * np.pi * pitch * time) + noise.normal(0, 0.05, len(time))
                soundfile.write(root / split / name / f"{i}.wav", wave, 8000)
    return {"data.train": root / "train", "data.test": root / "test"}


def write_series(root):
    """240 hours of two waves."""
    moments = np.arange(240).astype("datetime64[h]") + np.timedelta64(400_000, "h")
    rows = [f"{t},{np.sin(i / 4):.4f},{np.cos(i / 9) + i / 99:.4f}" for i, t in enumerate(moments)]
    (root / "series.csv").write_text("\n".join(["date,wave,value", *rows]) + "\n")
    return {"data.train": root / "series.csv", "data.label": "value"}


def write_scenes(root):
    """16 dark pictures with a light half, and masks of it; the test folder has 2."""
    noise = np.random.default_rng(0)
    for split, count in (("train", 16), ("test", 2)):
        for part in ("images", "masks"):
            (root / split / part).mkdir(parents=True)
        for i in range(count):
            mask = np.zeros((40, 32 + i), np.uint8)
            mask[: 10 + i] = 1
            pixels = np.clip(
                60 + 130 * mask[..., None] + noise.normal(0, 20, (*mask.shape, 3)), 0, 255
            )
            Image.fromarray(pixels.astype(np.uint8)).save(root / split / "images" / f"{i}.png")
            Image.fromarray(mask).save(root / split / "masks" / f"{i}.png")
    zoo.create("swin_mu_patch4_window4_64", 3).save(root / "swin", layout="timm")
    return {"data.train": root / "train", "data.test": root / "test"}


def write_boxed(root):
    """16 dark pictures with a light square in each, and its number; the test folder has 2."""
    noise = np.random.default_rng(0)
    for split, count in (("train", 16), ("test", 2)):
        for part in ("images", "instances"):
            (root / split / part).mkdir(parents=True)
        for i in range(count):
            ids = np.zeros((40, 32 + i), np.uint8)
            ids[i : i + 20, 8:28] = 5
            pixels = 60 + 130 * (ids[..., None] > 0) + noise.normal(0, 20, (*ids.shape, 3))
            picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
            picture.save(root / split / "images" / f"{i}.png")
            Image.fromarray(ids).save(root / split / "instances" / f"{i}.png")
    zoo.create("swin_mu_patch4_window4_64", 3).save(root / "swin", layout="timm")
    return {"data.train": root / "train", "data.test": root / "test"}


def write_unlabelled(root):
    """16 noisy pictures; the test folder has 2."""
    noise = np.random.default_rng(0)
    for split, count in (("train", 16), ("test", 2)):
        (root / split).mkdir()
        for i in range(count):
            pixels = noise.integers(0, 255, (40, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / split / f"{i}.png")
    return {"data.train": root / "train", "data.test": root / "test", "data.val": 0.2}


# Per task: what writes data, what makes a recipe's model small.
SMALL = {"model.adapter.dim": 32, "model.backbone.dim": 32, "model.backbone.depth": 2}
TASKS = {
    "image_classify": (write_pictures, SMALL),
    "image_distill": (write_taught, {}),
    "audio_classify": (write_sounds, SMALL),
    "text_classify": (write_texts, {**SMALL, "data.vocabulary": 300}),
    "series_forecast": (write_series, {**SMALL, "data.past": 16, "data.ahead": 4}),
    "image_pretrain": (write_unlabelled, {}),
    "image_segment": (write_scenes, {"model.head.channels": 16, "data.crop": 32}),
    "image_detect": (
        write_boxed,
        {"model.head.channels": 32, "model.head.depth": 1, "data.crop": 32},
    ),
}
# And where a recipe's model is of another make.
OTHERS = {
    "image_classify/vit_tiny_scratch": {"model.name": "vit_mu_patch8_32"},
    **{f"image_classify/{name}": {"model.load": "vit"} for name in
       ("vit_base_finetune", "vit_base_lora", "vit_small_probe")},
    "image_classify/swin_tiny_finetune": {"model.load": "swin"},
    "image_distill/vit_tiny": {"model.name": "deit_mu_distilled_patch8_32"},
    "image_classify/swin_tiny_scratch": {
        "model.adapter.dim": 16, "model.adapter.depths": [2, 2], "model.adapter.heads": [1, 2],
    },
    "image_segment/custom": {
        "model.adapter.dim": 16, "model.adapter.depths": [1, 1], "model.adapter.heads": [1, 2],
        "model.adapter.window": [4, 4],
    },
    "image_pretrain/vit_small_mae": {
        "model.name": "vit_mu_patch8_32", "model.head.decoder": 32, "model.head.depth": 1,
    },
    "image_pretrain/swin_tiny_simmim": {"model.name": "swin_mu_patch4_window4_64"},
    "image_segment/swin_tiny_finetune": {"model.load": "DATA/swin"},
    "image_detect/custom": {
        "model.adapter.dim": 16, "model.adapter.depths": [1, 1], "model.adapter.heads": [1, 2],
        "model.adapter.window": [4, 4],
    },
    "image_detect/swin_tiny_finetune": {"model.load": "DATA/swin"},
}  # fmt: skip


# What recipes that tune get, in timm's layout: the tiny siblings of what they ask the Hub for.
PRETRAINED = {"vit": "vit_mu_patch8_32", "swin": "swin_mu_patch4_window4_64"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Flags of data by task, and folders of pretrained models."""
    root = tmp_path_factory.mktemp("recipes")
    flags = {}
    for name, known in PRETRAINED.items():
        torch.manual_seed(0)
        zoo.create(known, classes=5).save(root / name, layout="timm")
        flags[name] = str(root / name)
    for task, (write, _) in TASKS.items():
        (root / task).mkdir()
        flags[task] = {key: str(path) for key, path in write(root / task).items()}
    return flags


def miniature(name, data, folder):
    task = name.split("/")[0]
    own = {}
    for key, value in OTHERS.get(name, {}).items():
        if key == "model.load":
            root = str(Path(data[task]["data.train"]).parent)
            value = data.get(value, value.replace("DATA", root))
        own[key] = value
    if name.endswith("_probe"):
        own["model.size"] = 32
    shared = (
        TASKS[task][1] if task in ("image_segment", "image_detect") or name not in OTHERS else {}
    )
    return {
        **shared,
        **own,
        **data[task],
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
def test_every_weight_gets_a_gradient(name, data, tmp_path):
    """So plain DDP, which waits for every gradient, can train it."""
    flags = miniature(name, data, tmp_path / "run")
    config = training.resolve(name, flags).config
    script = sys.modules[recipes.load(name).__module__]
    torch.manual_seed(0)
    rows = script.splits(config)
    model = script.build(config, rows)
    batch = next(iter(script.loaders(config, rows, model).train_dataloader()))
    total, _ = model.head.loss(Task(model, config)(**inputs_of(batch)), batch)["loss"]
    total.backward()
    learn = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    without = [n for n, g in learn.items() if g is None or not (g.any() or "lora_A" in n)]
    assert learn and without == []  # what a product of zeros follows has a gradient of zeros


@pytest.mark.parametrize("name", NAMES)
def test_a_miniature_runs(name, data, tmp_path):
    result = training.train(name, miniature(name, data, tmp_path / "run"))
    assert result.folder == tmp_path / "run" and set(result.metrics) == {"val", "test"}
    assert result.seconds > 0
    assert training.evaluate(result.folder) == result.metrics["test"]


TWO = """
import json, os, sys, torch
from zoo import training
from zoo.training.task import Task

def remember(task):
    rank = os.environ.get("LOCAL_RANK", "0")
    torch.save(task.model.state_dict(), f"{task.config.run.dir}_{rank}.pt")

Task.on_train_end = remember
for name, flags in json.load(open(sys.argv[1])):
    training.train(name, flags)
"""


def test_two_processes_train_every_recipe(data, tmp_path):
    """Each rank ends with the same weights, and what both measured is what one process measures."""
    runs = [(name, miniature(name, data, tmp_path / name.replace("/", "_"))) for name in NAMES]
    given = [(name, {**flags, "hw.devices": 2}) for name, flags in runs]
    (tmp_path / "runs.json").write_text(json.dumps(given))
    (tmp_path / "two.py").write_text(TWO)
    path = str(Path(zoo.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "two.py", "runs.json"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("s of training") == len(NAMES)  # rank 0 alone speaks
    for _, flags in runs:
        one, two = (torch.load(f"{flags['run.dir']}_{r}.pt", weights_only=True) for r in (0, 1))
        assert one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)
        result = json.loads((Path(flags["run.dir"]) / "result.json").read_text())
        assert result["steps"] >= 2
        again = training.evaluate(flags["run.dir"])
        assert again == pytest.approx(result["test"], rel=1e-4, abs=1e-5)


def test_the_script_is_the_same_run_as_the_command(data, tmp_path):
    name = "image_classify/vit_tiny_scratch"
    flags = miniature(name, data, tmp_path / "command")
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


def test_a_recipe_can_take_another_main(data, tmp_path):
    """`zoo copy` gives a script to change; what it returns is the result."""
    seen = []

    def main(config):
        seen.append(config)
        return training.RunResult(Path("nowhere"), {}, 0.0)

    flags = miniature(NAMES[0], data, tmp_path / "run")
    assert training.train(NAMES[0], flags, main=main).folder == Path("nowhere")
    assert seen == [replace(training.resolve(NAMES[0], flags).config)]
