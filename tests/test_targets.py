"""Several labels and numbers: measured, trained, saved, loaded and predicted, from a table."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, mean_absolute_error, mean_squared_error, r2_score
from torch import nn

import zoo
from zoo import data, training
from zoo.errors import UserError
from zoo.heads import Classify
from zoo.training import recipes
from zoo.training.metrics import LabelsMetrics, NumbersMetrics
from zoo.training.task import placed, standardise
from zoo.training.telling import hints

RECIPE = "text_classify/small_scratch"
UNEVEN = ((0, 33), (33, 49), (49, 50))
SMALL = {"model.adapter.dim": 32, "model.backbone.dim": 32, "model.backbone.depth": 1,
         "data.vocabulary": 300, "hw.accelerator": "cpu", "hw.precision": "fp32", "hw.workers": 0,
         "optim.lr": 3e-3, "run.global_batch": 16}  # fmt: skip


def fill(metrics, answer, target, loss, parts=UNEVEN):
    """Count answers in, in uneven batches."""
    for start, stop in parts:
        a, t = answer[start:stop], target[start:stop]
        metrics.update(a, t, loss(a, t), torch.tensor(len(a)))
    return metrics


# --- metrics


def drawn_labels():
    draw = torch.Generator().manual_seed(0)
    answer = torch.randn(50, 5, generator=draw)
    target = (torch.randn(50, 5, generator=draw) + answer > 0.5).long()
    answer[:, 4], target[:, 4] = -1, 0  # a label that nothing has and nobody answers
    return answer, target


def loss_of(target):
    head = Classify(dim=4, classes=5, target=target)
    return lambda answer, batch: head.loss(answer, {"target": batch}, smoothing=0.9)["loss"][0]


def test_metrics_of_several_labels_agree_with_scikit_learn():
    answer, target = drawn_labels()
    values = fill(LabelsMetrics(5), answer, target, loss_of("labels")).compute()
    has = (answer >= 0).long()
    near = lambda value: pytest.approx(value, abs=1e-6)  # noqa: E731
    assert values["micro_f1"] == near(f1_score(target, has, average="micro"))
    assert values["macro_f1"] == near(f1_score(target, has, average="macro", zero_division=np.nan))
    assert values["exact_match"] == near((target == has).all(1).float().mean().item())
    # and label smoothing has not touched the loss
    wanted = nn.functional.binary_cross_entropy_with_logits(answer, target.float())
    assert values["loss"] == pytest.approx(wanted.item(), abs=1e-5)


def test_metrics_of_labels_that_nothing_has():
    none = torch.zeros(3, 2, dtype=torch.long)
    values = fill(LabelsMetrics(2), none - 1.0, none, lambda a, t: torch.tensor(1.0), [(0, 3)])
    assert values.compute() == {"loss": 0.333333, "micro_f1": 0, "macro_f1": 0, "exact_match": 1}


def test_metrics_of_numbers_agree_with_scikit_learn_in_the_datas_units():
    draw = np.random.default_rng(0)
    scale = ((1e6, 5.0), (-3.0, 0.01), (0.0, 1.0))
    mean, deviation = np.array(scale).T
    target = draw.normal(mean, deviation, (50, 3))
    answer = target + draw.normal(0, deviation / 2, (50, 3))
    target[:, 2] = 0.5  # without variance
    learned = torch.tensor((answer - mean) / deviation).float()
    wanted = standardise({"target": torch.tensor(target)}, scale)["target"]
    metrics = fill(NumbersMetrics(deviation), learned, wanted, loss_of("numbers"))
    values = metrics.compute()
    assert values["mse"] == pytest.approx(mean_squared_error(target, answer), rel=1e-5)
    assert values["mae"] == pytest.approx(mean_absolute_error(target, answer), rel=1e-5)
    assert values["r2"] == pytest.approx(r2_score(target, answer), abs=1e-5)
    scaled = mean_squared_error((target - mean) / deviation, (answer - mean) / deviation)
    assert values["loss"] == pytest.approx(scaled, rel=1e-5)
    fill(metrics, wanted, wanted, loss_of("numbers"))
    assert metrics.compute() == {"loss": 0, "mse": 0, "mae": 0, "r2": 1}  # it starts anew


TWO = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, sys.argv[1])
from test_targets import drawn_labels, fill, loss_of
from zoo.training.metrics import LabelsMetrics, NumbersMetrics

rank = int(sys.argv[2])
dist.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=rank, world_size=2)
answer, target = drawn_labels()
part = ([(0, 33), (33, 34)], [(34, 50)])[rank]
one = fill(LabelsMetrics(5), answer, target, loss_of("labels"), part).compute()
two = fill(NumbersMetrics([2.0] * 5), answer, target, loss_of("numbers"), part).compute()
print(one, two)
"""


