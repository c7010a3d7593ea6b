"""What training promises: groups, schedule, windows, metrics, folders, Ctrl-C, two processes."""

import copy
import csv
import io
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console
from sklearn.metrics import accuracy_score, f1_score
from torch import nn

import zoo
from zoo import training
from zoo.data import loader
from zoo.errors import OptionError, UserError
from zoo.nn.mlp import Experts, MlpConfig
from zoo.training import callbacks, console, environment, hardware, report
from zoo.training.baselines import behind
from zoo.training.callbacks import clock
from zoo.training.config import OptimConfig, SelectConfig
from zoo.training.folder import command, make_folder, write_json
from zoo.training.hardware import choose_precision, plan
from zoo.training.metrics import ClassifyMetrics, chosen
from zoo.training.optimise import make_optimizer, make_schedule, parameter_groups, warmup_cosine

RECIPE = "image_classify/vit_tiny_scratch"
COLOURS = {"blue": (30, 60, 220), "green": (40, 200, 60), "red": (220, 50, 40)}
FILES = {
    "checkpoints/best.ckpt",
    "checkpoints/last.ckpt",
    "command.txt",
    "config.yaml",
    "confusion.png",
    "data.json",
    "environment.json",
    "labels.json",
    "learning_curves.png",
    "log.txt",
    "metrics.csv",
    "model/config.json",
    "model/model.safetensors",
    "preprocess.json",
    "report.md",
    "result.json",
}


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """train (3 x 8 pictures), val (3 x 3) and test (3 x 3) folders of noisy blue, green and red."""
    root, noise = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 3), ("test", 3)):
        for name, colour in COLOURS.items():
            folder = root / split / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = np.clip(noise.normal(colour, 60, (32, 32, 3)), 0, 255)
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    return root


@pytest.fixture
def options(pictures, tmp_path):
    """A run of seconds: the smallest model, 24 pictures, fp32."""
    return {
        "data.train": str(pictures),
        "data.augment": "none",
        "model.name": "vit_mu_patch8_32",
        "optim.lr": 3e-3,
        "run.epochs": 2,
        "run.global_batch": 8,
        "run.log_every": 2,
        "run.dir": str(tmp_path / "run"),
        "hw.accelerator": "cpu",
        "hw.precision": "fp32",
        "hw.workers": 0,
    }


def read(file):
    return json.loads(Path(file).read_text())


def column(folder, name):
    """The values that metrics.csv has of one metric."""
    with (Path(folder) / "metrics.csv").open() as rows:
        return [float(row[name]) for row in csv.DictReader(rows) if row[name]]


def weights(folder, name="last"):
    saved = torch.load(Path(folder, "checkpoints", f"{name}.ckpt"), weights_only=True)
    return saved["state_dict"]


def assert_close(one, other):
    """Equal weights but for float error, and for keys' biases: their gradient is 0 but for it."""
    assert one.keys() == other.keys()
    for key, value in one.items():
        difference = (value - other[key]).abs()
        if key.endswith("qkv.bias"):
            difference = difference.view(3, -1)[[0, 2]]
        assert difference.max() < 1e-5, key


# --- optimisation


