"""What of a model learns, how fast, from when on, and what stands in for its weights."""

# ruff: noqa: F811  # fixtures of another file

import copy
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import lightning
import pytest
import torch
from test_laws import MU, batch_of
from test_training import COLOURS, RECIPE, options, pictures, weights  # noqa: F401  # fixtures
from torch import nn

import zoo
from zoo import data, training
from zoo.errors import OptionError, UserError
from zoo.nn import Attention
from zoo.training.average import Average
from zoo.training.config import OptimConfig
from zoo.training.optimise import make_optimizer, make_schedule, parameter_groups
from zoo.training.probe import Features, PrepareFeatures
from zoo.training.telling import hints
from zoo.training.tune import LINEARS, Lora, freeze_body, frozen, learning, merge, put_lora, tune

VIT, SWIN, EVA = "vit_mu_patch8_32", "swin_mu_patch4_window4_64", "eva02_mu_patch8_32"


def depths(model):
    return {name: model.depth_of(name) for name, _ in model.named_parameters()}


# --- depth, layer decay, unfreezing


@pytest.mark.parametrize("name", list(zoo.list_models("*mu*")))
def test_depth_rises_from_adapter_to_head(name):
    with torch.device("meta"):
        model = zoo.create(name)
    count = len(model.backbone.blocks)
    seen = depths(model)
    assert {*range(count + 1)} <= {*seen.values()} <= {*range(count + 2)}
    assert all(d == 0 for n, d in seen.items() if n.startswith("adapter."))
    assert all(d == count + 1 for n, d in seen.items() if n.startswith(("backbone.norm", "head.")))
    assert list(seen.values()) == sorted(seen.values()), "in the order of the forward pass"


def test_a_merge_is_as_deep_as_the_block_behind_it():
    seen = depths(zoo.create(SWIN, classes=2))
    first = min(d for n, d in seen.items() if n.startswith("backbone.stages.1.blocks.0."))
    assert {d for n, d in seen.items() if n.startswith("backbone.stages.1.merge")} == {first}


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_layer_decay_is_real_rates(name):
    model = zoo.create(name, classes=2)
    last = model.depth_of("head")
    config = OptimConfig(lr=0.1, layer_decay=0.5, head_lr=0.7, weight_decay=0.2)
    groups = parameter_groups(model, config)
    rates = {name: group["lr"] for group in groups for name, _ in group["params"]}
    assert rates.keys() == {name for name, _ in model.named_parameters()}
    for key, depth in depths(model).items():
        wanted = 0.7 if key.startswith("head.") else 0.1 * 0.5 ** (last - depth)
        assert rates[key] == pytest.approx(wanted), key
    for group in groups:  # with 1.0 the norms' and matrices' groups alone
        assert group["weight_decay"] in (0.0, 0.2)
    assert len(parameter_groups(model, OptimConfig(lr=0.1))) == 2


def test_a_step_moves_each_depth_by_its_rate():
    """AdamW's first step is lr in each weight: layer decay that did nothing would show here."""
    torch.manual_seed(0)
    model = zoo.create(VIT, classes=2)
    before = copy.deepcopy(model.state_dict())
    config = OptimConfig(lr=1e-3, layer_decay=0.1, weight_decay=0.0)
    optimizer = make_optimizer(model, config)
    model(torch.randn(4, 3, 32, 32)).square().sum().backward()
    optimizer.step()
    for depth, key in ((0, "adapter.stem.weight"), (1, "backbone.stages.0.blocks.0.mlp.up.weight")):
        moved = (model.state_dict()[key] - before[key]).abs().max().item()
        assert moved == pytest.approx(1e-3 * 0.1 ** (model.depth_of("head") - depth), rel=0.05)


def test_unfreezing_starts_the_head_and_then_one_block_after_another():
    model = zoo.create(VIT, classes=2)
    config = OptimConfig(lr=0.1, unfreeze=0.6, warmup=0.0)
    optimizer = make_optimizer(model, config)
    schedule = make_schedule(optimizer, 10, config)
    first: dict[str, int] = {}
    for step in range(10):
        for group in optimizer.param_groups:
            if group["lr"] > 0:
                for name in group["param_names"]:
                    first.setdefault(name, step)
        optimizer.step()
        schedule.step()
    by_depth = {model.depth_of(name): step for name, step in first.items()}
    assert by_depth == {3: 0, 2: 2, 1: 4, 0: 6}


