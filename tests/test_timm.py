"""Our models as timm's: names, conventions, weights, and answers beside timm's own."""

import copy

import peers
import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.models import group_parameters
from timm.optim import create_optimizer_v2, param_groups_weight_decay

import zoo
import zoo.plugins.timm as bridge
from zoo.errors import OptionError

VIT, SWIN = "zoo_vit_mu_patch8_32", "zoo_swin_mu_patch4_window4_64"
SIZES = {VIT: 32, SWIN: 64}


def pixels(side, channels=3, batch=2):
    return torch.randn(batch, channels, side, side, generator=torch.Generator().manual_seed(0))


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def pair(name):
    """timm's model away from its start, and ours as timm's with the same weights."""
    theirs = peers.noisy(peers.vit() if name == VIT else peers.swin(strict_img_size=False))
    ours = timm.create_model(name, num_classes=7)
    return theirs.eval(), zoo.load_state(ours, theirs.state_dict(), "timm").eval()


def test_every_name_of_pictures_is_timms():
    video = ("swin3d", "ast", "bert", "gpt2", "llama2", "llama3", "llama", "tinyllama")
    wanted = [n for n in zoo.list_models() if n.split("_")[0] not in video]
    assert [f"zoo_{n}".replace(".", "_") for n in wanted] == bridge.NAMES
    assert set(bridge.NAMES) <= set(timm.list_models("zoo_*"))


@pytest.mark.parametrize("name", bridge.NAMES)
def test_every_name_builds_and_has_the_attributes(name):
    with torch.device("meta"):
        model = timm.create_model(name, num_classes=3)
    last, keys = model.get_classifier(), model.pretrained_cfg["classifier"]
    lasts, keys = (last, keys) if isinstance(last, tuple) else ((last,), (keys,))
    assert model.num_classes == 3 and {one.out_features for one in lasts} == {3}
    assert model.num_features == model.embed_dim == model.backbone.dim
    assert {one.in_features for one in lasts} == {model.head_hidden_size}
    assert model.pretrained_cfg["architecture"] == name
    assert model.pretrained_cfg["first_conv"] + ".weight" in model.state_dict()
    assert {model.get_submodule(key) for key in keys} == {*lasts}
    assert len(model.feature_info) in (len(model.backbone.blocks), len(model.backbone.stages))


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_each_step_is_timms(name):
    theirs, ours = pair(name)
    x = pixels(SIZES[name])
    with torch.no_grad():
        close(ours(x), theirs(x))
        features = ours.forward_features(x)
        close(features, theirs.forward_features(x))
        close(ours.forward_head(features), ours(x))
        wanted = theirs.forward_head(theirs.forward_features(x), pre_logits=True)
        close(ours.forward_head(features, pre_logits=True), wanted)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("name", [VIT, SWIN])
def test_intermediates_are_timms(name, norm):
    theirs, ours = pair(name)
    x = pixels(SIZES[name])
    given = {"indices": [0, 1], "norm": norm}
    with torch.no_grad():
        final, maps = ours.forward_intermediates(x, **given)
        wanted_final, wanted = theirs.forward_intermediates(x, **given)
        close(final, wanted_final)
        for one, other in zip(maps, wanted, strict=True):
            close(one, other)
        alone = ours.forward_intermediates(x, **given, intermediates_only=True)
        assert all(torch.equal(one, other) for one, other in zip(alone, maps, strict=True))
        told = ours.forward_intermediates(x, **given, output_dict=True)
        assert [*told] == ["image_features", "image_intermediates"]
        spread = ours.forward_intermediates(x, **given, output_fmt="NHWC")[1]
        rows = ours.forward_intermediates(x, **given, output_fmt="NLC")[1]
        for one, two, three in zip(maps, spread, rows, strict=True):
            assert torch.equal(one.movedim(1, -1), two)
            assert torch.equal(one.flatten(2).mT, three)
    with pytest.raises(OptionError, match="output_fmt"):
        ours.forward_intermediates(x, output_fmt="CHW")


