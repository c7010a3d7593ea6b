"""`model.maps`: what each stage gives, against timm and transformers, at any size."""

import peers
import pytest
import timm
import torch
import transformers as hf

import zoo
from zoo.nn import MapNorm, Pyramid

PICTURES = [n for n in zoo.list_models() if "mu" in n.split("_") and n.split("_")[0] not in
            ("bert", "gpt2", "llama", "ast", "swin3d")]  # fmt: skip


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def pixels(*sides, batch=2):
    return torch.randn(batch, 3, *sides, generator=torch.Generator().manual_seed(3))


def twin(peer, name, **options):
    """The peer away from its start, and ours with its weights."""
    peer = peers.noisy(peer)
    model = zoo.create(name, classes=7, **options).eval()
    return peer, zoo.load_state(model, peer.state_dict(), "timm").eval()


@pytest.mark.parametrize("size", [(64, 64), (64, 96), (32, 128)])
def test_swin_maps_are_timms_intermediates(size):
    peer = peers.swin(img_size=size, strict_img_size=False)
    peer, model = twin(peer, "swin_mu_patch4_window4_64", pad="attend_after")
    with torch.no_grad():
        wanted = peer.forward_intermediates(pixels(*size), intermediates_only=True, norm=True)
        maps = model.maps(pixels(*size))
    assert [m.shape[1] for m in maps] == [16, 32] and len(wanted) == 2
    for mine, theirs in zip(maps, wanted, strict=True):
        close(mine, theirs)


def test_swin_maps_are_those_of_timms_features_only_but_for_the_last_norm():
    name = "swin_tiny_patch4_window7_224"
    small = dict(embed_dim=16, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2))
    body = peers.noisy(timm.create_model(name, features_only=True, **small))
    whole = timm.create_model(name, **small).eval()
    own = {k.replace("layers_", "layers."): v for k, v in body.state_dict().items()}
    missing, unknown = whole.load_state_dict(own, strict=False)
    assert not unknown and all(k.startswith(("head", "norm")) for k in missing)
    model = zoo.create(name, dim=16, depths=(1, 1, 1, 1), heads=(1, 1, 2, 2), pad="attend_after")
    zoo.load_state(model.eval(), whole.state_dict(), "timm")
    with torch.no_grad():
        wanted = [m.movedim(-1, 1) for m in body(pixels(224, 224, batch=1))]
        maps = model.maps(pixels(224, 224, batch=1))
        wanted[-1] = model.backbone.norm(wanted[-1].movedim(1, -1)).movedim(-1, 1)
    assert [tuple(m.shape[1:]) for m in maps] == [
        (16, 56, 56),
        (32, 28, 28),
        (64, 14, 14),
        (128, 7, 7),
    ]
    for mine, theirs in zip(maps, wanted, strict=True):
        close(mine, theirs)


def test_swin_maps_are_the_states_of_transformers():
    config = hf.SwinConfig(image_size=64, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[1, 2],
                           window_size=4, out_features=["stage1", "stage2"])  # fmt: skip
    peer = peers.noisy(hf.SwinBackbone(config))  # norms of its own behind each stage
    classifier = hf.SwinForImageClassification(config).eval()
    own = {k: v for k, v in peer.state_dict().items() if "hidden_states_norms" not in k}
    missing, unknown = classifier.load_state_dict(own, strict=False)
    assert not unknown and all(k.startswith(("classifier", "swin.layernorm")) for k in missing)
    model = zoo.create("swin_mu_patch4_window4_64", classes=2, pad="attend").eval()
    zoo.load_state(model, classifier.state_dict(), "hf")
    with torch.no_grad():
        wanted = peer(pixels(64, 64)).feature_maps
        maps = model.maps(pixels(64, 64))
        first, _ = (norm(m.movedim(1, -1)).movedim(-1, 1)
                    for norm, m in zip(peer.hidden_states_norms.values(), maps, strict=True))  # fmt: skip
    close(first, wanted[0])
    assert maps[1].shape == wanted[1].shape  # there the norms differ, ours being the body's own


