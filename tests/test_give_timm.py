"""Models given to timm and taken from it: whatever pools and wherever the last norm is, it answers as
ours does, or nothing is given."""

from typing import Any

import pytest
import timm
import torch
from peers import distance, noisy, pixels
from timm.models import save_for_hf

import zoo
from zoo.errors import OptionError
from zoo.shapes import pair

FAMILIES = [f for f in zoo.families.FAMILIES if "timm" in f.rules]
IDS = [f.name for f in FAMILIES]


def small(family, **options):
    """One of a family that timm has, with few blocks, and noise for weights."""
    name = next(n for n in family.names if "_mu" not in n)
    swin = "swin" in family.name
    shape: dict = {"depths": (1, 1), "heads": (3, 6)} if swin else {"depth": 1}
    if not swin and family.name != "naflex":
        shape["size"] = 2 * family.parse(name)["patch"]
    torch.manual_seed(0)
    return noisy(zoo.create(name, **{**shape, **options}))


def opened(model, folder):
    """What timm makes of it."""
    place = model.save(folder, layout="timm")
    return timm.create_model(f"local-dir:{place}", pretrained=True).eval()


def views(model):
    return pixels(3, *pair(model.adapter.config.size))


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES, ids=IDS)
def test_timm_answers_as_a_model_of_each_family(family, tmp_path):
    ours = small(family, classes=5)
    theirs, again = opened(ours, tmp_path / "out"), zoo.load(tmp_path / "out").eval()
    x = views(ours)
    assert distance(ours(x), theirs(x)) < 1e-5 and distance(again(x), theirs(x)) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("norm", ["none", "layer"])
@pytest.mark.parametrize("pool", ["class", "mean"])
@pytest.mark.parametrize("family", FAMILIES, ids=IDS)
def test_timm_pools_as_ours_does_or_is_given_nothing(family, pool, norm, tmp_path):
    body = "none" if norm == "layer" else "layer"
    told = {"head.pool": pool, "head.norm": norm, "backbone.norm": body}
    try:
        ours = small(family, classes=5, **told)
        theirs = opened(ours, tmp_path / "out")
    except OptionError as error:
        assert "save it in ours" in str(error) or "class" in str(error)
        assert not (tmp_path / "out").exists()
        return
    x, again = views(ours), zoo.load(tmp_path / "out").eval()
    assert distance(ours(x), theirs(x)) < 1e-5 and distance(again(x), theirs(x)) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES, ids=IDS)
def test_timm_takes_a_body_of_each_family_or_is_given_nothing(family, tmp_path):
    ours = small(family, head=None)
    try:
        theirs = opened(ours, tmp_path / "out")
    except OptionError as error:
        assert "backbone.norm" in str(error) and ours.backbone.config.norm == "none"
        return
    x = views(ours)
    inner: Any = theirs
    there, again = inner.forward_features(x), zoo.load(tmp_path / "out").eval()
    assert distance(ours.features(x).x, there.reshape(ours.features(x).x.shape)) < 1e-5
    assert distance(again.features(x).x, ours.features(x).x) < 1e-6


@torch.no_grad()
@pytest.mark.parametrize("pool", [None, "token", "avg"])
@pytest.mark.parametrize("family", FAMILIES, ids=IDS)
def test_what_timm_wrote_answers_as_in_timm(family, pool, tmp_path):
    """As `save_for_hf` writes it, with the pool it was made with."""
    like = small(family, classes=5)
    name = str(like.record.name)
    side = like.adapter.config.size
    few: dict = {} if "swin" in name else {"depth": 1}
    few |= {} if "swin" in name or "naflex" in name else {"img_size": side}
    few |= {} if pool is None else {"global_pool": pool}
    try:
        theirs = noisy(timm.create_model(name, num_classes=5, **few))
    except (AssertionError, RuntimeError):  # timm has none
        return
    save_for_hf(theirs, tmp_path / "in")
    ours = zoo.load(tmp_path / "in").eval()
    x = views(ours)
    assert distance(ours(x), theirs(x)) < 1e-5
    assert distance(opened(ours, tmp_path / "out")(x), theirs(x)) < 1e-5
    assert zoo.load(ours.save(tmp_path / "own")).eval()(x).equal(ours(x))


@torch.no_grad()
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "deit_tiny_distilled_patch16_224"])  # fmt: skip
def test_timm_gets_zeros_for_a_bias_that_a_head_has_not(name, tmp_path):
    family = next(f for f in FAMILIES if f.parse(name))
    ours = small(family, classes=3, **{"head.bias": False})
    theirs = opened(ours, tmp_path / "out")
    assert not theirs.state_dict()["head.fc.bias" if "swin" in name else "head.bias"].any()
    assert distance(ours(views(ours)), theirs(views(ours))) < 1e-5


@pytest.mark.parametrize("pool", ["map", "max", "avgmax", ""])
def test_a_pool_that_ours_has_not_is_refused(pool, tmp_path):
    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=3, depth=1, global_pool=pool)
    save_for_hf(theirs, tmp_path / "in")
    with pytest.raises(OptionError, match=f"model_args of .*has global_pool '{pool}'"):
        zoo.load(tmp_path / "in")