def test_prefix_tokens_come_beside_the_maps():
    theirs, ours = pair(VIT)
    given = {"indices": 1, "return_prefix_tokens": True, "intermediates_only": True}
    with torch.no_grad():
        (one,), (other,) = (m.forward_intermediates(pixels(32), **given) for m in (ours, theirs))
    close(one[0], other[0])
    close(one[1], other[1])


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_features_only(name):
    theirs, ours = pair(name)
    x = pixels(SIZES[name])
    made = timm.create_model(name, features_only=True, out_indices=(0,), feature_cls="getter",
                             **({} if name == VIT else {"pad": "attend_after"}))  # fmt: skip
    known = made.model.state_dict()
    made.model.load_state_dict({k: v for k, v in ours.state_dict().items() if k in known})
    with torch.no_grad():
        (found,) = made.eval()(x)
        (wanted,) = theirs.forward_intermediates(x, indices=[0], intermediates_only=True)
    close(found, wanted)
    assert made.feature_info.channels() == [found.shape[1]]
    assert made.feature_info.reduction() == [SIZES[name] // found.shape[-1]]
    assert len(made.model.backbone.blocks) < len(ours.backbone.blocks), "the rest is taken away"


SMALL = dict(img_size=64, num_classes=0)
PLAIN = dict(**SMALL, depth=3, embed_dim=48, num_heads=3)
WINDOWS = dict(**SMALL, depths=(1, 2, 1), embed_dim=24, num_heads=(1, 2, 2), window_size=4)


@pytest.mark.parametrize("given", [{}, {"out_indices": 2}, {"out_indices": (0,)}, {"feature_cls": "getter"}],
                         ids=lambda given: next(iter(given), "default"))  # fmt: skip
@pytest.mark.parametrize(
    "name, small",
    [("vit_tiny_patch16_224", PLAIN), ("deit_tiny_distilled_patch16_224", PLAIN),
     ("deit3_small_patch16_224", PLAIN), ("vit_small_patch14_reg4_dinov2", PLAIN | {"img_size": 56}),
     ("vit_small_patch16_dinov3", PLAIN), ("beit_base_patch16_224", PLAIN),
     ("eva02_tiny_patch14_336", PLAIN | {"img_size": 56}), ("vit_base_patch16_siglip_224", PLAIN),
     ("vit_base_patch16_clip_224", PLAIN),
     ("swin_tiny_patch4_window7_224", WINDOWS), ("swinv2_tiny_window8_256", WINDOWS)],
)  # fmt: skip
def test_features_only_have_timms_layout_in_every_family(name, small, given):
    """timm's maps are (B, D, h, w), of Swin (B, h, w, D), but with its getter."""
    theirs = timm.create_model(name, **small)
    state = zoo.load_state(timm.create_model(f"zoo_{name}", **small), theirs.state_dict(), "timm")
    made = [
        timm.create_model(n, **small, **given, features_only=True) for n in (name, f"zoo_{name}")
    ]
    for net, source in zip(made, (theirs, state), strict=True):
        inner = getattr(net, "model", net)
        have = {
            k.replace("layers.", "layers_") if inner is net else k: v
            for k, v in source.state_dict().items()
        }
        inner.load_state_dict({k: v for k, v in have.items() if k in inner.state_dict()})
    x = pixels(small["img_size"])
    with torch.no_grad():
        wanted, found = (net.eval()(x) for net in made)
    for one, other in zip(found, wanted, strict=True):
        close(one, other)
    one, other = (net.feature_info for net in made)
    assert (one.channels(), one.reduction()) == (other.channels(), other.reduction())
    assert made[0].output_fmt == made[1].output_fmt


@pytest.mark.parametrize("name, way", [(VIT, "list"), (SWIN, "hook"), (SWIN, "dict"), (VIT, "fx")])
def test_a_way_that_finds_no_maps_is_refused(name, way):
    with pytest.raises(OptionError, match=f"create_model takes the feature_cls .*got '{way}'"):
        timm.create_model(name, features_only=True, feature_cls=way)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "swin_tiny_patch4_window7_224"])