# --- freezing, and features computed once


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_a_frozen_body_leaves_the_head(name):
    model = tune(zoo.create(name, classes=2, drop_path=0.5), freeze="body")
    assert frozen(model)
    assert {n for n, p in model.named_parameters() if p.requires_grad} == {
        "head.out.weight", "head.out.bias",
    }  # fmt: skip
    x = torch.randn(2, *([3, 64, 64] if name == SWIN else [3, 32, 32]))
    assert torch.equal(model.features(x).x, model.features(x).x), "neither dropout nor drop path"


def test_a_frozen_body_that_nothing_was_loaded_into_is_told(tmp_path):
    zoo.create(VIT, classes=2).save(tmp_path / "m")
    loaded, random = zoo.load(tmp_path / "m"), zoo.create(VIT, classes=2)
    assert learning(random) == "" == learning(loaded)
    told = [learning(tune(model, "body")) for model in (loaded, random)]
    assert told[0].endswith(" of them learn")
    assert told[1] == f"{told[0]}; the others stay random, since nothing was loaded (--model.load)"


def test_a_number_freezes_what_is_less_deep():
    model = tune(zoo.create(VIT, classes=2), freeze=2)
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == (model.depth_of(name) >= 2), name
    assert not frozen(model)
    blocks = model.backbone.blocks
    assert [b.training for b in blocks] == [False, True]


@pytest.mark.parametrize(
    "options, says",
    [
        ({"freeze": "head"}, "freeze takes body, or a whole number of at least 1; got 'head'"),
        ({"freeze": True}, "freeze takes body, or a whole number"),
        ({"freeze": 0}, "freeze takes body, or a whole number of at least 1; got 0"),
        ({"freeze": 9}, "freeze takes at most 3, which leaves the last norm and the head; got 9"),
        ({"lora": {"rnk": 3}}, "lora has no option 'rnk'; did you mean 'rank'?"),
        ({"lora": {"of": ["q", "w"]}}, "lora takes of as some of q, k, v, out, up, down; got"),
        ({"lora": {"of": []}}, "lora takes of as some of"),
        ({"lora": 3}, "lora takes options such as rank; got 3"),
        ({"lora": {}, "freeze": "body"}, "lora freezes the body itself"),
    ],
)
def test_one_sentence_for_a_wrong_option(options, says):
    with pytest.raises(OptionError) as error:
        tune(zoo.create(VIT, classes=2), **options)
    assert str(error.value).startswith(says)


def test_a_wrong_option_is_placed(options, tmp_path):
    with pytest.raises(UserError, match=r"freeze takes body.*\(--model.freeze\)"):
        training.train(RECIPE, {**options, "model.freeze": "all"})
    assert not (tmp_path / "run").exists()


def probe(options, tmp_path, name, **more):
    flags = {**options, "model.freeze": "body", "data.flip": False, **more}
    return training.train(RECIPE, {**flags, "run.dir": str(tmp_path / name)})


@pytest.mark.parametrize("pool", ["mean", "class", "class_mean"])
def test_features_are_computed_once_and_learned_as_samples_are(
    options, tmp_path, monkeypatch, pool
):
    options |= {"model.adapter.class_token": True, "model.head.pool": pool}
    once = probe(options, tmp_path, "once")
    log = (once.folder / "log.txt").read_text()
    assert "features of 24 samples of train, computed once" in log
    assert "of them learn" in log
    monkeypatch.setattr("zoo.training.probe.frozen", lambda model: False)
    anew = probe(options, tmp_path, "anew")
    assert "computed once" not in (anew.folder / "log.txt").read_text()
    one, other = weights(once.folder), weights(anew.folder)
    assert all(torch.allclose(one[key], other[key], atol=1e-6) for key in one)
    assert once.metrics["test"] == pytest.approx(anew.metrics["test"], abs=1e-5)
    assert training.evaluate(once.folder) == pytest.approx(once.metrics["test"], abs=1e-5)


