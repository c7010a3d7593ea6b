"""CLIP given back to OpenCLIP: the folder that it reads, bit for bit what was loaded."""

import json
from functools import partial

import peers
import pytest
import torch
from peers import distance, noisy
from PIL import Image
from safetensors.torch import load_file, save_file
from timm.data.transforms import CenterCropOrPad, ResizeKeepRatio
from torchvision import transforms

import zoo
from zoo.errors import OptionError, UserError
from zoo.families.clip import PREPROCESS as OPENAI

NAMES = {"vit_mu_patch8_clip_32": False, "vit_mu_patch8_clip_quickgelu_32": True}
WIDTH, WORDS, LENGTH, LAYERS = 64, 20, 8, 3


def text_tower(inner):
    """What OpenCLIP has of a text tower: in the whole, or in a part by itself."""
    block = {
        "ln_1.weight": (WIDTH,), "ln_1.bias": (WIDTH,), "ln_2.weight": (WIDTH,), "ln_2.bias": (WIDTH,),
        "attn.in_proj_weight": (3 * WIDTH, WIDTH), "attn.in_proj_bias": (3 * WIDTH,),
        "attn.out_proj.weight": (WIDTH, WIDTH), "attn.out_proj.bias": (WIDTH,),
        "mlp.c_fc.weight": (4 * WIDTH, WIDTH), "mlp.c_fc.bias": (4 * WIDTH,),
        "mlp.c_proj.weight": (WIDTH, 4 * WIDTH), "mlp.c_proj.bias": (WIDTH,),
    }  # fmt: skip
    shapes = {
        "positional_embedding": (LENGTH, WIDTH), "token_embedding.weight": (WORDS, WIDTH),
        "ln_final.weight": (WIDTH,), "ln_final.bias": (WIDTH,), "text_projection": (WIDTH, 16),
        **{f"transformer.resblocks.{i}.{k}": s for i in range(LAYERS) for k, s in block.items()},
    }  # fmt: skip
    noise = torch.Generator().manual_seed(4)
    state = {inner + k: 0.2 * torch.randn(shape, generator=noise) for k, shape in shapes.items()}
    return {**state, "logit_scale": torch.tensor(2.5)}


def whole(name, inner):
    """A peer's picture tower, and a whole CLIP of it as OpenCLIP has it."""
    act = peers.QUICK["clip_quickgelu" if NAMES[name] else "clip"]
    peer = noisy(peers.clip(act))
    pictures = {key: t for key, t in peers.openai(peer).items() if key.startswith("visual.")}
    return peer, {**pictures, **text_tower(inner)}


@torch.no_grad()
@pytest.mark.parametrize("inner", ["", "text."])
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_clip_comes_back_bit_for_bit(tmp_path, name, inner):
    peer, state = whole(name, inner)
    save_file(state, tmp_path / "w.safetensors")
    ours = zoo.load(tmp_path / "w.safetensors", name=name).eval()
    folder = ours.save(tmp_path / "out", layout="openclip")
    back = load_file(folder / "open_clip_model.safetensors")
    assert back.keys() == state.keys() and all(torch.equal(back[k], t) for k, t in state.items())
    config = json.loads((folder / "open_clip_config.json").read_text())
    assert config["model_cfg"] == {
        "embed_dim": 16, "quick_gelu": NAMES[name], "custom_text": bool(inner),
        "vision_cfg": {"image_size": 32, "patch_size": 8, "layers": 2, "width": 32,
                       "head_width": 16, "mlp_ratio": 4.0},
        "text_cfg": {"context_length": LENGTH, "vocab_size": WORDS, "width": WIDTH, "heads": 1,
                     "layers": LAYERS},
    }  # fmt: skip
    assert config["preprocess_cfg"]["mean"] == list(ours.record.preprocess.mean)
    again = zoo.load(folder).eval()  # its config says which
    x = peers.pixels()
    assert again.record.name == name and again.record.preprocess == ours.record.preprocess
    assert torch.equal(again(x), ours(x)) and distance(ours(x), peer(x)) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("inner", ["", "text."])