def test_pretrained_weights_are_converted(name, tmp_path):
    torch.manual_seed(0)
    file = str(tmp_path / "model.safetensors")
    save_file(timm.create_model(name).state_dict(), file)
    given = {"pretrained": True, "pretrained_cfg_overlay": {"file": file, "hf_hub_id": None}}
    theirs = timm.create_model(name, **given).eval()
    ours = timm.create_model(f"zoo_{name}", **given).eval()
    with torch.no_grad():
        close(ours(pixels(224, batch=1)), theirs(pixels(224, batch=1)))
    other = {**given, "num_classes": 5, "in_chans": 1}
    if name.startswith("vit"):
        other["img_size"] = 96
    theirs, ours = (timm.create_model(n, **other).eval() for n in (name, f"zoo_{name}"))
    x = pixels(other.get("img_size", 224), 1, 1)
    with torch.no_grad():
        close(ours.forward_features(x), theirs.forward_features(x))
    assert ours(x).shape == (1, 5)


def test_timms_list_knows_which_have_weights():
    tagged = "zoo_vit_base_patch16_224.augreg2_in21k_ft_in1k"
    assert tagged in timm.list_models("zoo_*", pretrained=True)
    cfg = timm.get_pretrained_cfg(tagged)
    assert cfg.hf_hub_id == "timm/vit_base_patch16_224.augreg2_in21k_ft_in1k"
    data = timm.data.resolve_data_config({}, model=timm.create_model(VIT))
    assert data["input_size"] == (3, 32, 32)


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_the_classifier_is_renewed_alone(name):
    model = timm.create_model(name, num_classes=7)
    body = copy.deepcopy(model.backbone.state_dict())
    x = pixels(SIZES[name])
    model.reset_classifier(4)
    assert model(x).shape == (2, 4) and model.num_classes == 4
    model.reset_classifier(0)
    assert model(x).shape == (2, model.num_features)
    model.reset_classifier(0, "")
    assert model(x).shape == model.forward_features(x).shape
    model.reset_classifier(3, "avg")
    assert model(x).shape == (2, 3)
    assert all(torch.equal(v, model.backbone.state_dict()[k]) for k, v in body.items())
    assert timm.create_model(name, num_classes=0)(x).shape == (2, model.num_features)
    with pytest.raises(OptionError, match="global_pool"):
        model.reset_classifier(3, "max")


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_groups_follow_the_depth(name):
    model = timm.create_model(name, num_classes=7)
    groups = group_parameters(model, model.group_matcher())
    found = {n: i for i, names in groups.items() for n in names}
    for key, depth in ((k, model.depth_of(k)) for k, _ in model.named_parameters()):
        norm = key.startswith("backbone.norm")  # timm has it with the last block
        assert found[key] == depth - norm, key
    assert len(group_parameters(model, model.group_matcher(coarse=True))) <= len(groups)


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_timms_optimizer_takes_decay_and_rates(name):
    model = timm.create_model(name, num_classes=7)
    without = model.no_weight_decay()
    plain = param_groups_weight_decay(model, 0.1, no_weight_decay_list=without)
    wanted = {id(p) for g in zoo_groups(model) for p in g}
    decayed = {id(p) for g in plain if g["weight_decay"] for p in g["params"]}
    assert decayed == wanted
    optimizer = create_optimizer_v2(model, "adamw", lr=1.0, weight_decay=0.1, layer_decay=0.5)
    scales = {id(p): g["lr_scale"] for g in optimizer.param_groups for p in g["params"]}
    assert len(scales) == len(list(model.parameters()))
    assert scales[id(model.adapter.stem.weight)] < scales[id(model.head.out.weight)] == 1.0
    model(pixels(SIZES[name])).sum().backward()
    optimizer.step()


