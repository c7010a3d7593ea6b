"""Which layout keys are of, and what conversion says of what a library stores though it follows."""

import pytest
import torch
from peers import CASES, noisy

import zoo
from zoo.convert import Rule, from_theirs, to_theirs

# Layouts whose further names, those of text towers and mask tokens, may be absent.
AND_MORE = (("timm", "fb"), ("hf", "hf_whole"), ("openai", "openclip"), ("baai", "baai_mim"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_every_reference_is_of_its_layout_and_no_other(case):
    model = zoo.create(case.name, **dict(case.options))
    theirs = case.state(noisy(case.peer()))
    assert model.layout_of(theirs) == case.layout
    for layout in model.record.rules:
        if layout != case.layout and (case.layout, layout) not in AND_MORE:
            with pytest.raises(zoo.UserError):
                zoo.load_state(model, theirs, layout=layout)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_facts_of_a_layout_are_what_its_reference_needs(case):
    """What `create` has to be told for a layout stands in the family."""
    family = next(f for f in zoo.families.FAMILIES if f.parse(case.name) is not None)
    for name, value in family.facts.get(case.layout, {}).items():
        zoo.create(case.name, **{name: value})
        if name in ("eps", "activation", "position_prefix"):
            assert (name, value) in case.options


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


def test_places_in_older_clips_may_be_absent_and_are_compared():
    model, key = zoo.create("vit_mu_patch8_clip_32"), "vision_model.embeddings.position_ids"
    state = model.state_for("hf")
    old = {**state, key: torch.arange(17)[None]}
    zoo.load_state(model, old, layout="hf")
    assert torch.equal(model.state_for("hf")[key], old[key])
    with pytest.raises(zoo.UserError, match="not those that follow"):
        zoo.load_state(model, {**old, key: torch.arange(17)[None] + 1}, layout="hf")
    fresh = zoo.create("vit_mu_patch8_clip_32")
    assert key not in zoo.load_state(fresh, state, layout="hf").state_for("hf")


SHARES = (
    Rule("qkv.bias", "q", piece=(0, 1, 3)),
    Rule("qkv.bias", "v", piece=(2, 3, 3)),
    Rule("scale", "scale", form="h 1 1 -> h"),
    Rule("kernel", "kernel", form="a (c p2) -> (p2 c) a"),
)


def test_shares_and_forms_go_there_and_back():
    theirs = {
        "qkv.bias": torch.arange(6.0),
        "scale": torch.randn(3, 1, 1),
        "kernel": torch.randn(3, 4),
    }
    shapes = {"q": (2,), "v": (2,), "scale": (3,), "kernel": (4, 3)}
    sizes = {key: torch.Size(shape) for key, shape in shapes.items()}
    ours, carried = from_theirs(SHARES, theirs, sizes)
    assert ours["q"].tolist() == [0, 1] and ours["v"].tolist() == [4, 5]
    back = to_theirs(SHARES, ours, carried=carried)
    assert back.keys() == theirs.keys() and all(torch.equal(back[k], t) for k, t in theirs.items())
    assert to_theirs(SHARES, ours)["qkv.bias"].tolist() == [0, 1, 0, 0, 4, 5]  # nothing was carried
    assert theirs["qkv.bias"].tolist() == [0, 1, 2, 3, 4, 5]


def test_tensors_of_other_axes_than_the_form_are_listed():
    theirs = {"qkv.bias": torch.arange(6.0), "scale": torch.randn(3), "kernel": torch.randn(5)}
    sizes = {
        "q": torch.Size((2,)),
        "v": torch.Size((2,)),
        "scale": torch.Size((3,)),
        "kernel": torch.Size((4, 3)),
    }
    with pytest.raises(zoo.UserError, match=r"2 tensors.*scale: shape.*kernel: shape"):
        from_theirs(SHARES, theirs, sizes)