def test_features_of_mirrored_pictures_are_learned_too(options, tmp_path, monkeypatch):
    """Train has two views of a picture, what is measured one; both are drawn."""
    made, drawn = {}, []
    compute, augment = Features.features, PrepareFeatures.augment

    def see(self, split):
        made[split] = compute(self, split)
        return made[split]

    def count(self, config):
        draw = augment(self, config)
        return lambda views: (drawn.append(len(views)), draw(views))[1]

    monkeypatch.setattr(Features, "features", see)
    monkeypatch.setattr(PrepareFeatures, "augment", count)
    run = probe(options, tmp_path, "run", **{"data.flip": True, "model.head.pool": "mean"})
    log = (run.folder / "log.txt").read_text()
    assert "features of 24 samples of train, as they are and mirrored, computed once" in log
    assert "of test, computed once" in log
    said = "with data.augment none, data.flip mirrors only features that are computed once"
    assert f"data: {said}" in log
    config = training.resolve("image_classify/vit_tiny_scratch", {**options, "data.flip": True})
    assert [*hints(data.splits(config.config.data, 0, "picture"), config.config)] == [said]
    for more in ({"data.flip": False}, {"data.flip": True, "data.augment": "light"}):
        config = training.resolve("image_classify/vit_tiny_scratch", {**options, **more}).config
        assert not [*hints(data.splits(config.data, 0, "picture"), config)]
    one, other = made["train"].unbind(1)
    assert set(drawn) == {2} and not torch.allclose(one, other)
    model = zoo.load(run.folder / "model").eval()
    folder = Path(options["data.train"]) / "train"
    first = model.record.preprocess(sorted(folder.rglob("*.png"))[0])
    with torch.no_grad():
        for views, picture in ((one, first), (other, first.flip(-1))):
            pooled = model.head.pool(model.features(picture[None]))
            assert (views - pooled).norm(dim=1).min() < 1e-4
    assert training.evaluate(run.folder) == pytest.approx(run.metrics["test"], abs=1e-5)


def test_a_frozen_body_keeps_every_bit(options, tmp_path):
    run = probe(options, tmp_path, "run", **{"data.augment": "light"})
    assert "the body is frozen" in (run.folder / "log.txt").read_text()
    torch.manual_seed(0)
    state = weights(run.folder)
    first = zoo.load(run.folder / "model").state_dict()
    again = probe(options, tmp_path, "again", **{"data.augment": "light", "optim.lr": 0.1})
    other = weights(again.folder)
    for key, tensor in state.items():
        same = torch.equal(tensor, other[key])
        assert same == (not key.startswith("model.head.")), key
    assert first.keys() == {key.removeprefix("model.") for key in state}


@pytest.mark.parametrize(
    "more",
    [{"model.head.pool": "attention"}, {"data.mix": "mixup"}],
    ids=["a pool that learns", "mixed samples"],
)
def test_what_cannot_be_computed_once_is_not(options, tmp_path, more):
    run = probe(options, tmp_path, "run", **more)
    assert "computed once" not in (run.folder / "log.txt").read_text()


# --- low-rank updates


