"""A student and its teacher: whom it listens to, in what order, by which loss."""

import copy
import json

import pytest
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from test_training import COLOURS, options, pictures, weights  # noqa: F401  # fixtures

import zoo
from zoo import training
from zoo.errors import UserError
from zoo.inputs import Preprocess
from zoo.training.distill import Distil, Teacher, teacher_for
from zoo.training.task import Task

# ruff: noqa: F811  # fixtures of another file

RECIPE = "image_distill/vit_tiny"
NAMES = sorted(COLOURS)


def student(name="vit_mu_patch8_32"):
    torch.manual_seed(0)
    return zoo.create(name, classes=NAMES)


def config(teacher, **more):
    flags = {"data.train": "x", "distill.teacher": str(teacher), "optim.smoothing": 0, **more}
    return training.resolve(RECIPE, flags).config


@pytest.fixture
def teacher(tmp_path):
    torch.manual_seed(1)
    return zoo.create("vit_mu_patch8_32", classes=NAMES[::-1]).eval().save(tmp_path / "teacher")


def test_a_teachers_classes_are_put_in_the_students_order(teacher):
    made, x = teacher_for(config(teacher), student()), torch.randn(2, 3, 32, 32)
    whole = zoo.load(teacher).eval()
    assert torch.allclose(made(x), whole(x)[:, [2, 1, 0]], atol=1e-5)
    assert not any(p.requires_grad for p in made.parameters()) and not made.training


def test_a_teacher_sees_pictures_in_its_own_way():
    seen = []

    class Eye(torch.nn.Module):
        def forward(self, x):
            seen.append(x)
            return x.mean((2, 3))

    grey = torch.full((1, 3, 8, 8), 0.25)  # of 0 ... 1, as the student sees it: (0.25 - 0.5) / 0.5
    own, other = (
        Preprocess((4, 6), (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)),
        Preprocess((8, 8), (0.5,) * 3, (0.5,) * 3),
    )
    Teacher(Eye(), own, other, None)((grey - 0.5) / 0.5)
    assert seen[0].shape == (1, 3, 4, 6)
    wanted = torch.tensor([(0.25 - 0.1) / 0.5, 0.05, -0.025]).view(1, 3, 1, 1).expand(1, 3, 4, 6)
    assert torch.allclose(seen[0], wanted, atol=1e-6)


@pytest.mark.parametrize("name", ["vit_mu_patch8_32", "deit_mu_distilled_patch8_32"])
@pytest.mark.parametrize("how", ["soft", "hard"])
def test_the_loss_is_that_of_the_papers(teacher, name, how):
    settings = {"distill.how": how, "distill.share": 0.3, "distill.temperature": 2.0}
    made, model = config(teacher, **settings), student(name)
    known = teacher_for(made, model)
    task = Distil(model, made, known)
    x, y = torch.randn(5, 3, 32, 32), torch.tensor([0, 1, 2, 0, 1])
    with torch.no_grad():
        total, count = task.losses({"pixels": x, "target": y})
        logits, copied = model.head.both(model.features(x))
        wanted = known(x)
    own = F.cross_entropy(logits, y, reduction="sum")
    if how == "hard":
        other = F.cross_entropy(copied, wanted.argmax(1), reduction="sum")
    else:
        p, q = (wanted / 2).softmax(1), (copied / 2).softmax(1)
        other = 4 * (p * (p.log() - q.log())).sum()
    assert count == 5
    assert torch.allclose(total, 0.7 * own + 0.3 * other, rtol=1e-4)
    assert (logits is copied) == (name == "vit_mu_patch8_32")


