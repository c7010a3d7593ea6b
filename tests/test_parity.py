"""ViT in its variants against timm, at other sizes too, and what conversion says when keys do not fit."""

import peers
import pytest
import timm
import torch
from peers import distance, noisy

import zoo

CASES = {
    "plain": ({}, {}),
    "registers": ({"reg_tokens": 2}, {"registers": 2}),
    "layer scale": ({"init_values": 0.1}, {"layer_scale": 0.1}),
    "no qkv bias": ({"qkv_bias": False}, None),
    "mean pool": (
        {"global_pool": "avg", "fc_norm": True},
        {"pool": "mean", "backbone.norm": "none", "head.norm": "layer"},
    ),
    "grey, stride": ({"in_chans": 1}, {"channels": 1}),
    "rectangle": ({"img_size": (32, 48)}, {"size": (32, 48)}),
}  # fmt: skip


@pytest.mark.parametrize("case", [name for name, (_, ours) in CASES.items() if ours is not None])
def test_vit_equals_timm_and_goes_back(case):
    theirs, ours = CASES[case]
    peer = noisy(peers.vit(**theirs))
    model = zoo.create("vit_mu_patch8_32", classes=7, **ours).eval()
    zoo.load_state(model, peer.state_dict(), layout="timm")
    channels, size = theirs.get("in_chans", 3), theirs.get("img_size", 32)
    pixels = torch.randn(
        2, channels, *zoo.shapes.pair(size), generator=torch.Generator().manual_seed(1)
    )
    with torch.no_grad():
        assert distance(model(pixels), peer(pixels)) < 1e-5
        if "fc_norm" not in theirs:
            assert distance(model.features(pixels).x, peer.forward_features(pixels)) < 1e-5
    back = model.state_for("timm")
    assert back.keys() == peer.state_dict().keys()
    assert all(torch.equal(back[key], tensor) for key, tensor in peer.state_dict().items())
    noisy(peers.vit(**theirs)).load_state_dict(back)  # the peer takes it


def test_vit_at_another_size_equals_timm_at_that_size():
    peer = noisy(peers.vit(dynamic_img_size=True))
    model = zoo.create("vit_mu_patch8_32", classes=7).eval()
    zoo.load_state(model, peer.state_dict(), layout="timm")
    for size in ((64, 32), (24, 40), (32, 32)):
        pixels = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(2))
        with torch.no_grad():
            assert distance(model(pixels), peer(pixels)) < 1e-5, size


@pytest.mark.parametrize("name", [n for n in zoo.families.vit.NAMES if "_mu_" not in n])
def test_every_vit_has_timms_parameter_count(name):
    with torch.device("meta"):
        ours, theirs = zoo.create(name), timm.create_model(name, num_classes=1000)
    count = [sum(p.numel() for p in m.parameters()) for m in (ours, theirs)]
    assert count[0] == count[1]


def test_conversion_lists_everything_that_is_wrong():
    model = zoo.create("vit_mu_patch8_32", classes=7)
    state = model.state_for("timm")
    state["module.norm.weight"] = state.pop("norm.weight")
    state["head.weight"] = state["head.weight"].T
    del state["blocks.1.mlp.fc1.bias"]
    with pytest.raises(zoo.UserError) as error:
        zoo.load_state(model, state, layout="timm")
    for part in (
        "4 tensors that do not fit",
        "norm.weight: missing (wanted for backbone.norm.weight)",
        "module.norm.weight: unknown",
        "head.weight: shape (32, 7), the model's head.out.weight is (7, 32)",
        "blocks.1.mlp.fc1.bias: missing",
    ):
        assert part in str(error.value)