def test_two_processes_sum_to_what_one_measures(tmp_path):
    (tmp_path / "two.py").write_text(TWO)
    words = [sys.executable, tmp_path / "two.py", Path(__file__).parent]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(zoo.__file__).parents[1])}
    ranks = [
        subprocess.Popen([*words, str(rank), tmp_path / "meet"], env=env, stdout=subprocess.PIPE)
        for rank in (0, 1)
    ]
    said = [process.communicate(timeout=120)[0].decode().strip() for process in ranks]
    answer, target = drawn_labels()
    one = fill(LabelsMetrics(5), answer, target, loss_of("labels")).compute()
    two = fill(NumbersMetrics([2.0] * 5), answer, target, loss_of("numbers")).compute()
    assert said == [f"{one} {two}"] * 2


def test_numbers_are_standardised_in_double():
    batch = {"target": torch.tensor([[1e9 + 1], [1e9 + 3]], dtype=torch.float64)}
    learned = standardise(batch, ((1e9, 2.0),))
    assert learned["target"].tolist() == [[0.5], [1.5]] and learned["target"].dtype == torch.float32
    batch["start"] = torch.tensor([[1e9], [1e9 + 2]], dtype=torch.float64)
    batch["unit"] = torch.tensor([[4.0], [1.0]], dtype=torch.float64)
    learned = standardise(batch, ((1e9, 2.0),))
    assert learned["target"].tolist() == [[0.5], [1.5]] and learned["start"].tolist() == [[0], [1]]
    assert placed(torch.ones(2, 1), learned).tolist() == [[2.0], [1.5]]


# --- from a table to an answer


def table(root, name, cells):
    """48 short texts of two words each, with what stands in `cells` of them."""
    words = ("ice", "snow", "sun", "sand", "fire", "frost")
    pairs = [(a, b) for a in words for b in words] * 2
    rows = [f"{a} and {b},{cells(a, b)}" for a, b in pairs[:48]]
    (root / name).write_text("\n".join(["text,label", *rows]) + "\n")
    return str(root / name)


def trained(tmp_path, file, **more):
    flags = {**SMALL, "data.train": file, "data.val": 0.2, "data.test": 0.2, "run.epochs": 20,
             "run.dir": str(tmp_path / "run"), **more}  # fmt: skip
    result = training.train(RECIPE, flags)
    data, page = (tmp_path / "run" / name for name in ("data.json", "report.md"))
    model = zoo.load(tmp_path / "run")
    again = training.evaluate(result.folder)
    assert again == pytest.approx(result.metrics["test"], rel=1e-5, abs=2e-6)  # kernels differ
    return result, json.loads(data.read_text()), page.read_text(), model


def test_evaluate_takes_how_test_data_are_read(tmp_path):
    train = table(tmp_path, "texts.csv", lambda a, b: "cold" if a in ("ice", "snow") else "warm")
    lines = Path(train).read_text().splitlines()[1:]
    other, bad = tmp_path / "other.csv", tmp_path / "bad.csv"
    other.write_text("\n".join(["said,kind,label", *(f"{line},none" for line in lines)]) + "\n")
    bad.write_text("\n".join(["text,label", *lines, "a hot day,"]) + "\n")
    flags = {"data.train": train, "data.val": 0.2, "data.test": train, "run.dir": tmp_path / "run"}
    run = training.train(RECIPE, {**SMALL, **flags, "run.epochs": 1})
    figures = pytest.approx(run.metrics["test"], rel=1e-5, abs=2e-6)
    columns = {"data.input": "said", "data.label": "kind"}
    assert training.evaluate(run.folder, other, columns) == figures
    assert training.evaluate(run.folder, overrides={"data.test": other, **columns}) == figures
    with pytest.raises(UserError, match=r"bad\.csv"):
        training.evaluate(run.folder, bad)
    assert training.evaluate(run.folder, bad, {"data.on_bad": "skip"}) == figures
    other.replace(train)  # the run's own test data now have other columns
    assert training.evaluate(run.folder, overrides=columns) == figures
    with pytest.raises(UserError, match=r"evaluate takes data.test, data.input, .*; got optim.lr$"):
        training.evaluate(run.folder, overrides={"optim.lr": 1})


def test_several_labels_from_a_table(tmp_path):
    cold, hot = {"ice", "snow", "frost"}, {"sun", "fire"}

    def cells(a, b):
        return "|".join(n for n, w in (("cold", cold), ("hot", hot)) if {a, b} & w)

    result, data, page, model = trained(tmp_path, table(tmp_path, "labels.csv", cells))
    assert result.metrics["val"].keys() == {"loss", "micro_f1", "macro_f1", "exact_match"}
    assert result.metrics["test"]["micro_f1"] > 0.8
    assert data["target"] == "labels" and data["rows"]["train"] == 30
    assert sum(data["counts"]["train"]) > 30 and not (tmp_path / "run/confusion.png").exists()
    assert "| test | 10 |" in page and "| cold | " in page
    one, both, none = model.predict(["ice and snow", "sun and ice", "sand and sand"])
    assert one["labels"] == ["cold"] and both["labels"] == ["cold", "hot"]
    assert one["probabilities"].keys() == {"cold", "hot"} and "file" not in one
    assert none["labels"] == [] or max(none["probabilities"].values()) >= 0.5