class Parts(nn.Module):
    """One of each kind that a rule about decay could get wrong."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5, 4)
        self.position = nn.Embedding(5, 4)
        self.position_mlp = nn.Sequential(nn.Linear(2, 4))
        self.table = nn.Parameter(torch.zeros(9, 4))
        self.conv, self.norm, self.scale = (
            nn.Conv1d(4, 4, 3),
            nn.LayerNorm(4),
            nn.Parameter(torch.ones(4)),
        )
        self.experts = Experts(4, MlpConfig(experts=2, bias=False))
        self.out = nn.Linear(4, 5)
        self.out.weight = self.words.weight
        self.frozen = nn.Linear(4, 4).requires_grad_(False)

    def depth_of(self, name):
        return 1


def test_only_weights_of_matrices_decay():
    decay, rest = parameter_groups(Parts(), OptimConfig(lr=0.1, weight_decay=0.2))
    assert {name for name, _ in decay["params"]} == {
        "conv.weight", "experts.router.weight", "experts.up", "experts.down",
    }  # fmt: skip
    assert {name for name, _ in rest["params"]} == {
        "words.weight", "table", "scale", "position.weight", "position_mlp.0.weight", "position_mlp.0.bias",
        "conv.bias", "norm.weight", "norm.bias", "out.bias",
    }  # fmt: skip
    assert (decay["lr"], decay["weight_decay"]) == (0.1, 0.2)
    assert (rest["lr"], rest["weight_decay"]) == (0.1, 0.0)


def test_tables_of_subwords_do_not_decay():
    decay, rest = parameter_groups(
        zoo.create("bert_mu", classes=2), OptimConfig(lr=0.1, weight_decay=0.2)
    )
    tables = {"adapter.embed", "adapter.segment", "adapter.position"}
    assert tables <= {name for name, _ in rest["params"]}
    assert all(name.endswith(".weight") and p.ndim == 2 for name, p in decay["params"])


@pytest.mark.parametrize("stem", ["conv", "linear"])
def test_the_rule_on_a_whole_model(stem):
    model = zoo.create("vit_mu_patch8_32", classes=3, stem=stem, registers=2, layer_scale=0.1)
    decay, rest = parameter_groups(model, OptimConfig(lr=0.1, weight_decay=0.2))
    assert {p.ndim for _, p in decay["params"]} <= {2, 4}
    assert all(name.endswith(".weight") and "norm" not in name for name, _ in decay["params"])
    undecayed = {name for name, _ in rest["params"]}
    assert {"adapter.position", "backbone.norm.weight"} <= undecayed
    assert sum(name.endswith("_scale") for name in undecayed) == 4
    assert len(decay["params"]) + len(rest["params"]) == len(list(model.parameters()))


def test_schedule_rises_falls_and_ends_at_the_least():
    factors = [warmup_cosine(100, 0.1, 0.01)(step) for step in range(100)]
    assert factors[10] == 1.0 == max(factors) and factors[-1] == pytest.approx(0.01)
    assert factors[:10] == pytest.approx([(i + 1) / 11 for i in range(10)])
    assert all(a > b for a, b in pairwise(factors[10:]))
    assert warmup_cosine(1, 0.1, 0.0)(0) == 1.0
    assert warmup_cosine(2, 0.9, 0.0)(1) == 1.0  # warm-up leaves at least the last step


def test_optimizer_is_fused_and_its_groups_carry_the_rate():
    optimizer = make_optimizer(Parts(), OptimConfig(lr=0.5, warmup=0.5, betas=(0.8, 0.9)))
    schedule = make_schedule(optimizer, 4, OptimConfig(lr=0.5, warmup=0.5))
    assert all(g["fused"] and g["betas"] == (0.8, 0.9) for g in optimizer.param_groups)
    seen = []
    for _ in range(4):
        seen.append({group["lr"] for group in optimizer.param_groups})
        optimizer.step()
        schedule.step()
    assert [value for (value,) in seen] == pytest.approx([0.5 / 3, 1 / 3, 0.5, 0.0])


@pytest.mark.parametrize("batch, micro", [(8, 4), (8, 1), (24, 3)])
def test_windows_divide_by_their_true_number_of_samples(options, tmp_path, batch, micro):
    """21 samples: the last window of 8 has 5, in micro-batches of 4 and 1; one of 24 is short."""
    options |= {
        "run.global_batch": batch,
        "data.val": 0.1,
        "data.train": f"{options['data.train']}/train",
    }
    whole = training.train(RECIPE, options)
    parts = training.train(
        RECIPE, {**options, "hw.micro_batch": micro, "run.dir": tmp_path / "parts"}
    )
    assert_close(weights(whole.folder), weights(parts.folder))
    for name in ("train/loss", "train/loss_epoch", "val/loss"):
        assert column(whole.folder, name) == pytest.approx(column(parts.folder, name), abs=1e-5)


def test_a_step_follows_the_gradient_of_the_mean(options, monkeypatch):
    """21 samples in windows of 8, 8 and 5, in micro-batches of 4, 4, 4, 4, 4 and 1."""
    window, sizes = [], []
    step = training.Task.training_step

    def remember(task, batch, index):
        window.append((copy.deepcopy(task.model), batch))
        return step(task, batch, index)

    def compare(parameters, most):
        model, pixels = window[0][0], torch.cat([batch["pixels"] for _, batch in window])
        target = torch.cat([batch["target"] for _, batch in window])
        model.zero_grad()
        nn.functional.cross_entropy(model(pixels), target, label_smoothing=0.1).backward()
        for ours, theirs in zip(parameters, model.parameters(), strict=True):
            assert torch.allclose(ours.grad, theirs.grad, atol=1e-6)
        sizes.append(len(target))
        window.clear()
        return torch.tensor(1.0)

    monkeypatch.setattr(training.Task, "training_step", remember)
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", compare)
    given = {"data.val": 0.1, "data.train": f"{options['data.train']}/train", "hw.micro_batch": 4}
    training.train(RECIPE, {**options, **given})
    assert sizes == [8, 8, 5, 8, 8, 5]


def test_clipping_bounds_the_gradient_of_the_mean(options, monkeypatch):
    norms = []
    clip = nn.utils.clip_grad_norm_

    def spy(parameters, most):
        parameters = list(parameters)
        norms.append((clip(parameters, most).item(), clip(parameters, math.inf).item()))
        return torch.tensor(norms[-1][0])

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", spy)
    training.train(RECIPE, {**options, "optim.clip": 0.01})
    assert all(before > 0.01 >= after - 1e-6 for before, after in norms) and len(norms) == 6


def test_gradients_that_are_not_finite_stop_before_the_weights_move(options, monkeypatch):
    """The loss may be finite, and some gradient not."""
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda *args: torch.tensor(math.nan))
    with pytest.raises(UserError, match="takes finite gradients; got nan at step 1 with lr"):
        training.train(RECIPE, options)


# --- metrics


def test_metrics_agree_with_scikit_learn_over_uneven_batches():
    draw = torch.Generator().manual_seed(0)
    answer, target = torch.randn(50, 6, generator=draw), torch.randint(0, 5, (50,), generator=draw)
    answer[:, 4] = -9  # class 4 is never answered, class 5 is no target
    metrics = ClassifyMetrics(6)
    for start, stop in ((0, 33), (33, 49), (49, 50)):
        part = slice(start, stop)
        total = nn.functional.cross_entropy(answer[part], target[part], reduction="sum")
        metrics.update(answer[part], target[part], total, torch.tensor(stop - start))
    values, best = metrics.compute(), answer.argmax(1)
    assert values["accuracy"] == pytest.approx(accuracy_score(target, best), abs=1e-6)
    assert values["macro_f1"] == pytest.approx(f1_score(target, best, average="macro"), abs=1e-6)
    assert values["loss"] == pytest.approx(
        nn.functional.cross_entropy(answer, target).item(), abs=1e-5
    )
    assert metrics.confusion.sum() == 50 and metrics.confusion.trace() == (target == best).sum()
    metrics.update(answer[:2], target[:2], torch.tensor(2.0), torch.tensor(2))
    assert metrics.compute()["loss"] == 1.0  # it starts anew


def test_accuracy_is_the_quotient_that_a_reader_expects():
    metrics = ClassifyMetrics(2)
    answer, target = torch.eye(2)[[0, 0, 1, 1, 1]], torch.tensor([0, 0, 0, 0, 0])
    metrics.update(answer, target, torch.tensor(0.5), torch.tensor(5))
    assert metrics.compute() == metrics.values
    assert metrics.values == {"loss": 0.1, "accuracy": 0.4, "macro_f1": round(2 / 7, 6)}


def test_many_classes_have_no_confusion_matrix():
    metrics = ClassifyMetrics(101)
    metrics.update(torch.eye(101)[:1], torch.tensor([0]), torch.tensor(1.0), torch.tensor(1))
    assert metrics.compute()["accuracy"] == 1 and metrics.confusion is None


@pytest.mark.parametrize(
    "select, target, says",
    [
        (SelectConfig(metric="acuracy"), "label", "did you mean 'accuracy'"),
        (
            SelectConfig(metric="accuracy"),
            "numbers",
            "takes mse.*got 'accuracy': give null for mse",
        ),
        (
            SelectConfig(metric="loss", mode="max"),
            "labels",
            "select.mode takes min.*--select.mode min$",
        ),
        (
            SelectConfig(mode="max"),
            "numbers",
            "with select.metric mse; got max: the best is the le",
        ),
    ],
)
def test_a_metric_that_cannot_choose_is_refused(select, target, says):
    with pytest.raises(UserError, match=says):
        chosen(select, target)


@pytest.mark.parametrize(
    "target, metric, mode",
    [("label", "accuracy", "max"), ("labels", "macro_f1", "max"), ("numbers", "mse", "min")],
)
def test_each_target_has_a_metric_that_chooses(target, metric, mode):
    assert chosen(SelectConfig(), target) == SelectConfig(metric=metric, mode=mode)
    assert chosen(SelectConfig(metric="loss"), target).mode == "min"


# --- hardware


@pytest.mark.parametrize(
    "can, precision, says",
    [
        ({"amx_bf16": True, "avx512_bf16": True}, "bf16", "AMX"),
        ({"avx512_bf16": True}, "bf16", "AVX-512"),
        ({}, "fp32", "no bf16"),
    ],
)
def test_precision_follows_the_processor(monkeypatch, can, precision, says):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: can)
    chosen, reason = choose_precision("auto", "cpu")
    assert chosen == precision and says in reason
    assert choose_precision("fp32", "cpu") == ("fp32", "as asked")


def test_precision_follows_the_gpu(monkeypatch):
    for has, precision in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation, h=has: h)
        assert choose_precision("auto", "gpu")[0] == precision


@pytest.mark.parametrize(
    "given, wanted",
    [
        ({}, (1, 12, 1)),
        ({"hw.micro_batch": 4}, (1, 4, 3)),
        ({"hw.devices": 2}, (2, 6, 1)),
        ({"hw.devices": 2, "hw.micro_batch": 2}, (2, 2, 3)),
    ],
)
def test_accumulation_is_derived(options, given, wanted):
    config = training.resolve(RECIPE, {**options, "run.global_batch": 12, **given}).config
    p = plan(config)
    assert (p.devices, p.micro_batch, p.accumulate) == wanted
    assert p.devices * p.micro_batch * p.accumulate == 12


@pytest.mark.parametrize(
    "given, says",
    [
        ({"hw.devices": 3}, "multiple of hw.devices; got 8 for 3: give --run.global_batch 9"),
        ({"hw.micro_batch": 3}, "divisor of 8.*got 3: give --hw.micro_batch 2"),
        ({"hw.micro_batch": 100}, "give --hw.micro_batch 8"),
    ],
)
def test_a_batch_that_cannot_be_shared_out_is_refused(options, given, says):
    with pytest.raises(UserError, match=says):
        training.train(RECIPE, {**options, **given})
    assert not Path(options["run.dir"]).exists()


@pytest.mark.parametrize("split", ["val", "test"])
def test_a_split_of_fewer_rows_than_devices_is_refused(options, pictures, tmp_path, split):
    """A process without rows would have no batch."""
    for name in COLOURS:
        few = tmp_path / "few" / name / "0.png"
        few.parent.mkdir(parents=True)
        few.write_bytes((pictures / split / name / "0.png").read_bytes())
    given = {**options, f"data.{split}": str(tmp_path / "few"), "hw.devices": 4}
    says = f"got 4 for 3 of {split}: give --hw.devices 2 or more samples to --data.{split}"
    with pytest.raises(UserError, match=f"hw.devices takes at most .*; {says}"):
        training.train(RECIPE, given)
    assert not Path(options["run.dir"]).exists()


def test_a_device_that_is_not_here_is_refused(options, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"hw.accelerator.*'gpu'.*--hw.accelerator cpu"):
        plan(training.resolve(RECIPE, {**options, "hw.accelerator": "gpu"}).config)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    wants = SimpleNamespace(devices=4)
    with pytest.raises(UserError, match="at most the 2"):
        hardware.count_devices(wants, "gpu")
    wants.devices = "auto"
    assert hardware.count_devices(wants, "gpu") == 2 and hardware.count_devices(wants, "cpu") == 1
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert hardware.count_devices(wants, "gpu") == 1  # a notebook


def test_threads_are_set_and_a_crowded_machine_is_told(options, monkeypatch):
    before = torch.get_num_threads()
    p = plan(training.resolve(RECIPE, {**options, "hw.threads": 3}).config)
    monkeypatch.setattr(os, "getloadavg", lambda: (5.2, 0, 0))
    monkeypatch.setattr(hardware, "cores", lambda: 8)
    try:
        hardware.make_trainer(training.resolve(RECIPE, options).config, p)
        assert torch.get_num_threads() == 3 and str(p).startswith("cpu, 3 threads, fp32 (as asked)")
    finally:
        torch.set_num_threads(before)
    says = "other programs keep about 4 of 8 cores busy: --hw.threads 1 may be faster"
    assert hardware.crowded(p) == says and hardware.crowded(replace(p, threads=1)) == ""
    monkeypatch.setattr(os, "getloadavg", lambda: (4.4, 0, 0))
    assert hardware.crowded(p) == hardware.crowded(replace(p, accelerator="gpu")) == ""


# --- the run folder


def test_the_default_combination_leaves_a_whole_folder(options, capfd, monkeypatch):
    """bf16 with fused AdamW and clipping, as a processor that can will choose by itself."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    options.pop("hw.precision")
    result = training.train(RECIPE, {**options, "run.epochs": 5})
    folder = Path(options["run.dir"])
    assert result.folder == folder
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert {f for f in found if not f.startswith("tensorboard/")} == FILES
    assert any(f.startswith("tensorboard/events") for f in found)

    figures = read(folder / "result.json")
    assert figures["val"] == result.metrics["val"] and figures["test"] == result.metrics["test"]
    assert (figures["epochs"], figures["steps"], figures["interrupted"]) == (5, 15, False)
    assert figures["seconds"] > 0 and "bf16" in figures["hardware"]
    assert figures["test"]["accuracy"] > 0.8  # the colours are easy
    assert read(folder / "labels.json") == ["blue", "green", "red"]
    assert read(folder / "data.json")["counts"] == {
        "train": [8] * 3,
        "val": [3] * 3,
        "test": [3] * 3,
    }
    assert read(folder / "preprocess.json")["size"] == [32, 32]
    assert read(folder / "environment.json")["versions"]["torch"] == torch.__version__.split("+")[0]
    page = (folder / "report.md").read_text()
    assert "val | 9" in page and "of equals the first is kept." in page

    shown = capfd.readouterr()
    lines = shown.out.splitlines()
    assert "bf16 (the processor has AMX for it)" in shown.out
    assert sum("samples/s" in line for line in lines) == 8  # each second of 15 steps, and the last
    assert sum("validation" in line for line in lines) == 5
    assert all(part in lines[-1] for part in ("s of training", str(folder)))
    for name in ("learning_curves.png", "confusion.png"):
        assert f"figure: {folder / name}" in lines
    assert not any(
        word in shown.out + shown.err for word in ("Tip", "available:", "`Trainer", "Warn")
    )
    log = (folder / "log.txt").read_text()
    assert all(line in log for line in lines)