def zoo_groups(model):
    from zoo.training.config import OptimConfig
    from zoo.training.optimise import parameter_groups

    groups = parameter_groups(model, OptimConfig(lr=0.1, weight_decay=0.1))
    return [[p for _, p in g["params"]] for g in groups if g["weight_decay"]]


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_input_size_is_set_as_loading_sets_it(name):
    theirs, ours = pair(name)
    side = SIZES[name] * 2
    if name == VIT:
        theirs.set_input_size(img_size=(side, side))
        ours.set_input_size(img_size=(side, side))
        assert ours.adapter.config.size == (side, side)
        with torch.no_grad():
            close(ours(pixels(side)), theirs(pixels(side)))
    else:
        for given in ({"window_size": 8}, {}):
            theirs.set_input_size(img_size=(side, side), **given)
            ours.set_input_size(img_size=(side, side), **given)
            with torch.no_grad():
                close(ours(pixels(side)), theirs(pixels(side)))
            side += 32  # and windows keep their share of the grid
    assert not ours.training


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_checkpointing_changes_no_gradient(name):
    _, ours = pair(name)
    ours.train()
    x, grads = pixels(SIZES[name]), []
    for enable in (False, True):
        ours.set_grad_checkpointing(enable)
        ours.zero_grad()
        ours(x).square().sum().backward()
        grads.append(ours.adapter.stem.weight.grad.clone())
    close(*grads)


@pytest.mark.parametrize(
    "option",
    [
        {"drop_rate": 0.1}, {"proj_drop_rate": 0.1}, {"attn_drop_rate": 0.1}, {"drop_path_rate": 0.1},
        {"patch_drop_rate": 0.5}, {"init_values": 0.1}, {"img_size": 64}, {"in_chans": 1},
        {"patch_size": 4}, {"depth": 3}, {"global_pool": "avg"}, {"dynamic_img_size": True},
        {"embed_dim": 48, "num_heads": 3},
    ],
    ids=lambda option: next(iter(option)),
)  # fmt: skip
def test_timms_options(option):
    model = timm.create_model(VIT, num_classes=7, **option)
    plain = timm.create_model(VIT, num_classes=7)
    side, channels = option.get("img_size", 32), option.get("in_chans", 3)
    assert model(pixels(side, channels)).shape == (2, 7)
    parts = [(m.adapter.config, m.backbone.config, m.head.config) for m in (model, plain)]
    assert (parts[0] != parts[1]) == ("dynamic_img_size" not in option)


def test_an_unknown_option_gets_a_sentence():
    with pytest.raises(OptionError, match="drop_pth"):
        timm.create_model(VIT, drop_pth=0.1)


def test_weights_go_back_and_forth():
    model = timm.create_model(VIT, num_classes=7)
    peer = peers.vit()
    peer.load_state_dict(model.state_for("timm"))
    close(peer.eval()(pixels(32)), model.eval()(pixels(32)))


@pytest.mark.parametrize("name", [n for n in bridge.NAMES if "_mu_" in n])
def test_features_and_head_make_the_answer(name):
    model = timm.create_model(name, num_classes=3).eval()
    side = model.pretrained_cfg["input_size"][-1]
    with torch.no_grad():
        features = model.forward_features(pixels(side))
        assert torch.equal(model.forward_head(features), model(pixels(side)))
        if getattr(model.head, "second", None) is None:
            last = model.get_classifier()
            close(last(model.forward_head(features, pre_logits=True)), model(pixels(side)))
        maps = model.forward_intermediates(pixels(side), intermediates_only=True)
    for made, info in zip(maps, model.feature_info, strict=True):
        assert made.shape[1] == info["num_chs"] and made.shape[-1] == side // info["reduction"]


def test_equal_depths_stay_several():
    model = timm.create_model(SWIN, depths=[1, 1], num_heads=[2, 2], window_size=[4, 4])
    assert [len(stage.blocks) for stage in model.backbone.stages] == [1, 1]
