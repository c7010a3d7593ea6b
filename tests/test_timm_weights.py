"""Weights, pools and sizes of our models as timm's: the answers of timm's own, or one sentence."""

import pytest
import timm
import torch

import zoo.plugins.timm as bridge
from zoo.convert import ConversionError
from zoo.errors import OptionError

VIT, SWIN, DISTILLED = "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "deit_tiny_distilled"
DISTILLED += "_patch16_224"
SIGLIP = "vit_base_patch16_siglip_224"
SMALL = dict(embed_dim=32, depth=2, num_heads=2)
TINY = SMALL | dict(img_size=32)
STAGES = dict(depths=(1, 2, 1), embed_dim=24, num_heads=(1, 2, 2))


def noise(*sides, channels=3):
    return torch.randn(1, channels, *sides, generator=torch.Generator().manual_seed(0))


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def timms(name, path, **given):
    """timm's model away from its start, whose weights are written to the path."""
    torch.manual_seed(0)
    model = timm.create_model(name, **given).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    torch.save(model.state_dict(), path)
    return model


def from_file(name, path, **given):
    told = {"file": str(path), "num_classes": 4}
    return timm.create_model(name, pretrained=True, pretrained_cfg_overlay=told, **given).eval()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.pth"


def test_models_pool_as_timms_of_the_name():
    wrong = {}
    for name in (n for n in bridge.NAMES if timm.is_model(n.removeprefix("zoo_"))):
        with torch.device("meta"):
            one, other = (timm.create_model(n) for n in (name, name.removeprefix("zoo_")))
        if one.global_pool != other.global_pool:
            wrong[name] = (one.global_pool, other.global_pool)
    assert not wrong


def test_dinov3_answers_as_timms(path):
    theirs = timms("vit_small_patch16_dinov3", path, num_classes=4, **TINY)
    ours = from_file("zoo_vit_small_patch16_dinov3", path, num_classes=4, **TINY)
    with torch.no_grad():
        close(ours(noise(32, 32)), theirs(noise(32, 32)))


@pytest.mark.parametrize(
    "name, given, side",
    [
        (SWIN, {}, (224, 224)), (SWIN, {"img_size": 256}, (256, 256)),
        (SWIN, {"img_size": (128, 192)}, (128, 192)), (SWIN, {"img_size": 64}, (64, 64)),
        (SWIN, {"img_size": 128, "window_size": 4}, (128, 128)),
        ("swinv2_tiny_window8_256", {"img_size": (64, 96)}, (64, 96)),
    ],
)  # fmt: skip
def test_swin_of_any_size_answers_as_timms(name, given, side, path):
    timms(name, path, num_classes=4, **STAGES)
    theirs, ours = (
        from_file(n, path, num_classes=4, **STAGES, **given) for n in (name, f"zoo_{name}")
    )
    with torch.no_grad():
        close(ours(noise(*side)), theirs(noise(*side)))


@pytest.mark.parametrize(
    "name, given, channels",
    [
        (VIT, SMALL, 3), (VIT, TINY | {"in_chans": 1}, 1), (DISTILLED, TINY, 3), (SIGLIP, TINY, 3),
        ("vit_base_patch32_clip_224", TINY, 3), ("deit3_small_patch16_224", TINY, 3),
    ],
)  # fmt: skip
def test_a_checkpoint_is_converted(name, given, channels, path):
    theirs = timms(name, path, num_classes=4, **given)
    ours = timm.create_model(f"zoo_{name}", num_classes=4, **given, checkpoint_path=path).eval()
    x = noise(*theirs.patch_embed.img_size, channels=channels)
    with torch.no_grad():
        close(ours(x), theirs(x))
    torch.save(ours.state_dict(), path)
    again = timm.create_model(f"zoo_{name}", num_classes=4, **given, checkpoint_path=path).eval()
    with torch.no_grad():
        assert torch.equal(again(x), ours(x))


def test_a_public_clip_gets_a_bias_of_zeros(path):
    theirs = timms("vit_base_patch32_clip_224", path, num_classes=4, **TINY)
    theirs.head.bias.data.zero_()
    torch.save({k: v for k, v in theirs.state_dict().items() if k != "head.bias"}, path)
    ours = timm.create_model("zoo_vit_base_patch32_clip_224", num_classes=4, **TINY,
                             checkpoint_path=path)  # fmt: skip
    with torch.no_grad():
        close(ours.eval()(noise(32, 32)), theirs(noise(32, 32)))


@pytest.mark.parametrize("num_classes", [3, 4])
@pytest.mark.parametrize("wrong", ["absent", "unknown", "shape"])
@pytest.mark.parametrize("ours", [True, False])
def test_weights_of_another_model_are_named(wrong, ours, num_classes, path):
    name, block = (f"zoo_{VIT}", "stages.0.blocks.1.") if ours else (VIT, "blocks.1.")
    state = timm.create_model(name, num_classes=4, **SMALL).state_dict()
    if wrong == "absent":
        state = {k: v for k, v in state.items() if block not in k}
    elif wrong == "unknown":
        state |= {k.replace("1.", "9."): v for k, v in state.items() if block in k}
    else:
        state = {k: v[..., :8] if block in k else v for k, v in state.items()}
    torch.save(state, path)
    with pytest.raises(ConversionError, match=rf"blocks\.{9 if wrong == 'unknown' else 1}\."):
        from_file(f"zoo_{VIT}", path, num_classes=num_classes, **SMALL)
    with pytest.raises(ConversionError):
        timm.create_model(f"zoo_{VIT}", num_classes=4, **SMALL, checkpoint_path=path)


