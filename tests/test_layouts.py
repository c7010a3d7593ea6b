"""Which layout keys are of, and what conversion says of what a library stores though it follows."""

import pytest
import torch
from peers import CASES, noisy

import zoo


def named(name, layout):
    return next(case for case in CASES if (case.name, case.layout) == (name, layout))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_every_reference_is_of_its_layout_and_no_other(case):
    model = zoo.create(case.name, **dict(case.options))
    theirs = case.state(noisy(case.peer()))
    assert model.layout_of(theirs) == case.layout
    for layout in model.record.rules:
        if layout != case.layout:
            with pytest.raises(zoo.UserError):
                zoo.load_state(model, theirs, layout=layout)


def test_our_own_keys_are_of_zoo():
    model = zoo.create("vit_mu_patch8_32")
    assert model.layout_of(model.state_dict()) == "zoo"


def test_the_nearest_layout_is_named_with_all_that_differs():
    model = zoo.create("swin_mu_patch4_window4_64")
    state = model.state_for("timm_old")
    del state["layers.0.blocks.1.attn_mask"]
    state["module.norm.weight"] = state.pop("norm.weight")
    with pytest.raises(zoo.UserError) as error:
        model.layout_of(state)
    for part in (
        "none of the layouts zoo, timm, timm_old, torchvision, hf, hf_v4",
        "3 differ from the nearest, timm_old: ",
        "norm.weight: missing",
        "layers.0.blocks.1.attn_mask: missing",
        "module.norm.weight: unknown",
    ):
        assert part in str(error.value)


STORED = {"timm_old": ("layers.1.blocks.0.attn.relative_position_index", "layers.0.blocks.1.attn_mask"),
          "torchvision": ("features.1.0.attn.relative_position_index",)}  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "key"), [(k, key) for k, keys in STORED.items() for key in keys]
)
def test_stored_tensors_that_follow_are_compared_and_wanted(layout, key):
    model = zoo.create("swin_mu_patch4_window4_64")
    state = model.state_for(layout)
    zoo.load_state(model, state, layout=layout)
    other = {**state, key: state[key].roll(1, -1)}
    for wrong, says in (
        (other, "not those that follow"),
        ({k: t for k, t in state.items() if k != key}, "missing"),
    ):
        with pytest.raises(zoo.UserError, match=f"{key}: .*{says}"):
            zoo.load_state(model, wrong, layout=layout)


def test_masks_in_half_precision_are_taken_and_given_back():
    model = zoo.create("swin_mu_patch4_window4_64")
    state = model.state_for("timm_old")
    key = "layers.0.blocks.1.attn_mask"
    state[key] = state[key].half()
    zoo.load_state(model, state, layout="timm_old")
    assert model.state_for("timm_old")[key].dtype == torch.float16