def test_numbers_from_a_table(tmp_path):
    heat = {"ice": -10, "snow": -5, "frost": -7, "sun": 30, "sand": 20, "fire": 90}

    def cells(a, b):
        return 1e6 + heat[a] + heat[b] + 0.5

    file = table(tmp_path, "numbers.csv", cells)
    result, data, page, model = trained(tmp_path, file, **{"run.epochs": 40})
    figures = result.metrics["test"]
    assert figures.keys() == {"loss", "mse", "mae", "r2"} and figures["r2"] > 0.5
    (mean, deviation), spread = model.record.scale[0], data["numbers"]["train"][0]
    assert (mean, deviation) == (spread["mean"], spread["deviation"]) and mean > 9e5
    assert figures["mse"] == pytest.approx(figures["loss"] * deviation**2, rel=1e-4)
    assert 1e6 - 20 < spread["least"] < spread["most"] < 1e6 + 181 and "counts" not in data
    assert "| number | train | val | test |" in page and "±" in page and "| test | 10 |" in page
    answer = model.predict("fire and fire")
    assert answer.keys() == {"numbers"} and 1e6 < answer["numbers"]["label"] < 1e6 + 250
    again = zoo.load(tmp_path / "run", classes=["other"])
    assert again.record.scale is None  # a new head has learned nothing


def test_the_metric_of_another_target_is_refused(tmp_path):
    file = table(tmp_path, "numbers.csv", lambda a, b: len(a) + 0.5)
    flags = {**SMALL, "data.train": file, "run.epochs": 1, "run.dir": str(tmp_path / "run")}
    with pytest.raises(UserError, match=r"select\.metric takes mse, mae, r2, loss where a target"):
        training.train(RECIPE, {**flags, "select.metric": "macro_f1"})
    assert not (tmp_path / "run").exists()
    bad = tmp_path / "bad.csv"
    bad.write_text("text,label\na b,1.5\nb c,inf\nc d,2.5\n")
    with pytest.raises(
        UserError, match=r"a number for each row; 1 of .*bad\.csv have none \(row 2: 'inf'\)"
    ):
        training.train(RECIPE, {**flags, "data.train": str(bad)})


def test_classes_of_few_samples_count_as_much_as_others(tmp_path):
    """As scikit-learn's "balanced": rows over classes times rows of the class."""
    from sklearn.utils.class_weight import compute_class_weight

    file = table(tmp_path, "t.csv", lambda a, b: "hot" if a == "sun" else "cold")
    flags = {**SMALL, "data.train": file, "optim.class_weights": "auto"}
    config = training.resolve(RECIPE, flags).config
    splits = data.splits(config.data, 0, "text")
    hint = "--optim.class_weights auto makes classes count the same"
    assert hint not in " ".join(splits.notes) and hint not in list(hints(splits, config))
    without = training.resolve(RECIPE, {**SMALL, "data.train": file}).config
    assert list(hints(splits, without)) == [hint]
    several = replace(splits, target="labels")  # which it does not take
    assert not list(hints(several, without))
    targets = np.array(splits.train.targets)
    wanted = compute_class_weight("balanced", classes=np.array([0, 1]), y=targets)
    model = sys.modules[recipes.load(RECIPE).__module__].build(config, splits)
    batches = data.Batches(splits, model.record.preprocess, config)
    for batch in batches.train_dataloader():
        assert batch["weight"].tolist() == pytest.approx(wanted[batch["target"]].tolist())
        answer = torch.randn(len(batch["target"]), 2)
        total, count = model.head.loss(answer, batch)["loss"]
        each = torch.nn.functional.cross_entropy(answer, batch["target"], reduction="none")
        assert total.item() == pytest.approx((each * batch["weight"]).sum().item())
        assert count == len(answer)
    assert "weight" not in next(iter(batches.val_dataloader()))
    result = training.train(RECIPE, {**flags, "run.dir": str(tmp_path / "run")})
    assert result.metrics["val"]["macro_f1"] >= 0


def test_only_one_label_each_is_weighted(tmp_path):
    file = table(tmp_path, "t.csv", lambda a, b: len(a) + 0.5)
    flags = {**SMALL, "data.train": file, "optim.class_weights": "auto"}
    with pytest.raises(UserError, match="takes samples with one label each; these have numbers"):
        training.train(RECIPE, {**flags, "run.dir": str(tmp_path / "run")})