@pytest.mark.parametrize("given", [{"depth": 3}, {"embed_dim": 48}], ids=["depth", "dim"])
@pytest.mark.parametrize("name", [VIT, f"zoo_{VIT}"])
def test_weights_of_another_shape_are_named(name, given, path):
    torch.save(timm.create_model(name, num_classes=4, **SMALL).state_dict(), path)
    for classes in (3, 4):
        with pytest.raises(ConversionError):
            from_file(f"zoo_{VIT}", path, num_classes=classes, **{**SMALL, **given})


def test_weights_of_other_classes_are_named_where_they_are_wanted(path):
    torch.save(timm.create_model(VIT, num_classes=4, **SMALL).state_dict(), path)
    with pytest.raises(
        ConversionError, match=r"head\.out\.weight: \(4, 32\), the model's is \(5, 32\)"
    ):
        timm.create_model(f"zoo_{VIT}", num_classes=5, **SMALL, checkpoint_path=path)


@pytest.mark.parametrize("name", [VIT, SWIN])
def test_our_own_keys_of_another_size_are_resized_alike(name, path):
    given = (SMALL if name == VIT else STAGES) | {"num_classes": 4}
    timms(name, path, **given)
    wanted = from_file(f"zoo_{name}", path, **given, img_size=64).state_dict()
    ours = timm.create_model(f"zoo_{name}", **given, checkpoint_path=path)
    torch.save(ours.state_dict(), path)
    found = from_file(f"zoo_{name}", path, **given, img_size=64).state_dict()
    assert all(torch.equal(found[key], tensor) for key, tensor in wanted.items())


@pytest.mark.parametrize("classes", [0, 3])
def test_a_distilled_model_is_timms(classes, path):
    theirs = timms(DISTILLED, path, num_classes=classes, **TINY)
    ours = timm.create_model(f"zoo_{DISTILLED}", num_classes=classes, **TINY, checkpoint_path=path)
    x, ours = noise(32, 32), ours.eval()
    with torch.no_grad():
        features = theirs.forward_features(x)
        close(ours(x), theirs(x))
        for given in (False, True):
            close(ours.forward_head(features, given), theirs.forward_head(features, given))
    assert [*map(str, ours.get_classifier())] == [*map(str, theirs.get_classifier())]
    for model in (theirs, ours):
        model.reset_classifier(5, "")
        model.set_distilled_training()
        assert [len(answer[0]) for answer in model.train()(x)] == [5, 5]


def test_pretrained_distilled_weights_take_other_classes(path):
    timms(DISTILLED, path, num_classes=4, **TINY)
    assert from_file(f"zoo_{DISTILLED}", path, num_classes=5, **TINY)(noise(32, 32)).shape == (1, 5)


@pytest.mark.parametrize(
    "name, pool", [(SIGLIP, "token"), (SWIN, "token"), (SWIN, ""), (DISTILLED, "avg"), (VIT, "max")]
)
def test_a_pool_that_a_model_has_no_tokens_for_is_refused(name, pool):
    with torch.device("meta"):
        with pytest.raises(OptionError, match=f"create_model takes the global_pool .*got '{pool}'"):
            timm.create_model(f"zoo_{name}", num_classes=3, global_pool=pool)
        model = timm.create_model(f"zoo_{name}", num_classes=3)
    with pytest.raises(OptionError, match=f"reset_classifier takes the global_pool .*'{pool}'"):
        model.reset_classifier(3, pool)


def test_a_linear_of_several_stages_wants_a_pool():
    model = timm.create_model(f"zoo_{SWIN}", num_classes=0, global_pool="", **STAGES)
    with pytest.raises(OptionError, match="num_classes with a pool"):
        model.reset_classifier(3)


@pytest.mark.parametrize("name", [VIT, SIGLIP])
@pytest.mark.parametrize(
    "given", [{"num_classes": 3, "global_pool": ""}, {"num_classes": 0, "global_pool": ""},
              {"num_classes": -1}, {"num_classes": 0}],
)  # fmt: skip
def test_without_a_pool_or_classes_shapes_are_timms(name, given):
    theirs, ours = (timm.create_model(n, **TINY, **given) for n in (name, f"zoo_{name}"))
    assert ours(noise(32, 32)).shape == theirs(noise(32, 32)).shape
    if "global_pool" in given:
        assert {k.split(".")[1] for k in ours.state_dict() if k.startswith("head.")} <= {"out"}
        with pytest.raises(OptionError, match="forward takes details"):
            ours(noise(32, 32), details=("states",))