@pytest.mark.parametrize("name", NAMES)
def test_openclip_takes_what_is_given_back(tmp_path, name, inner):
    open_clip = pytest.importorskip("open_clip")
    _, state = whole(name, inner)
    save_file(state, tmp_path / "w.safetensors")
    ours = zoo.load(tmp_path / "w.safetensors", name=name).eval()
    folder = ours.save(tmp_path / "out", layout="openclip")
    theirs = open_clip.create_model(f"local-dir:{folder}", load_weights=True).eval()
    held = theirs.state_dict()
    assert held.keys() == state.keys() and all(torch.equal(held[k], t) for k, t in state.items())
    assert distance(ours(peers.pixels()), theirs.encode_image(peers.pixels())) < 1e-5


@torch.no_grad()
def test_a_tower_without_texts_is_what_their_visual_takes(tmp_path):
    ours = zoo.create("vit_mu_patch8_clip_32", size=(32, 48)).eval()
    folder = ours.save(tmp_path / "out", layout="openclip")
    back = load_file(folder / "open_clip_model.safetensors")
    pictures = {key for key in whole("vit_mu_patch8_clip_32", "")[1] if key.startswith("visual.")}
    assert back.keys() == pictures
    config = json.loads((folder / "open_clip_config.json").read_text())["model_cfg"]
    assert "text_cfg" not in config and config["vision_cfg"]["image_size"] == [32, 48]


@torch.no_grad()
def test_a_tower_of_another_layout_is_given_to_openclip_alone(tmp_path):
    """The names of a text tower there are others: it is left out."""
    peer = noisy(peers.clip_whole_hf("gelu"))
    peer.save_pretrained(tmp_path / "hf")
    ours = zoo.load(tmp_path / "hf").eval()
    folder = ours.save(tmp_path / "out", layout="openclip")
    back = load_file(folder / "open_clip_model.safetensors")
    assert all(key.startswith("visual.") for key in back)
    again = zoo.load(folder).eval()
    assert distance(again(peers.pixels()), ours(peers.pixels())) < 1e-6


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"head": None}, OptionError, "OpenCLIP takes a model with a projection"),
        ({"bias": True}, UserError, "head.bias True, not False"),
        ({"channels": 1}, OptionError, "adapter.channels 1, not 3"),
        ({"mlp.activation": "relu"}, OptionError, "mlp.activation 'relu', not 'gelu'"),
    ],
    ids=str,
)
def test_what_openclip_would_answer_otherwise_is_not_given_back(tmp_path, options, error, says):
    model = zoo.create("vit_mu_patch8_clip_32", **options)
    with pytest.raises(error, match=says):
        model.save(tmp_path / "out", layout="openclip")
    assert not (tmp_path / "out").exists()


def test_only_clip_is_given_back_to_openclip(tmp_path):
    with pytest.raises(OptionError, match=r"takes the layout zoo, .*; got 'openclip'"):
        zoo.create("vit_mu_patch8_32").save(tmp_path / "out", layout="openclip")


# As its folders on the Hub say of towers that timm builds.
TRUNKS = {
    "vit_mu_patch8_siglip_32": (
        partial(peers.siglip, num_classes=0),
        {"timm_model_name": "vit_mu_patch8_siglip_32", "timm_pool": "map", "timm_proj": "none"},
        {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "resize_mode": "squash"},
        {"mean": (0.5,) * 3, "mode": "squash"},
    ),
    "vit_mu_patch8_clip_32": (
        partial(peers.clip, torch.nn.GELU),
        {"timm_model_name": "vit_mu_patch8_clip_32", "timm_pool": "", "timm_proj": "linear"},
        {"resize_mode": "longest", "interpolation": "random"},
        {"mean": OPENAI["mean"], "mode": "pad", "background": (0, 0, 0)},
    ),
}


