"""Learning without labels: what is hidden is hidden, and told; the body goes on elsewhere."""

import numpy as np
import pytest
import torch
from PIL import Image

import zoo
from zoo import data, training
from zoo.errors import OptionError
from zoo.heads import Reconstruct
from zoo.training.bodies import HEADS, TARGETS
from zoo.training.models import make_model


def model_of(way, **more):
    torch.manual_seed(0)
    if way == "drop":
        first = zoo.adapters.Patches(size=32, patch=8, dim=32, position="sincos", registers=2)
        body, head = zoo.Backbone(dim=32, depth=2, heads=2), {"decoder": 32, "depth": 1, "heads": 2}
    else:
        first = zoo.adapters.SwinPatches(
            dim=16, depths=(1, 1), heads=(1, 2), window=(4, 4), size=32
        )
        body, head = zoo.Backbone(stages=first.stages), {"width": 16, "unit": 2, "ratio": 0.6}
    return zoo.Model(first, body, Reconstruct(dim=32, patch=8, way=way, **{**head, **more}))


def pixels(*sides, batch=2, seed=3):
    return torch.randn(batch, 3, *sides, generator=torch.Generator().manual_seed(seed))


WAYS = ("drop", "token")


@pytest.mark.parametrize("way", WAYS)
def test_each_weight_learns_and_one_batch_is_learned(way):
    model, x = model_of(way), pixels(32, 48).cumsum(-1) / 5
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=3e-3), []
    for _ in range(120):
        torch.manual_seed(0)  # the same is hidden each time
        total, count = model.head.loss(model(x), {"pixels": x})["loss"]
        optimizer.zero_grad()
        (total / count).backward()
        assert all(p.grad is not None and p.grad.any() for p in model.parameters())
        optimizer.step()
        losses.append(float(total.detach() / count))
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_hidden_tells_nothing(way):
    """Other pixels behind the mask change no answer; other pixels beside it do."""
    model, x = model_of(way).eval(), pixels(32, 48)
    with torch.no_grad():
        told = model(x)
        mask = told.hidden.unflatten(1, (4, 6)).repeat_interleave(8, 1).repeat_interleave(8, 2)
        mask = mask[:, None].expand(-1, 3, -1, -1)
        behind = model(torch.where(mask, pixels(32, 48, seed=9), x))
        beside = model(torch.where(mask, x, pixels(32, 48, seed=9)))
    assert torch.equal(told.patches, behind.patches)
    assert not torch.allclose(told.patches, beside.patches, atol=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_a_whole_model_is_traced_as_one_graph(way):
    model, x = model_of(way).eval(), pixels(32, 48)
    torch._dynamo.reset()
    with torch.no_grad():
        traced, eager = torch.compile(model, backend="eager", fullgraph=True)(x), model(x)
    assert torch.equal(traced.hidden, eager.hidden)
    torch.testing.assert_close(traced.patches, eager.patches, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_a_share_is_hidden_anew_in_training_and_alike_in_evaluation(way):
    model, x = model_of(way), pixels(32, 64, batch=3)
    first, second = model(x).hidden, model(x).hidden
    share = round({"drop": 0.75, "token": 0.6}[way] * 32)
    assert (first.sum(1) == share).all() and not torch.equal(first, second)
    assert not torch.equal(first[0], first[1])
    model.eval()
    with torch.no_grad():
        both, alone = model(x), model(x[2:])
    assert torch.equal(both.hidden[0], both.hidden[2]) and (both.hidden.sum(1) == share).all()
    torch.testing.assert_close(both.patches[2:], alone.patches, rtol=1e-5, atol=1e-5)


def test_the_backbone_sees_the_rest_alone_and_each_at_its_place():
    model, x = model_of("drop").eval(), pixels(32, 32)
    whole = model.adapter(x)
    some = model.head.hide(whole)
    assert some.x.shape[1] == 3 + 4 and some.grid is None and some.prefix == 3
    assert some.dropped_from == whole.grid == (1, 4, 4)
    assert torch.equal(some.x[:, :3], whole.x[:, :3])
    for x, place in zip(some.x[0, 3:], some.positions[0, 3:], strict=True):
        (at,) = (whole.x[0] == x).all(-1).nonzero()[0]
        assert not some.hidden[0, at - 3] and torch.equal(whole.positions[0, at], place)


def test_the_loss_is_of_hidden_patches():
    head = model_of("token").head
    x = torch.zeros(1, 3, 8, 16)
    x[..., 8:] = 2.0
    told = torch.zeros(1, 2, 192)
    for hidden, wanted in (([True, False], 0.0), ([False, True], 2.0), ([True, True], 1.0)):
        answer = zoo.heads.Rebuilt(told, torch.tensor([hidden]))
        total, count = head.loss(answer, {"pixels": x})["loss"]
        assert float(total / count) == wanted and int(count) == sum(hidden)
    head, x = model_of("drop").head, pixels(8, 8, batch=1)
    patch = x.permute(0, 2, 3, 1).flatten(1)  # rows, columns, colours
    normed = (patch - patch.mean()) / patch.std(correction=0)
    answer = zoo.heads.Rebuilt(normed[:, None], torch.tensor([[True]]))
    assert float(head.loss(answer, {"pixels": x})["loss"][0]) < 1e-6


def test_what_does_not_fit_is_one_sentence():
    with pytest.raises(zoo.OptionError, match="way drop takes a body of one stage"):
        Reconstruct(dim=32, patch=16, unit=2)
    with pytest.raises(zoo.ShapeError, match="a picture that its patches fill"):
        model_of("token")(pixels(36, 32))
    with pytest.raises(zoo.UserError, match="this one has one that rebuilds what is hidden"):
        model = model_of("drop")
        model.record = zoo.Record(preprocess=zoo.inputs.Preprocess((32, 32)))
        model.predict(Image.new("RGB", (32, 32)))


def write(root, count=10):
    noise = np.random.default_rng(0)
    (root / "deep" / "er").mkdir(parents=True)
    for i in range(count):
        values = noise.integers(0, 255, (40, 33, 3), dtype=np.uint8)
        Image.fromarray(values).save(root / ("deep" if i % 2 else "deep/er") / f"{i}.png")
    return root


@pytest.mark.parametrize(
    "recipe, name, task",
    [
        ("image_pretrain/vit_small_mae", "vit_mu_patch8_32", "image_classify/vit_tiny_scratch"),
        (
            "image_pretrain/swin_tiny_simmim",
            "swin_mu_patch4_window4_64",
            "image_classify/vit_tiny_scratch",
        ),
    ],
)
def test_a_body_learned_so_goes_on_with_labels(tmp_path, recipe, name, task):
    write(tmp_path / "pictures")
    run = {"run.epochs": 1, "run.global_batch": 4, "hw.accelerator": "cpu", "hw.precision": "fp32"}
    small = {"model.head.decoder": 32, "model.head.depth": 1} if "mae" in recipe else {}
    flags = {"data.train": str(tmp_path / "pictures"), "data.val": 0.2, "model.name": name,
             "run.dir": str(tmp_path / "first"), **small, **run}  # fmt: skip
    first = training.train(recipe, flags)
    assert first.metrics["val"].keys() == {"loss"}
    again = training.evaluate(first.folder, tmp_path / "pictures")
    assert again["loss"] > 0
    for label in ("a", "b"):
        write(tmp_path / "labelled" / label, 4)
    flags = {"data.train": str(tmp_path / "labelled"), "data.val": 0.25, "optim.lr": 1e-12,
             "model.load": str(first.folder / "model"), "run.dir": str(tmp_path / "second"), **run}  # fmt: skip
    second = zoo.load(training.train(task, flags).folder / "model")
    pretrained = zoo.load(first.folder / "model").state_dict()
    for key, tensor in second.state_dict().items():
        if not key.startswith("head."):
            torch.testing.assert_close(tensor, pretrained[key], rtol=1e-4, atol=1e-6)
    assert second.predict(tmp_path / "pictures/deep/1.png")["label"] in ("a", "b")


FLAT = {"adapter": {"size": 64, "patch": 8, "dim": 32},
        "backbone": {"dim": 32, "depth": 2, "heads": 2}}  # fmt: skip
SWIN = {"adapter": {"kind": "SwinPatches", "dim": 32, "depths": [1, 1], "heads": [2, 4],
                    "window": [4, 4], "size": 64}}  # fmt: skip


@pytest.mark.parametrize("parts", [FLAT, SWIN], ids=["flat", "stages"])
@pytest.mark.parametrize("kind", TARGETS)
def test_parts_that_fit_make_a_model_for_any_target_of_pictures(kind, parts):
    """Whatever the task reads of a picture: no name of a model is needed."""
    head = {"way": "token"} if kind == "unlabelled" else {"channels": 32}
    labels = [] if kind == "unlabelled" else ["a", "b"]
    model = make_model({**parts, "head": head}, labels, TARGETS[kind], kind).train()
    answer = model(pixels(64, 64))
    assert (answer.patches if kind == "unlabelled" else answer) is not None
    assert type(model.head).__name__ == HEADS[kind]
    wrong = "Segment" if kind == "unlabelled" else "Reconstruct"
    with pytest.raises(OptionError, match=f"takes a head with dim.*, {HEADS[kind]}; got {wrong}"):
        make_model({**parts, "head": {"kind": wrong}}, labels, TARGETS[kind], kind)


def test_a_body_of_parts_learns_without_labels(tmp_path):
    write(tmp_path / "pictures")
    flags = {"data.train": str(tmp_path / "pictures"), "data.val": 0.2, "run.epochs": 1,
             "run.dir": str(tmp_path / "run"), "hw.accelerator": "cpu",
             **{f"model.{part}.{key}": v for part in FLAT for key, v in FLAT[part].items()},
             "model.head.way": "token"}  # fmt: skip
    assert training.train("image_pretrain/vit_small_mae", flags).metrics["val"]["loss"] > 0


def test_pictures_without_labels_are_found_at_any_depth_and_in_tables(tmp_path):
    from types import SimpleNamespace

    root = write(tmp_path / "pictures")
    fields = dict(val=0.2, test=None, input=None, label=None, group=None, time=None, on_bad="raise")
    config = SimpleNamespace(train=str(root), **fields)
    found = data.splits(config, 0, "unlabelled")
    assert (len(found.train), len(found.val), found.target) == (8, 2, "pixels")
    rows = [f"deep/er/{i}.png" for i in range(0, 10, 2)]
    (root / "all.csv").write_text("\n".join(["file_name", *rows]) + "\n")
    found = data.splits(SimpleNamespace(train=str(root / "all.csv"), **fields), 0, "unlabelled")
    assert len(found.train) == 4
    (root / "deep/er/0.png").write_bytes(b"no")
    with pytest.raises(zoo.UserError, match="1 of 10 cannot be read"):
        data.splits(config, 0, "unlabelled")
    (tmp_path / "empty").mkdir()
    with pytest.raises(zoo.UserError, match=r"takes a folder of pictures; .*empty holds none"):
        data.splits(SimpleNamespace(train=str(tmp_path / "empty"), **fields), 0, "unlabelled")