def moved(model, x):
    """Some steps on the answers, so that updates are no zeros."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) - torch.arange(2.0)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("of", [("q", "v"), ("k",), tuple(LINEARS), ("out", "down")])
@pytest.mark.parametrize("name", [VIT, SWIN, EVA])
def test_updates_learn_and_merge_into_a_plain_model(name, of):
    torch.manual_seed(0)
    model = zoo.create(name, classes=2)
    x = torch.randn(4, 3, *([64, 64] if name == SWIN else [32, 32]))
    before, keys = copy.deepcopy(model.state_dict()), [*model.state_dict()]
    answer = model.eval()(x)
    put_lora(model, Lora(rank=3, of=of))
    assert torch.allclose(model(x), answer, atol=1e-6), "B starts at zero"
    learn = {n for n, p in model.named_parameters() if p.requires_grad}
    assert learn and all("lora_" in n or n.startswith("head.") for n in learn)
    moved(model, x)
    tuned = model(x)
    merge(model)
    assert [*model.state_dict()] == keys and torch.allclose(model(x), tuned, atol=1e-5)
    for key, tensor in model.state_dict().items():
        linear = key.split(".")[-2] if key.endswith("weight") else ""
        changed = any(linear in LINEARS[o] for o in of) and "head" not in key
        if changed and linear == "qkv":
            part = model.get_submodule(key.rpartition(".")[0].rpartition(".")[0])
            assert isinstance(part, Attention)
            for o, new, old in zip("qkv", tensor.chunk(3), before[key].chunk(3), strict=True):
                assert torch.equal(new, old) != (o in of), (key, o)
        elif not key.startswith("head."):
            assert torch.equal(tensor, before[key]) != changed, key


@pytest.mark.parametrize("name", MU)
def test_every_update_gets_a_gradient(name):
    model = zoo.create(name, classes=2)
    put_lora(model, Lora(rank=2))
    moved(model.train(), *batch_of(name, batch=2))
    learn = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert any("lora_A" in n for n in learn)
    assert not [n for n, p in learn.items() if p.grad is None or not p.grad.any()]


def test_grouped_heads_keep_the_rows_of_k():
    torch.manual_seed(0)
    adapter = zoo.adapters.Patches(size=32, patch=8, dim=32)
    body = zoo.Backbone(dim=32, depth=1, heads=4, kv_heads=2)
    model = zoo.Model(adapter, body, zoo.heads.Classify(dim=32, classes=2))
    before = body.blocks[0].attn.qkv.weight.detach().clone()
    put_lora(model, Lora(of=("q", "v")))
    moved(model, torch.randn(4, 3, 32, 32))
    merge(model)
    q, k, v = body.blocks[0].attn.qkv.weight.split((32, 16, 16))
    old = before.split((32, 16, 16))
    assert not torch.equal(q, old[0]) and torch.equal(k, old[1]) and not torch.equal(v, old[2])


def test_lora_in_a_run_gives_a_plain_model(options, pictures):
    given = {"model.lora.rank": 2, "model.lora.of": ["q", "v"], "data.flip": False}
    run = training.train(RECIPE, {**options, **given})
    saved = weights(run.folder, "best")
    assert any("lora_A" in key for key in saved)
    model = zoo.load(run.folder / "model")
    assert not any("lora" in key for key in model.state_dict())
    assert training.evaluate(run.folder) == pytest.approx(run.metrics["test"], abs=1e-4)
    picture = next((pictures / "test" / "red").glob("*.png"))
    assert model.predict(picture)["label"] in COLOURS
    again = training.train(
        RECIPE,
        {**options, "run.dir": str(run.folder) + "2", "model.load": str(run.folder / "model"),
         "model.name": None} if False else
        {**{k: v for k, v in options.items() if k != "model.name"},
         "run.dir": f"{run.folder}2", "model.load": str(run.folder / "model"), "run.epochs": 1},
    )  # fmt: skip
    assert again.metrics["test"]


def test_without_peft_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(OptionError, match=r"lora takes the package peft.*omnizoo\[lora\]"):
        put_lora(zoo.create(VIT, classes=2), Lora())


# --- the mean of the weights


class Counter(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))


def test_the_mean_follows_floats_and_copies_counters():
    made, module = Average(0.9), Counter()
    made.setup(None, module, "fit")  # type: ignore[arg-type]
    mean = None
    for step in range(30):
        with torch.no_grad():
            module.weight += torch.tensor([1.0, -2.0, 0.5])
            module.steps += 1
        trainer = SimpleNamespace(global_step=step + 1)
        made.on_train_batch_end(trainer, module, None, None, 0)  # type: ignore[arg-type]
        weight = module.weight.detach().clone()
        decay = min(0.9, (1 + step) / (10 + step))
        mean = weight if mean is None else mean + (1 - decay) * (weight - mean)
    assert torch.allclose(made._average_model.module.weight, mean)
    assert made._average_model.module.steps == 30


def test_the_mean_is_measured_kept_and_exported(options):
    seen = []

    class Watch(Average):
        def on_train_batch_end(self, trainer, pl_module, *args):
            super().on_train_batch_end(trainer, pl_module, *args)
            seen.append({k: v.clone() for k, v in pl_module.state_dict().items()})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zoo.training.run.Average", Watch)
        run = training.train(RECIPE, {**options, "ema.decay": 0.8, "run.epochs": 3})
    mean = seen[0]
    means = [mean]
    for n, state in enumerate(seen[1:], 1):
        part = 1 - min(0.8, (1 + n) / (10 + n))
        mean = {k: v + part * (state[k] - v) for k, v in mean.items()}
        means.append(mean)
    best = json.loads((run.folder / "result.json").read_text())["weights"]
    kept = means[int(best.removeprefix("epoch ")) * len(seen) // 3 - 1]
    exported = zoo.load(run.folder / "model").state_dict()
    for key, tensor in exported.items():
        assert torch.allclose(tensor, kept[f"model.{key}"], atol=1e-5), key
    saved = torch.load(Path(run.folder, "checkpoints", "last.ckpt"), weights_only=True)
    assert torch.equal(saved["current_model_state"]["model.head.out.bias"],
                       seen[-1]["model.head.out.bias"])  # fmt: skip
    assert training.evaluate(run.folder) == pytest.approx(run.metrics["test"], abs=1e-5)


def test_freezing_by_hand_is_seen():
    model = zoo.create(VIT, classes=2)
    freeze_body(model, model.depth_of("head"), whole=True)
    assert frozen(model)