@pytest.mark.parametrize("size", [(32, 32), (16, 48)])
def test_the_map_of_a_vit_is_timms(size):
    peer, model = twin(peers.vit(dynamic_img_size=True, reg_tokens=0), "vit_mu_patch8_32")
    with torch.no_grad():
        (wanted,) = peer.forward_intermediates(
            pixels(*size), indices=1, intermediates_only=True, norm=True
        )
        (mine,) = model.maps(pixels(*size))
    close(mine, wanted)


@pytest.mark.parametrize("name", PICTURES)
def test_maps_of_any_size_in_any_order_leave_no_trace(name):
    model = zoo.create(name).eval()
    sides = ((64, 96), (32, 64), (96, 32))
    with torch.no_grad():
        first = [model.maps(pixels(*s)) for s in sides]
        again = [model.maps(pixels(*s)) for s in reversed(sides)]
        tokens = model.features(pixels(*sides[0]))
    for a, b, (h, w) in zip(first, reversed(again), sides, strict=True):
        for one, other in zip(a, b, strict=True):
            assert torch.equal(one, other) and one.isfinite().all()
            assert one.shape[2] * w == one.shape[3] * h
    last = first[0][-1]
    assert torch.equal(last.flatten(2).transpose(1, 2), tokens.x[:, tokens.prefix :])
    assert tokens.stages == ()  # nothing is held where nothing was asked


def test_a_picture_that_patches_do_not_fill_keeps_its_sides_in_the_tokens():
    model = zoo.create("swin_mu_patch4_window4_64").eval()
    with torch.no_grad():
        tokens = model.backbone(model.adapter(pixels(30, 45)), stages=True)
    fine, coarse = tokens.stages
    assert fine.size == coarse.size == (30, 45)
    assert (fine.stride, coarse.stride) == ((4, 4), (8, 8))
    assert [tuple(m.shape[2:]) for m in model.maps(pixels(30, 45))] == [(8, 12), (4, 6)]


def test_maps_of_a_video_have_time():
    model = zoo.create("swin3d_mu").eval()
    with torch.no_grad():
        maps = model.maps(torch.randn(1, 3, 4, 32, 48))
    assert all(m.ndim == 5 and m.shape[2] == maps[0].shape[2] for m in maps)
    assert maps[0].shape[3] * 48 == maps[0].shape[4] * 32


def test_tokens_of_a_text_are_no_map():
    with pytest.raises(zoo.ShapeError, match="maps takes tokens of a whole grid"):
        zoo.create("bert_mu").maps(torch.ones(1, 5, dtype=torch.long))


def test_dropped_tokens_are_no_map():
    with pytest.raises(zoo.ShapeError, match="dropped tokens"):
        zoo.create("vit_mu_patch8_32", drop_tokens=0.5).train().maps(pixels(32, 32))


@pytest.mark.parametrize("side", [(4, 4), (3, 5), (1, 1)])
def test_the_pyramid_makes_four_scales_of_one_map(side):
    neck = Pyramid(dim=32, out=16)
    h, w = side
    scales = neck([torch.randn(2, 32, *side, requires_grad=True)])
    assert [tuple(s.shape) for s in scales] == [
        (2, 16, 4 * h, 4 * w), (2, 16, 2 * h, 2 * w), (2, 16, h, w), (2, 16, -(-h // 2), -(-w // 2))]  # fmt: skip
    sum(s.square().mean() for s in scales).backward()
    assert all(p.grad is not None for p in neck.parameters())
    with pytest.raises(zoo.ShapeError, match="channels is 31, not 32"):
        neck([torch.randn(2, 31, *side)])


def test_the_norm_of_a_map_is_each_places_own():
    x = torch.randn(2, 8, 3, 5)
    norm = MapNorm(8)
    close(norm(x)[1, :, 2, 4], torch.nn.functional.layer_norm(x[1, :, 2, 4], (8,)))
    close(norm(x[:, :, 1:]), norm(x)[:, :, 1:])  # what else is on the map changes nothing