@pytest.mark.parametrize("taught", [False, True])
def test_how_unevenly_experts_are_used_is_part_of_what_is_learned(teacher, taught):
    routed = {"mlp.bias": False, "experts": 4, "top": 1, "balance": 0.5}
    torch.manual_seed(0)
    model = zoo.create("vit_mu_patch8_32", classes=NAMES, **routed)
    made = config(teacher, **{"distill.share": 1e-9})
    task = Distil(model, made, teacher_for(made, model)) if taught else Task(model, made)
    batch = {"pixels": torch.randn(5, 3, 32, 32), "target": torch.tensor([0, 1, 2, 0, 1])}
    total, count = task.losses(batch)
    answer, shown = model(batch["pixels"], details=("aux",))
    own = task._loss(answer, batch, made.optim.smoothing)[0]
    assert count == 5 and len(shown.aux) == 2 and min(shown.aux) > 0.4
    torch.testing.assert_close(total, own + 5 * sum(shown.aux))
    total.backward()
    assert all(block.mlp.router.weight.grad.any() for block in model.backbone.blocks)


def test_two_tokens_answer_together():
    model, x = student("deit_mu_distilled_patch8_32"), torch.randn(2, 3, 32, 32)
    one, two = model.head.both(model.features(x))
    assert torch.allclose(model(x), (one + two) / 2) and not torch.allclose(one, two)


def test_a_student_copies_a_run_and_keeps_itself_alone(options, tmp_path):
    """The teacher's answers alone, no label of the data: a student of share 1 learns them."""
    first = training.train(
        "image_classify/vit_tiny_scratch", {**options, "run.epochs": 12, "data.flip": False}
    )
    flags = {
        **options, "run.dir": str(tmp_path / "student"), "distill.teacher": str(first.folder),
        "distill.share": 1.0, "distill.how": "soft", "ema.decay": 0.5, "run.epochs": 12,
        "optim.smoothing": 0.0,
    }  # fmt: skip
    second = training.train(RECIPE, flags)
    own = {f"model.{key}" for key in student().state_dict()}
    assert {*weights(second.folder)} == own, "the teacher is in no checkpoint"
    assert f"teacher: {first.folder}, " in (second.folder / "log.txt").read_text()
    assert second.metrics["test"]["accuracy"] > 0.5
    assert training.evaluate(second.folder) == pytest.approx(second.metrics["test"], abs=1e-5)


def test_any_model_of_timm_teaches(tmp_path):
    torch.manual_seed(0)
    theirs = timm.create_model("resnet18", num_classes=3).eval()
    folder = tmp_path / "resnet"
    folder.mkdir()
    facts = {"input_size": [3, 64, 64], "num_classes": 3, "label_names": NAMES[::-1]}
    (folder / "config.json").write_text(
        json.dumps({"architecture": "resnet18", "num_classes": 3, "pretrained_cfg": facts})
    )
    save_file(theirs.state_dict(), str(folder / "model.safetensors"))
    made = teacher_for(config(f"timm:{folder}"), student())
    assert made.own.size == (64, 64) and made(torch.randn(2, 3, 32, 32)).shape == (2, 3)
    assert made.order == [2, 1, 0]


@pytest.mark.parametrize(
    "where, says",
    [
        (None, "distill.teacher takes a model that tells the classes of the data; got none: give"),
        ("OTHER", "does not know blue, green, red: train it on them first"),
        ("NUMBER", "has 7 for 3: train it on them first"),
        ("TEXT", "takes a model that gives pictures one of several classes"),
        ("timm:no_such_model", "distill.teacher takes a model of timm behind timm:; got no_such"),
    ],
)
def test_who_cannot_teach_is_told(tmp_path, where, says):
    makes = {
        "OTHER": lambda: zoo.create("vit_mu_patch8_32", classes=["a", "b", "c"]),
        "NUMBER": lambda: zoo.create("vit_mu_patch8_32", classes=7),
        "TEXT": lambda: zoo.create("bert_mu", classes=["a", "b", "c"]),
    }
    if where in makes:
        where = makes[where]().save(tmp_path / "other")
    flags = {} if where is None else {"distill.teacher": str(where)}
    made = training.resolve(RECIPE, {"data.train": "x", **flags}).config
    with pytest.raises(UserError) as error:
        teacher_for(made, student())
    assert says in str(error.value)


def test_a_copy_of_the_task_has_no_second_teacher(teacher):
    made = config(teacher)
    model = student()
    task = Distil(model, made, teacher_for(made, model))
    assert copy.deepcopy(task.taught_by)[0] is task.taught_by[0]
    assert not any("taught" in key for key in task.state_dict())