def test_checkpoints_hold_no_pickles_and_the_best_is_exported(options):
    result = training.train(RECIPE, options)
    best, last = weights(result.folder, "best"), weights(result.folder, "last")
    assert best.keys() == last.keys()
    saved = torch.load(result.folder / "checkpoints/best.ckpt", weights_only=True)
    assert "hyper_parameters" not in saved and "optimizer_states" in saved
    model = zoo.load(result.folder / "model")
    assert model.record.labels == ("blue", "green", "red")
    assert all(torch.equal(best[f"model.{k}"], v) for k, v in model.state_dict().items())
    scores = column(result.folder, "val/accuracy")
    assert result.metrics["val"]["accuracy"] == pytest.approx(max(scores), abs=1e-6)


def test_exported_model_evaluates_and_predicts_as_it_was_measured(options, pictures):
    result = training.train(RECIPE, {**options, "run.epochs": 4})
    assert training.evaluate(result.folder) == result.metrics["test"]
    assert training.evaluate(result.folder, pictures / "val") == result.metrics["val"]
    files = sorted((pictures / "test").glob("*/*.png"))
    answers = zoo.load(result.folder / "model").predict(files)
    right = [a["label"] == f.parent.name for a, f in zip(answers, files, strict=True)]
    assert sum(right) / len(right) == pytest.approx(result.metrics["test"]["accuracy"], abs=1e-6)