def folder_of(place, state, tower, pictures, **more):
    """As OpenCLIP writes it."""
    place.mkdir()
    save_file(state, place / "open_clip_model.safetensors")
    config = {
        "model_cfg": {"embed_dim": 16, "vision_cfg": tower, **more},
        "preprocess_cfg": pictures,
    }
    (place / "open_clip_config.json").write_text(json.dumps(config))
    return place


@torch.no_grad()
@pytest.mark.parametrize("name", TRUNKS)
def test_a_folder_of_theirs_whose_tower_is_timms(tmp_path, name):
    make, tower, pictures, told = TRUNKS[name]
    peer = noisy(make())
    state = peers.trunk(peer)
    folder = folder_of(tmp_path / "w", state, {"image_size": 32, **tower}, pictures)
    for place in (folder, folder / "open_clip_model.safetensors"):
        ours = zoo.load(place).eval()
        assert (ours.record.name, ours.record.report.layout) == (name, "trunk")
        assert distance(ours(peers.pixels()), peer(peers.pixels())) < 1e-5
        assert {key: getattr(ours.record.preprocess, key) for key in told} == told
        assert ours.record.preprocess.interpolation == "bicubic"


@pytest.mark.parametrize(
    ("tower", "pictures", "says"),
    [
        ({"attentional_pool": True}, {}, "attentional_pool True"),
        ({"pool_type": "avg"}, {}, "pool_type 'avg'"),
        ({"no_ln_pre": True, "qk_norm": True}, {}, "no_ln_pre True, qk_norm True"),
        ({"layers": [3, 4, 6, 3]}, {}, r"layers \[3, 4, 6, 3\], a convolutional one"),
        ({"width": "wide"}, {}, "holds a value that fits nothing"),
        ({"layers": 3}, {}, r"no clip in a layout that is known: .*missing"),
        ({"timm_model_name": "vitamin_base"}, {}, "takes the name of a model; got 'vitamin_base'"),
        ({}, {"resize_mode": "crop"}, "resized by shortest, squash, longest; .*says 'crop'"),
    ],
    ids=str,
)
def test_what_a_config_says_that_ours_has_not_is_named(tmp_path, tower, pictures, says):
    _, state = whole("vit_mu_patch8_clip_32", "")
    mu = {"image_size": 32, "patch_size": 8, "layers": 2, "width": 32, "head_width": 16}
    folder = folder_of(tmp_path / "w", state, {**mu, **tower}, pictures)
    with pytest.raises(UserError, match=says):
        zoo.load(folder)


@torch.no_grad()
@pytest.mark.parametrize("mode", ["shortest", "squash", "longest"])
@pytest.mark.parametrize("shape", [(90, 131), (131, 90), (61, 60)])
def test_pictures_are_read_as_theirs(tmp_path, mode, shape):
    """Their transform of evaluation, built of torchvision's and timm's parts as theirs is."""
    _, state = whole("vit_mu_patch8_clip_32", "")
    mu = {"image_size": 32, "patch_size": 8, "layers": 2, "width": 32, "head_width": 16}
    prepare = zoo.load(
        folder_of(tmp_path / "w", state, mu, {"resize_mode": mode})
    ).record.preprocess
    pixels = torch.randint(0, 256, (*shape, 3), generator=torch.Generator().manual_seed(3))
    picture = Image.fromarray(pixels.to(torch.uint8).numpy())
    cubic = transforms.InterpolationMode.BICUBIC
    steps = {
        "shortest": [transforms.Resize(32, cubic), transforms.CenterCrop(32)],
        "squash": [transforms.Resize((32, 32), cubic)],
        "longest": [ResizeKeepRatio(32, 1.0, "bicubic"), CenterCropOrPad(32, fill=0)],
    }[mode]
    theirs = transforms.Compose(
        [*steps, transforms.ToTensor(), transforms.Normalize(OPENAI["mean"], OPENAI["std"])]
    )(picture)
    assert (prepare(picture) - theirs).abs().max() < 0.05
