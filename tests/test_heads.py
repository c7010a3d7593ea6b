"""Every adapter with every head: two steps of training lower the loss of one batch, and go on to overfit it."""

import pytest
import torch

import zoo
from zoo.heads import Classify, ClassifyConfig, Several
from zoo.nn import Backbone

A = zoo.adapters


def generator():
    return torch.Generator().manual_seed(0)


def randn(*shape):
    return torch.randn(*shape, generator=generator())


ADAPTERS = {
    "Patches": (lambda: A.Patches(dim=32, size=16, patch=8), lambda: randn(6, 3, 16, 16)),
    "SwinPatches": (
        lambda: A.SwinPatches(dim=16, depths=(1, 1), heads=(1, 2), window=(2, 2)),
        lambda: randn(6, 3, 16, 16),
    ),
    "Subwords": (
        lambda: A.Subwords(dim=32, vocabulary=50),
        lambda: torch.randint(50, (6, 8), generator=generator()),
    ),
    "Frames": (lambda: A.Frames(dim=32, channels=5, stem="conv"), lambda: randn(6, 12, 5)),
    "SpectrogramPatches": (
        lambda: A.SpectrogramPatches(dim=32, size=(26, 36)),
        lambda: randn(6, 36, 26),
    ),
    "Tubes": (
        lambda: A.Tubes(dim=32, size=(4, 8, 8), tube=(2, 4, 4)),
        lambda: randn(6, 3, 4, 8, 8),
    ),
}
LABELS = torch.tensor([0, 1, 2, 0, 1, 2])
MANY = torch.tensor([[1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]])
NUMBERS = torch.tensor([[0.5, -1], [1, 0], [-0.5, 1], [0, 0], [1, 1], [-1, -1.0]])
HEADS = {
    "label": (lambda d: Classify(dim=d, classes=3, pool="mean"), LABELS),
    "labels": (lambda d: Classify(dim=d, classes=3, target="labels", pool="mean"), MANY),
    "numbers": (lambda d: Classify(dim=d, classes=2, target="numbers", pool="mean"), NUMBERS),
    "attention pool": (lambda d: Classify(dim=d, classes=3, pool="attention", heads=2), LABELS),
    "several": (
        lambda d: Several(
            heads={
                "kind": ClassifyConfig(d, 3, pool="mean"),
                "size": ClassifyConfig(d, 2, target="numbers", pool="mean"),
            }
        ),
        {"kind": LABELS, "size": NUMBERS},
    ),
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_pair_trains_and_overfits_one_batch(adapter, head, tmp_path):
    torch.manual_seed(0)
    make, inputs = ADAPTERS[adapter]
    first = make()
    stages = getattr(first, "stages", None)
    body = Backbone(stages=stages) if stages else Backbone(dim=32, depth=2, heads=2)
    make_head, target = HEADS[head]
    model = zoo.Model(first, body, make_head(body.dim))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    x, losses = inputs(), []
    for _ in range(100):
        parts = model.head.loss(model(x), {"target": target})
        loss = sum(total / count for total, count in parts.values())
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[2] < losses[0] and losses[-1] < 0.25 * losses[0]
    model.save(tmp_path / "m")
    again = zoo.load(tmp_path / "m").eval()
    with torch.no_grad():
        torch.testing.assert_close(again(x), model.eval()(x))


def test_losses_are_sums_and_counts_of_samples():
    head = Classify(dim=4, classes=3, target="labels")
    logits, target = randn(6, 3), MANY
    total, count = head.loss(logits, {"target": target})["loss"]
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits, target.float())
    torch.testing.assert_close(total / count, wanted)
    head = Classify(dim=4, classes=2, target="numbers")
    total, count = head.loss(randn(6, 2), {"target": NUMBERS})["loss"]
    torch.testing.assert_close(total / count, torch.nn.functional.mse_loss(randn(6, 2), NUMBERS))
    soft = torch.eye(3)[LABELS]
    head = Classify(dim=4, classes=3)
    hard = head.loss(logits, {"target": LABELS})["loss"][0]
    torch.testing.assert_close(head.loss(logits, {"target": soft})["loss"][0], hard)


def test_several_says_what_it_takes():
    with pytest.raises(zoo.OptionError, match="heads of one width; got"):
        Several(heads={"a": ClassifyConfig(4, 2), "b": ClassifyConfig(8, 2)})


def test_several_heads_answer_no_raw_sample():
    model = zoo.create("vit_mu_patch8_32", head=None)
    head = Several(heads={"a": ClassifyConfig(32, 2), "b": ClassifyConfig(32, 3)})
    model = zoo.Model(model.adapter, model.backbone, head)
    with pytest.raises(zoo.UserError, match="this one has several heads"):
        model.predict("a.png")