def test_a_written_config_runs_again_to_the_same_end(options, tmp_path):
    first = training.train(RECIPE, {**options, "data.augment": "light", "model.drop_path": 0.2})
    again = training.train(first.folder / "config.yaml", {"run.dir": tmp_path / "again"})
    assert again.metrics == first.metrics
    one, two = weights(first.folder), weights(again.folder)
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert column(first.folder, "train/loss") == column(again.folder, "train/loss")


def test_runs_have_folders_of_their_own(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options.pop("run.dir")
    one = training.train(RECIPE, {**options, "run.epochs": 1})
    two = training.train(RECIPE, {**options, "run.epochs": 1})
    assert one.folder != two.folder and one.folder.parent == two.folder.parent == Path(
        "runs", RECIPE
    )


@pytest.mark.parametrize("inside", ["run", "runs/deep/run", "."])
def test_a_folder_within_the_data_is_refused(options, inside):
    """Else its figures would be a class of the next training."""
    data = Path(options["data.train"])
    before = sorted(data.rglob("*"))
    place = data / "cat" / "new" if inside == "." else data / inside
    with pytest.raises(UserError, match=r"run.dir takes a folder beside the data; got .* within"):
        training.train(RECIPE, {**options, "run.dir": str(place)})
    assert sorted(data.rglob("*")) == before


def test_a_folder_that_holds_something_is_refused(options, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match=r"run.dir takes.*run, which holds 1 files: give another"):
        training.train(RECIPE, options)
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["thesis.tex"]
    with pytest.raises(UserError, match="a file"):
        training.train(RECIPE, {**options, "run.dir": tmp_path / "run" / "thesis.tex"})
    with pytest.raises(UserError, match="can be written"):
        training.train(RECIPE, {**options, "run.dir": tmp_path / "run" / "thesis.tex" / "below"})


def test_an_error_on_entry_leaves_all_as_it_was(options, tmp_path, monkeypatch):
    """New parents go, a folder keeps its mode, a link stays a link; the error is the true one."""
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    before = sorted(tmp_path.rglob("*"))
    for error in (ValueError("true"), OSError(28, "No space left on device")):

        def broken(*args, e=error):
            raise e

        monkeypatch.setattr(environment, "describe", broken)
        for place in ("link", "target", "deep/er/run"):
            with pytest.raises(ValueError, match=r"true|run\.dir takes.*No space left"):
                training.train(RECIPE, {**options, "run.dir": str(tmp_path / place)})
            assert sorted(tmp_path.rglob("*")) == before
            assert (tmp_path / "target").stat().st_mode & 0o777 == 0o700
            assert "ZOO_RUN_DIR" not in os.environ


def test_parents_that_cannot_all_be_made_are_taken_back(tmp_path):
    with pytest.raises(UserError, match="File name too long"):
        make_folder(tmp_path / "new" / ("x" * 300))
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_no_text_can_be_written(tmp_path):
    write_json(tmp_path / "labels.json", ["a\udcff", "ä"])
    assert json.loads((tmp_path / "labels.json").read_text(encoding="utf-8")) == ["a\udcff", "ä"]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_picture_that_goes_away_leaves_what_there_is(
    options, tmp_path, pictures, capfd, monkeypatch, workers
):
    """The first epoch is validated and kept; then a picture of train is gone."""
    shutil.copytree(pictures, tmp_path / "pictures")
    options |= {"data.train": str(tmp_path / "pictures"), "hw.workers": workers}

    finish = training.Task.on_train_epoch_end

    def lose(task):
        finish(task)
        for file in (tmp_path / "pictures" / "train").glob("*/0.png"):
            file.unlink()

    monkeypatch.setattr(loader, "IN_MEMORY", 0)
    monkeypatch.setattr(training.Task, "on_train_epoch_end", lose)
    with pytest.raises(UserError, match=r"^a picture must be.*0\.png.*") as caught:
        training.train(RECIPE, {**options, "run.epochs": 4})
    assert len(str(caught.value).splitlines()) == 1
    folder = Path(options["run.dir"])
    figures = read(folder / "result.json")
    assert figures["failed"] == str(caught.value) and not figures["interrupted"]
    assert figures["weights"] == "epoch 1" and figures["val"]["accuracy"] >= 0
    assert "failed" in (folder / "report.md").read_text()
    best = weights(folder, "best")
    state = zoo.load(folder / "model").state_dict()
    assert all(torch.equal(best[f"model.{k}"], v) for k, v in state.items())
    said = capfd.readouterr().out.splitlines()[-1]
    assert said.startswith("failed after step") and str(folder / "model") in said


def test_a_broken_checkpoint_is_passed_over(options, monkeypatch):
    """As a full disk leaves it: the last one is taken, and the error itself goes on."""
    step = training.Task.training_step

    def broken(task, batch, index):
        if task.global_step == 4:
            (Path(options["run.dir"]) / "checkpoints/best.ckpt").write_bytes(b"PK")
            raise OSError(28, "No space left on device")
        return step(task, batch, index)

    monkeypatch.setattr(training.Task, "training_step", broken)
    with pytest.raises(OSError, match="No space"):
        training.train(RECIPE, options)
    figures = read(Path(options["run.dir"], "result.json"))
    assert figures["failed"] == "OSError: [Errno 28] No space left on device"
    assert figures["weights"] == "last" and figures["val"] is None
    assert zoo.load(Path(options["run.dir"], "model")).record.labels == ("blue", "green", "red")


def test_a_run_is_evaluated_from_any_folder(options, pictures, tmp_path, monkeypatch):
    monkeypatch.chdir(pictures.parent)
    given = {"data.train": f"{pictures.name}/train", "data.test": f"{pictures.name}/test"}
    result = training.train(RECIPE, {**options, **given, "run.epochs": 1})
    monkeypatch.chdir(tmp_path)
    assert training.evaluate(result.folder) == result.metrics["test"]
    with pytest.raises(
        UserError, match=r"takes --data\.test FOLDER or TABLE; got 0\.2, which is no folder"
    ):
        training.evaluate(result.folder, "0.2")
    (tmp_path / "0.2").symlink_to(pictures / "test")
    assert training.evaluate(result.folder, "0.2") == result.metrics["test"]
    del options["model.name"]
    config = training.resolve(RECIPE, {**options, "model.load": str(result.folder)}).config
    model = training.build(config, ["x", "y"])
    assert model.record.labels == ("x", "y")  # a run's folder will do


NAMES = ("$\\frac$", "a|b", "two\nlines", "猫", "x" * 200, "\udcff", "`<b>`")


def test_names_of_any_kind_stand_in_figures_and_tables(tmp_path):
    counts = torch.eye(len(NAMES), dtype=torch.int64)
    report.draw_confusion(counts, NAMES, "test", tmp_path / "confusion.png")
    assert (tmp_path / "confusion.png").stat().st_size > 0
    counts = {"test": [1] * len(NAMES)}
    data = {"labels": list(NAMES), "rows": {"test": 7}, "counts": counts, "notes": ["a\nb"]}
    result = {
        "recipe": "x/y", "interrupted": False, "failed": None, "val": None, "epochs": 1, "steps": 1,
        "test": {"loss": 1.0}, "seconds": 1.0, "hardware": "cpu", "weights": "last",
    }  # fmt: skip
    report.write_page(tmp_path, result, data, "zoo train x")
    lines = (tmp_path / "report.md").read_text(encoding="utf-8").splitlines()
    rows = lines[lines.index("| class | test |") + 2 :][: len(NAMES)]
    assert all(re.fullmatch(r"\| .+ \| 1 \|", row) for row in rows)
    assert rows[1] == r"| a\|b | 1 |" and rows[2] == "| two lines | 1 |"


@pytest.mark.filterwarnings("ignore:Glyph")
def test_labels_that_the_font_lacks_get_another_font_or_their_numbers(tmp_path, monkeypatch):
    drawn, save = [], Figure.savefig

    def kept(figure, *args, **kwargs):
        ticks = figure.axes[0].get_yticklabels()
        drawn.append([(text.get_text(), text.get_fontfamily()) for text in ticks])
        save(figure, *args, **kwargs)

    def draw(*labels):
        counts = torch.eye(len(labels), dtype=torch.int64)
        note = report.draw_confusion(counts, labels, "test", tmp_path / "confusion.png")
        return note, [text for text, _ in drawn[-1]], drawn[-1][0][1]

    monkeypatch.setattr(Figure, "savefig", kept)
    usual, fonts = report.font_manager.FontProperties().get_name(), report.font_manager
    known = {"DejaVuSans.ttf": {*map(ord, "ab")}}
    monkeypatch.setattr(report, "characters", lambda file: known.get(Path(file).name, set()))
    assert draw("a", "b") == ("", ["a", "b"], [usual])
    note, texts, _ = draw("a", "三角")
    assert note == (
        "no installed font has all characters of the labels: confusion.png shows each by its "
        "number in labels.json, from 0"
    )
    assert texts == ["0", "1"]
    files = [Path(f.fname).name for f in fonts.fontManager.ttflist if f.name == "STIXGeneral"]
    known |= {file: {*map(ord, "三角")} for file in files}
    assert draw("a", "三角") == ("", ["a", "三角"], [usual, "STIXGeneral"])
    monkeypatch.undo()
    assert report.families(["a b…"]) == [usual] and report.characters(fonts.findfont("cmr10"))


def test_a_report_says_how_its_figures_are_meant():
    flags = {"data.train": "x", "optim.smoothing": 0.2}
    config = training.resolve(RECIPE, flags).config
    select = chosen(SelectConfig(metric="loss"), "label")
    assert report.remarks(config, select, "label", True) == [
        "The epoch is that of the least val loss; of equals the first is kept.",
        "Label smoothing (0.2) counts in the training loss only, not in that of val and test.",
    ]
    config = training.resolve(RECIPE, {**flags, "optim.class_weights": "auto"}).config
    assert report.remarks(config, select, "label", False) == [
        "Label smoothing (0.2) counts in the training loss only, not in that of val and test.",
        "Class weights (auto) count in the training loss only, not in that of val and test.",
    ]
    assert len(report.remarks(config, select, "labels", False)) == 1
    config = training.resolve(RECIPE, {**flags, "optim.smoothing": 0}).config
    assert report.remarks(config, select, "label", False) == []
    (line,) = report.remarks(config, select, "numbers", False)
    assert line.startswith("The loss is in train's deviations")


def test_a_model_behind_a_baseline_is_told():
    select = chosen(SelectConfig(), "numbers")
    known = {"val": {"a": {"mse": 2.0}, "b": {"mse": 1.0}}, "test": {"a": {"mse": 1.0}}}
    ours = {"val": {"mse": 1.5}, "test": {"mse": 1.0}}
    assert behind(ours, known, select) == (
        "the model is worse than a baseline on val (mse 1.5; b: 1), and no better than a baseline "
        "on test (mse 1; a: 1)"
    )
    assert behind({"test": {"mse": 0.9}}, known, select) == ""
    assert "worse" in behind({"test": {"mse": math.nan}}, known, select)
    assert behind(ours, {}, select) == ""


def test_the_command_of_a_module_is_zoo(monkeypatch):
    main = Path(training.__file__).parents[1] / "cli" / "__main__.py"
    for program, name in ((str(main), "zoo"), ("bin/zoo", "zoo"), ("a/__main__.py", "__main__.py")):
        monkeypatch.setattr(sys, "argv", [program, "train", "a b"])
        assert command() == f"{name} train 'a b'"


def test_warnings_about_what_is_as_it_should_be_are_left_out():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with console.speaking():
            warnings.warn(
                "Mismatch dtype between input and weight: input dtype = ...", stacklevel=1
            )
            warnings.warn("another", stacklevel=1)
    assert [str(one.message) for one in told] == ["another"]


@pytest.mark.parametrize("existed", [False, True])
def test_an_error_before_the_first_step_leaves_nothing(options, tmp_path, monkeypatch, existed):
    def broken(task, batch, index):
        raise RuntimeError("out of memory")

    if existed:
        (tmp_path / "run").mkdir()
    monkeypatch.setattr(training.Task, "training_step", broken)
    with pytest.raises(RuntimeError, match="out of memory"):
        training.train(RECIPE, options)
    assert [p.name for p in tmp_path.rglob("*")] == (["run"] if existed else [])


def test_an_option_of_the_model_is_refused_with_its_place(options, tmp_path):
    with pytest.raises(UserError, match=r"droppath.*drop_path.*--model.droppath"):
        training.train(RECIPE, {**options, "model.droppath": 0.1})
    config = yaml.safe_load(Path("configs", f"{RECIPE}.yaml").read_text())
    config["model"]["stemm"] = "conv"
    (tmp_path / "mine.yaml").write_text(yaml.dump({"recipe": "image_classify", **config}))
    with pytest.raises(UserError, match=r"stem.*mine.yaml:\d+\)$"):
        training.train(tmp_path / "mine.yaml", options)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.yaml"]


@pytest.mark.parametrize(
    "given", [{}, {"optim.warmup": 0.0, "optim.lr": 1e38, "optim.clip": "null"}]
)
def test_a_loss_that_is_not_finite_stops_with_step_and_rate(options, tmp_path, monkeypatch, given):
    if not given:  # at once, before there is anything to keep
        spoil = lambda self, pixels: self.model(pixels) * math.nan  # noqa: E731
        monkeypatch.setattr(training.Task, "forward", spoil)
    step = 2 if given else 1
    with pytest.raises(UserError, match=rf"finite loss; got \S+ at step {step} with lr \S+: lower"):
        training.train(RECIPE, {**options, **given})
    assert (tmp_path / "run").exists() == bool(given)


def test_patience_ends_training_early(options):
    """With lr 1e-12 nothing changes: the second epoch is no better than the first."""
    given = {"run.epochs": 6, "select.patience": 2, "optim.lr": 1e-12}
    result = training.train(RECIPE, {**options, **given})
    figures = read(result.folder / "result.json")
    assert figures["epochs"] == 3 and figures["weights"] == "epoch 1"
    told = "topped after epoch 3 of 6: 2 epochs without a better loss (select.patience)"
    assert figures["stopped_early"] == f"s{told}"
    assert f"s{told}\n" in (result.folder / "log.txt").read_text()
    assert f"\n\nS{told}.\n\n" in (result.folder / "report.md").read_text()


def test_the_table_has_the_last_step_as_the_log_does(options):
    result = training.train(RECIPE, {**options, "run.epochs": 1, "run.log_every": 2})
    steps, losses = report.read_metrics(result.folder / "metrics.csv")["train/loss"]
    lines = re.findall(r"step (\d+)/\d+  loss (\S+)", (result.folder / "log.txt").read_text())
    assert [int(step) for step, _ in lines] == steps == [2, 3]
    assert [loss for _, loss in lines] == [f"{loss:.4f}" for loss in losses]


def test_only_patience_stops_early():
    select = SelectConfig(metric="macro_f1", mode="max", patience=1)
    progress = object.__new__(callbacks.Progress)
    progress.epochs, progress.select, progress.validations = 4, select, []

    def seen(*values, patience=1):
        progress.select, progress.epochs_done = replace(select, patience=patience), len(values)
        progress.validations = [
            {"epoch": i + 1, "metrics": {"macro_f1": value}} for i, value in enumerate(values)
        ]
        return progress.stopped()

    assert seen() is None and seen(0.1, 0.2) is None and seen(0.2, 0.1, patience=None) is None
    assert seen(0.1, 0.2, 0.3, 0.2) is None  # the last epoch
    told = "stopped after epoch 2 of 4: 1 epoch without a better macro_f1 (select.patience)"
    assert seen(0.2, 0.2) == told and seen(0.2, 0.2, patience=2) is None
    assert seen(0.2, math.nan, patience=2).endswith("of 4: macro_f1 is not a finite number")


def test_without_validation_all_of_train_is_learned_and_the_last_epoch_kept(
    options, pictures, tmp_path
):
    """Else a share of train would be held back, or the best epoch chosen by nothing."""
    given = {"data.train": str(pictures / "train"), "data.val": None, "data.test": None}
    result = training.train(RECIPE, {**options, **given, "run.epochs": 2})
    figures, data = (read(result.folder / name) for name in ("result.json", "data.json"))
    assert figures["weights"] == "last" and figures["epochs"] == 2
    assert list(data["rows"]) == ["train"] and result.metrics == {}
    more = {"run.dir": str(tmp_path / "other"), "select.patience": 2}
    with pytest.raises(UserError, match="patience takes data with a validation split"):
        training.train(RECIPE, {**options, **given, **more})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_checkpoint_a_model_and_130(options, capfd, monkeypatch, pictures, number):
    before = signal.getsignal(signal.SIGINT)
    step = training.Task.training_step

    def interrupted(task, batch, index):
        if task.global_step == 3:  # the first of the second epoch
            signal.raise_signal(number)
        return step(task, batch, index)

    monkeypatch.setattr(training.Task, "training_step", interrupted)
    with pytest.raises(SystemExit) as exit:
        training.train(RECIPE, options)
    assert exit.value.code == 130 and signal.getsignal(signal.SIGINT) is before
    folder = Path(options["run.dir"])
    figures = read(folder / "result.json")
    assert figures["interrupted"] and figures["steps"] == 4 and figures["test"] is None
    assert figures["val"]["accuracy"] == pytest.approx(column(folder, "val/accuracy")[0], abs=1e-6)
    assert torch.load(folder / "checkpoints/last.ckpt", weights_only=True)["global_step"] == 3
    assert zoo.load(folder / "model").predict(next(pictures.rglob("*.png")))["label"] in COLOURS
    shown = capfd.readouterr().out
    assert f"interrupted after step 4; the model so far is {folder / 'model'}" in shown
    assert ".ckpt" not in shown  # no command takes one


def test_ctrl_c_twice_stops_at_once(options, monkeypatch):
    step = training.Task.training_step

    def interrupted(task, batch, index):
        if task.global_step == 1:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return step(task, batch, index)

    monkeypatch.setattr(training.Task, "training_step", interrupted)
    with pytest.raises(SystemExit) as exit:
        training.train(RECIPE, options)
    figures = read(Path(options["run.dir"], "result.json"))
    assert exit.value.code == 130 and figures["interrupted"] and figures["steps"] == 1


# --- build, evaluate


def test_build_makes_loads_and_assembles(options, tmp_path):
    def build(labels, model):
        config = training.resolve(RECIPE, options).config
        return training.build(replace(config, model=model), labels)

    made = build(["a", "b"], {"name": "vit_mu_patch8_32", "head": {"pool": "mean"}, "depth": 1})
    assert made.record.labels == ("a", "b") and made.head.config.pool == "mean"
    made.save(tmp_path / "model")
    same = build(["a", "b"], {"load": str(tmp_path / "model")})
    assert torch.equal(same.head.out.weight, made.head.out.weight)
    other = build(["x", "y", "z"], {"load": str(tmp_path / "model")})
    assert other.record.labels == ("x", "y", "z") and other.head.config.classes == 3
    assert torch.equal(other.adapter.prefix, made.adapter.prefix)
    with pytest.raises(OptionError, match="takes depth from the weights; got 1: drop it"):
        build(["a", "b"], {"load": str(tmp_path / "model"), "depth": 1})
    large = build(["a", "b"], {"load": str(tmp_path / "model"), "size": 64})
    assert large.record.preprocess.size == (64, 64)
    assert torch.equal(large.head.out.weight, made.head.out.weight)
    patches = {"dim": 16, "size": 16, "patch": 4, "channels": 1}
    sections = {"adapter": patches, "backbone": {"dim": 16, "depth": 2, "heads": 2}}
    parts = build(["a", "b"], sections)
    assert parts.record.preprocess.channels == 1 and parts.record.labels == ("a", "b")
    assert parts(torch.zeros(1, 1, 16, 16)).shape == (1, 2)
    with pytest.raises(OptionError, match="Clasify"):
        build(["a", "b"], {**sections, "head": {"kind": "Clasify"}})


def test_evaluate_says_what_it_lacks(options, tmp_path, pictures):
    with pytest.raises(UserError, match="takes the folder of a run"):
        training.evaluate(tmp_path)
    result = training.train(
        RECIPE, {**options, "data.train": pictures / "train", "data.val": 0.2, "run.epochs": 1}
    )
    assert "test" not in result.metrics
    with pytest.raises(UserError, match=r"give --data\.test"):
        training.evaluate(result.folder)
    assert training.evaluate(result.folder, pictures / "test")["accuracy"] >= 0


def test_a_terminal_gets_a_bar_and_the_log_all_lines(options, monkeypatch):
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    monkeypatch.setattr(callbacks, "console", screen)
    monkeypatch.setattr(console, "console", screen)
    result = training.train(RECIPE, options)
    shown = screen.file.getvalue()
    assert "\x1b" in shown and "6/6" in shown and "validation" in shown
    assert "step 6/6" not in shown  # the bar says it
    assert "step 6/6" in (result.folder / "log.txt").read_text()


def test_clock():
    assert [clock(s) for s in (0, 65, 3725)] == ["0:00", "1:05", "1:02:05"]


# --- two processes

TWO = """
import os, sys, torch
from zoo import training
from zoo.training.task import Task

def remember(task):
    rank = os.environ.get("LOCAL_RANK", "0")
    torch.save(task.model.state_dict(), os.path.join(sys.argv[1], f"weights_{rank}.pt"))

Task.on_train_end = remember
training.train(sys.argv[2])
"""


def test_two_processes_learn_what_one_does(options, pictures, tmp_path):
    """12 pictures: steps of 8 and 4, in micro-batches of 2; of 5 for validation one rank has 3."""
    rows = {"train": [4, 4, 4], "val": [3, 2, 0], "test": [3, 1, 1]}
    for split, counts in rows.items():
        for name, count in zip(COLOURS, counts, strict=True):
            for i in range(count):
                target = tmp_path / "few" / split / name / f"{i}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((pictures / split / name / f"{i}.png").read_bytes())
    options |= {"data.train": str(tmp_path / "few"), "run.epochs": 1, "run.log_every": 1}
    one = training.train(RECIPE, options)

    two = {**options, "hw.devices": 2, "hw.micro_batch": 2, "run.dir": str(tmp_path / "two")}
    config = training.resolve(RECIPE, two).config
    (tmp_path / "two.yaml").write_text(config.to_yaml())
    (tmp_path / "two.py").write_text(TWO)
    path = str(Path(zoo.__file__).parents[1])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "two.py", str(tmp_path), "two.yaml"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("s of training") == 1  # rank 0 alone speaks
    ranks = [torch.load(tmp_path / f"weights_{r}.pt", weights_only=True) for r in (0, 1)]
    assert all(torch.equal(ranks[0][k], ranks[1][k]) for k in ranks[0])
    assert_close(ranks[0], zoo.load(one.folder / "model").state_dict())
    assert len(column(tmp_path / "two", "train/loss")) == 2
    for name in ("train/loss", "val/loss"):
        assert column(tmp_path / "two", name) == pytest.approx(column(one.folder, name), abs=1e-5)
    result = read(tmp_path / "two" / "result.json")
    for split, values in one.metrics.items():
        assert result[split] == pytest.approx(values, abs=1e-5)
        assert result[split]["accuracy"] == values["accuracy"]
    assert (
        read(tmp_path / "two" / "data.json")["fingerprint"]
        == read(one.folder / "data.json")["fingerprint"]
    )


def test_of_two_runs_that_start_at_once_one_gets_the_folder(tmp_path):
    make_folder(tmp_path / "run")
    with pytest.raises(UserError, match="another run has just taken"):
        make_folder(tmp_path / "run")


def test_a_run_that_lost_the_folder_clears_nothing_in_it(tmp_path):
    from zoo.training import Run, resolve

    config = resolve(
        RECIPE, {"data.train": str(tmp_path / "pictures"), "run.dir": str(tmp_path / "run")}
    ).config
    no_rows = SimpleNamespace(rows=dict, val=None)
    late = Run(config, zoo.create("vit_mu_patch8_32", ["a", "b"]), no_rows)  # while it was free
    make_folder(tmp_path / "run")
    (tmp_path / "run" / "labels.json").write_text("the other run's")
    with pytest.raises(UserError, match="another run has just taken"):
        late.__enter__()
    assert (tmp_path / "run" / "labels.json").read_text() == "the other run's"


def test_evaluate_refuses_a_test_that_was_drawn_from_other_data(options, pictures, capsys):
    source = pictures / "train"
    given = {**options, "data.train": source, "data.test": 0.25, "data.val": 0.25, "run.epochs": 1}
    result = training.train(RECIPE, given)
    assert training.evaluate(result.folder) == result.metrics["test"]
    first = next(iter(sorted((source / "red").iterdir())))
    shutil.copy(first, source / "red" / "0_first.png")
    with pytest.raises(
        UserError, match=r"train has changed since \(.*\): give --data\.test FOLDER"
    ):
        training.evaluate(result.folder)
    assert training.evaluate(result.folder, pictures / "test")["accuracy"] >= 0
    capsys.readouterr()
    training.evaluate(result.folder, source)
    said = capsys.readouterr().out
    assert f"{source} is what the run learned from" in said and "hardware: cpu, " in said
    (source / "red" / "0_first.png").unlink()
    assert training.evaluate(result.folder) == result.metrics["test"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("input", "a"), ("label", "a"), ("group", "a"), ("time", "a"), ("task", "numbers")],
)
def test_columns_of_class_folders_are_refused(options, pictures, key, value):
    with pytest.raises(UserError, match=rf"data\.{key} .*takes a.* table.* is a folder.*: drop it"):
        training.train(RECIPE, {**options, f"data.{key}": value})
    assert not Path(options["run.dir"]).exists()
    if key in ("input", "label"):
        result = training.train(RECIPE, {**options, "run.epochs": 1})
        with pytest.raises(UserError, match=rf"data\.{key} takes a column of a table"):
            training.evaluate(result.folder, pictures / "test", {f"data.{key}": value})
