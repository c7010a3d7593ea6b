"""`zoo.load` of what other libraries wrote: their folders and files, other sizes, and what must not pass."""

import json
import os
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import peers
import pytest
import timm
import torch
import torchvision
import transformers as hf
from PIL import Image
from safetensors.torch import load_file, save_file
from timm.layers.pos_embed_rel import resize_rel_pos_bias_table_simple
from timm.models import save_for_hf

import zoo
from zoo import training
from zoo.convert import ConversionError
from zoo.errors import OptionError, UserError
from zoo.training.bodies import with_head
from zoo.training.models import load_for
from zoo.training.reading import reading_of

VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
           image_size=32, patch_size=8)  # fmt: skip
SWIN = dict(embed_dim=16, depths=[2, 2], num_heads=[1, 2], window_size=4, image_size=64)
NAMES = {str(i): name for i, name in enumerate(("ant", "bee", "cat"))}


def pixels(size=32, channels=3):
    return torch.randn(2, channels, size, size, generator=torch.Generator().manual_seed(0))


def close(ours, theirs):
    return ((ours - theirs).norm() / theirs.norm()).item() <= 1e-5


@torch.no_grad()
def test_a_folder_of_timm(tmp_path):
    torch.manual_seed(0)
    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=3).eval()
    save_for_hf(theirs, tmp_path / "vit")
    ours = zoo.load(tmp_path / "vit").eval()
    assert close(ours(pixels(224)), theirs(pixels(224)))
    assert ours.record.report.layout == "timm" and ours.record.name == "vit_tiny_patch16_224"
    assert "tensors loaded from" in str(ours.record.report)
    back = ours.state_for("timm")
    assert all(torch.equal(back[k], v) for k, v in theirs.state_dict().items())


@torch.no_grad()
@pytest.mark.parametrize("several", [False, True])
def test_folders_of_transformers(tmp_path, several):
    for config, make, size in (
        (hf.ViTConfig(**VIT, id2label=NAMES), hf.ViTForImageClassification, 32),
        (hf.SwinConfig(**SWIN, id2label=NAMES), hf.SwinForImageClassification, 64),
    ):
        torch.manual_seed(0)
        theirs = make(config).eval()
        folder = tmp_path / make.__name__
        theirs.save_pretrained(folder, max_shard_size="40KB" if several else "5GB")
        assert (folder / "model.safetensors.index.json").exists() == several
        ours = zoo.load(folder).eval()
        assert close(ours(pixels(size)), theirs(pixels(size)).logits)
        assert ours.record.labels == ("ant", "bee", "cat")
        name = {32: "vit_mu_patch8_32", 64: "swin_mu_patch4_window4_64"}[size]
        assert ours.record.name == name and ours.record.preprocess.size == (size, size)
        answer = ours.predict(torchvision.transforms.functional.to_pil_image(pixels(size)[0]))
        assert answer["label"] in ("ant", "bee", "cat")


@torch.no_grad()
@pytest.mark.parametrize("kind", ["pth", "nested", "safetensors"])
def test_a_file_of_torchvision(tmp_path, kind):
    torch.manual_seed(0)
    theirs = torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=3).eval()
    torch.nn.init.normal_(theirs.heads.head.weight)  # it starts as zeros
    state, file = (
        theirs.state_dict(),
        tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pth"),
    )
    if kind == "safetensors":
        save_file(state, file)
    else:
        torch.save(
            {"model": {f"module.{k}": v for k, v in state.items()}} if kind == "nested" else state,
            file,
        )
    ours = zoo.load(file, name="vit_mu_patch8_32").eval()
    assert close(ours(pixels()), theirs(pixels())) and ours.record.report.layout == "torchvision"
    with pytest.raises(OptionError, match="give name="):
        zoo.load(file)
    with pytest.raises(OptionError, match="takes a layout of vit; got 'tim'; did you mean 'timm'"):
        zoo.load(file, name="vit_mu_patch8_32", layout="tim")
    with pytest.raises(ConversionError, match="pos_embed: missing"):
        zoo.load(file, name="vit_mu_patch8_32", layout="timm")


@torch.no_grad()
@pytest.mark.parametrize("stacked", [False, True])
def test_a_file_of_jax(tmp_path, stacked):
    """SigLIP as big_vision wrote it, its blocks apart or together."""
    peer = peers.noisy(peers.siglip(num_classes=0, act_layer=peers.TANH))
    state = {key: tensor.numpy() for key, tensor in peers.siglip_npz(peer).items()}
    if stacked:
        first = [key for key in state if "/img/Transformer/encoderblock_0/" in key]
        for key in first:
            both = [state.pop(key.replace("block_0", f"block_{i}")) for i in (0, 1)]
            state[key.replace("block_0", "block")] = np.stack(both)
    np.savez(tmp_path / "w.npz", **state)
    ours = zoo.load(tmp_path / "w.npz", name="vit_mu_patch8_siglip_32").eval()
    assert ours.record.report.layout == "big_vision" and ours.record.report.carried == 7
    assert close(ours(pixels()), peer(pixels()))


@torch.no_grad()
@pytest.mark.parametrize("layout", ["openai", "trunk"])
def test_a_file_of_openai(tmp_path, layout):
    """Its projection, (in, out) there, says how wide the shared space is."""
    peer = peers.noisy(peers.clip(torch.nn.GELU))
    torch.save(getattr(peers, layout)(peer), tmp_path / "w.pt")
    ours = zoo.load(tmp_path / "w.pt", name="vit_mu_patch8_clip_32").eval()
    assert ours.record.report.layout == layout and ours(pixels()).shape == (2, 16)
    assert close(ours(pixels()), peer(pixels()))


def own(tmp_path, name="vit_mu_patch8_32"):
    """A file in timm's layout, and timm's keys."""
    torch.manual_seed(0)
    model = zoo.create(name, classes=3)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.2)
    state = {k: v.clone() for k, v in model.state_for("timm").items()}
    save_file(state, tmp_path / "w.safetensors")
    return model.eval(), state


@torch.no_grad()
def test_classes_renew_the_head_and_nothing_else(tmp_path):
    model, _ = own(tmp_path)
    new = zoo.load(tmp_path / "w.safetensors", ["x", "y"], name="vit_mu_patch8_32").eval()
    assert new(pixels()).shape == (2, 2) and new.record.labels == ("x", "y")
    assert torch.equal(new.features(pixels()).x, model.features(pixels()).x)
    assert set(new.record.report.renewed) == {"head.out.weight", "head.out.bias"}
    model.save(tmp_path / "own")
    again = zoo.load(tmp_path / "own", ["x", "y"]).eval()
    assert torch.equal(again.features(pixels()).x, model.features(pixels()).x)


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "peer", "width"),
    [("vit_mu_patch8_siglip_32", peers.siglip, 32), ("beit_mu_patch8_32", peers.beit, 32)],
)
def test_what_pools_stays_with_new_classes(tmp_path, name, peer, width):
    """As in timm: SigLIP's attention pool and BEiT's norm of the mean are trained weights too."""
    theirs = peers.noisy(peer())
    save_file(theirs.state_dict(), tmp_path / "w.safetensors")
    ours = zoo.load(tmp_path / "w.safetensors", ["x", "y"], name=name).eval()
    assert set(ours.record.report.renewed) == {"head.out.weight", "head.out.bias"}
    theirs.reset_classifier(2)
    theirs.head.load_state_dict(ours.head.out.state_dict())
    assert close(ours(pixels()), theirs(pixels())) and ours.head.out.weight.shape == (2, width)


@torch.no_grad()
@pytest.mark.parametrize(
    ("options", "peer"),
    [
        ({"size": 64}, {"img_size": 64}),
        ({"size": (32, 64)}, {"img_size": (32, 64)}),
        ({"channels": 1}, {"in_chans": 1}),
        ({"channels": 5}, {"in_chans": 5}),
        ({"patch": 16}, {"patch_size": 16}),
    ],
)
def test_other_sizes_are_those_of_timm(tmp_path, options, peer):
    """timm loads a file into a model of another size with the same tables and kernels."""
    _, state = own(tmp_path)
    small = dict(embed_dim=32, depth=2, num_heads=2, mlp_ratio=2, num_classes=3)
    theirs = timm.models.VisionTransformer(
        **{**small, "img_size": 32, "patch_size": 8, **peer}
    ).eval()
    filtered = timm.models.vision_transformer.checkpoint_filter_fn(
        {k: v.clone() for k, v in state.items()}, theirs, interpolation="bicubic", antialias=True
    )
    if "in_chans" in peer:
        key = "patch_embed.proj.weight"
        filtered[key] = timm.models._manipulate.adapt_input_conv(peer["in_chans"], state[key])
    theirs.load_state_dict(filtered)
    ours = zoo.load(tmp_path / "w.safetensors", name="vit_mu_patch8_32", **options).eval()
    side = options.get("size", 32)
    x = torch.randn(
        2, options.get("channels", 3), *(side if isinstance(side, tuple) else (side,) * 2)
    )
    assert close(ours(x), theirs(x)) and ours.record.report.resized
    size = ours.record.preprocess.size
    assert size == (side if isinstance(side, tuple) else (side,) * 2)


@torch.no_grad()
def test_another_window_is_that_of_timm(tmp_path):
    name = "swin_mu_patch4_window4_64"
    _, state = own(tmp_path, name)
    small = dict(embed_dim=16, depths=(2, 2), num_heads=(1, 2), num_classes=3, patch_size=4)
    theirs = timm.models.SwinTransformer(**small, img_size=64, window_size=8).eval()
    for key, table in theirs.state_dict().items():  # bicubic, as the authors of Swin do it
        if "bias_table" in key:
            state[key] = resize_rel_pos_bias_table_simple(state[key], (8, 8), table.shape)
    theirs.load_state_dict(state)
    ours = zoo.load(tmp_path / "w.safetensors", name=name, window=8).eval()
    assert close(ours(pixels(64)), theirs(pixels(64)))
    assert len(ours.record.report.resized) == 4


@torch.no_grad()
@pytest.mark.parametrize("size", [64, 16, 40, (48, 64), (24, 40), (8, 72)])
def test_another_size_of_beit_is_that_of_timm(tmp_path, size):
    """Each head's biases are spread over the offsets of the new grid, those of the class token kept."""
    peer = peers.noisy(peers.beit())
    for block in peer.blocks:  # of weight among the other scores
        block.attn.relative_position_bias_table.mul_(10)
    save_file(peer.state_dict(), tmp_path / "w.safetensors")
    theirs = peers.vit(
        timm.models.beit.Beit, mlp_ratio=4, use_abs_pos_emb=False, use_rel_pos_bias=True,
        init_values=0.1, img_size=size)  # fmt: skip
    theirs.load_state_dict(timm.models.beit.checkpoint_filter_fn(peer.state_dict(), theirs))
    name, sides = "beit_mu_patch8_32", size if isinstance(size, tuple) else (size, size)
    ours = zoo.load(tmp_path / "w.safetensors", name=name, size=size).eval()
    native = zoo.load(tmp_path / "w.safetensors", name=name).eval()
    x = torch.randn(2, 3, *sides)
    assert close(ours(x), theirs.eval()(x)) and not close(native(x), ours(x))
    assert len(ours.record.report.resized) == 2
    ours.save(tmp_path / "own")
    assert torch.equal(zoo.load(tmp_path / "own").eval()(x), ours(x))
    table = ours.state_for("timm")["blocks.1.attn.relative_position_bias_table"]
    assert torch.equal(table[-3:], peer.blocks[1].attn.relative_position_bias_table[-3:])


def test_what_has_weights_is_no_option(tmp_path):
    own(tmp_path)
    file, name = tmp_path / "w.safetensors", "vit_mu_patch8_32"
    model = zoo.load(file, name=name, drop_path=0.1)
    assert model.backbone.config.drop_path == 0.1
    with pytest.raises(ConversionError, match=r"layer|scale|there are no weights"):
        zoo.load(file, name=name, layer_scale=0.1)
    with pytest.raises(UserError, match="did you mean"):
        zoo.load(file, name=name, drop_pth=0.1)
    with pytest.raises(UserError):
        zoo.load(file, name=name, size=33)


@torch.no_grad()
def test_native_sizes_change_nothing(tmp_path):
    model, _ = own(tmp_path)
    same = zoo.load(
        tmp_path / "w.safetensors", name="vit_mu_patch8_32", size=32, patch=8, channels=3
    )
    assert torch.equal(same.eval()(pixels()), model(pixels())) and same.record.report.resized == ()


LAYOUTS = [("vit_mu_patch8_32", "timm"), ("swin_mu_patch4_window4_64", "hf_v4"),
           ("vit_mu_patch8_siglip_32", "hf"), ("eva02_mu_base_patch8_32", "baai"),
           ("deit_mu_distilled_patch8_32", "hf"), ("vit_mu_patch8_clip_32", "openai"),
           ("vit_mu_patch8_32", "torchvision"), ("naflexvit_mu_patch2_gap", "timm")]  # fmt: skip


def sound(name, layout):
    """A state dict, and the keys in it of a matrix, a vector, a table of positions, a block."""
    torch.manual_seed(0)
    state = {k: v.clone() for k, v in zoo.create(name).state_for(layout).items()}
    matrix = next(
        k
        for k, t in state.items()
        if t.ndim == 2 and len(t) != len(t.T) and re.search(r"fc1|w1|dense\.w|c_fc|mlp\.0", k)
    )
    vector = next(
        k
        for k, t in state.items()
        if t.ndim == 1 and k.endswith("norm.weight" if layout == "timm" else "bias")
    )
    table = next(k for k, t in state.items() if "posit" in k or "pos_embed" in k)
    block = [k for k in state if re.search(r"(blocks|layers?|resblocks)\.1\.|layer_1\.", k)]
    kernel = next(k for k, t in state.items() if t.ndim == 4)
    return state, SimpleNamespace(
        matrix=matrix, vector=vector, table=table, block=block, kernel=kernel, all=list(state)
    )


def put(state, key, tensor):
    state[key] = tensor.contiguous()
    return [key]


def moved(state, keys, name):
    for key in keys:
        state[name(key)] = state.pop(key)
    return [name(keys[0])]


def further(key):
    """The same place in a block that there is not."""
    return re.sub(r"(blocks|layers?|resblocks)([._])1\.", r"\1\g<2>7.", key)


MUTILATED = {
    "a block missing": lambda s, at: [s.pop(k) for k in at.block] and at.block,
    "a tensor missing": lambda s, at: [s.pop(at.vector), at.vector][1:],
    "a matrix missing": lambda s, at: [s.pop(at.matrix), at.matrix][1:],
    "the table missing": lambda s, at: [s.pop(at.table), at.table][1:],
    "renamed": lambda s, at: [*moved(s, [at.matrix], lambda k: f"{k}9"), at.matrix],
    "a foreign prefix": lambda s, at: moved(s, at.all, lambda k: f"backbone.{k}"),
    "half of it prefixed": lambda s, at: moved(s, at.all[:9], lambda k: f"module.{k}"),
    "transposed": lambda s, at: put(s, at.matrix, s[at.matrix].T),
    "rows cut off": lambda s, at: put(s, at.matrix, s[at.matrix][:-3]),
    "columns cut off": lambda s, at: put(s, at.matrix, s[at.matrix][:, :-1]),
    "a table of another size": lambda s, at: put(s, at.table, s[at.table].narrow(-2, 0, 9)),
    "an axis more": lambda s, at: put(s, at.vector, s[at.vector][None]),
    "another width": lambda s, at: put(s, at.vector, torch.ones(48)),
    "flat": lambda s, at: put(s, at.matrix, s[at.matrix].flatten()),
    "unknown": lambda s, at: put(s, "surprise", torch.ones(2)),
    "doubled": lambda s, at: put(s, f"model.{at.vector}", s[at.vector].clone()),
    "whole numbers": lambda s, at: put(s, at.vector, s[at.vector].long()),
    "bytes": lambda s, at: put(s, at.matrix, s[at.matrix].to(torch.uint8)),
    "bool": lambda s, at: put(s, at.vector, s[at.vector] > 0),
    "complex": lambda s, at: put(s, at.vector, s[at.vector].to(torch.complex64)),
    "NaN": lambda s, at: [s[at.matrix].view(-1)[-1:].fill_(torch.nan), at.matrix][1:],
    "infinite": lambda s, at: [s[at.vector][:1].fill_(-torch.inf), at.vector][1:],
    "a scalar": lambda s, at: put(s, at.vector, torch.tensor(0.0)),
    "nothing in it": lambda s, at: put(s, at.vector, torch.ones(0)),
    "empty": lambda s, at: [s.clear()][1:],
    "blocks counted with a gap": lambda s, at: [*at.block, *moved(s, at.block, further)],
    "a block too many": lambda s, at: [put(s, further(k), s[k].clone())[0] for k in at.block],
    "quantised": lambda s, at: [*put(s, at.matrix, s[at.matrix].to(torch.int8)),
                                *put(s, f"{at.matrix}_scale", torch.ones(1))][1:],
    "a kernel over time": lambda s, at: put(s, at.kernel, s[at.kernel][:, :, None]),
    "another model": lambda s, at: [s.clear(), *put(s, "conv1.weight", torch.ones(2, 3, 3, 3))][1:],
}  # fmt: skip


@pytest.mark.parametrize("how", MUTILATED)
@pytest.mark.parametrize("ending", ["safetensors", "pth"])
@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_no_mutilated_file_is_loaded(tmp_path, how, ending, name, layout):
    """Each is one error that names the tensors, the first few in the message and all on it, whether
    the layout is told or found."""
    state, at = sound(name, layout)
    told = MUTILATED[how](state, at)
    file = tmp_path / f"bad.{ending}"
    if ending == "pth":
        torch.save(state, file)
    else:
        save_file(state, file)
    for given in ({"layout": layout}, {}):
        with pytest.raises(UserError) as caught:
            zoo.load(file, name=name, **given)
        said, every = str(caught.value), str(getattr(caught.value, "problems", ()) or caught.value)
        assert "\n" not in said and [key for key in told if key not in every] == []
        shown = getattr(caught.value, "hint", "") or any(key in said for key in told)
        assert len(said) < 2000 and (told == [] or shown)


@pytest.mark.parametrize(
    ("change", "says", "count"),
    [
        (lambda s: {f"student.backbone.{k}": v for k, v in s.items()},
         "all 32 unknown keys begin with 'student.backbone.': take it off, and 32 fit", 64),
        (lambda s: {**s, **{f"text.{i}.weight": torch.ones(1) for i in range(3000)}},
         "all 3000 unknown keys begin with 'text.': leave them out if that part is not wanted", 3000),
        (lambda s: {k: v for k, v in s.items() if "blocks.1." not in k},
         "all 12 missing keys begin with 'blocks.1.': add them, or build the model without it", 12),
        (lambda s: {f"{i}" * 500: torch.ones(1) for i in range(3000)}, "and 30", 3032 - 2),
    ],
    ids=["wrapped", "more", "less", "thousands"],
)  # fmt: skip
def test_what_many_keys_share_is_told_and_all_of_them_stay_within_reach(
    tmp_path, change, says, count
):
    _, state = own(tmp_path)
    save_file(change(state), tmp_path / "w.safetensors")
    with pytest.raises(ConversionError) as error:
        zoo.load(tmp_path / "w.safetensors", name="vit_mu_patch8_32")
    assert says in str(error.value) and len(str(error.value)) < 2000
    assert len(error.value.problems) == count


def test_keys_that_lack_a_prefix_are_told_it():
    model = zoo.create("vit_mu_patch8_32", classes=3)
    state = {k.removeprefix("vit."): v for k, v in model.state_for("hf").items()}
    with pytest.raises(ConversionError, match=r"begin with 'vit.': put it before, and .. fit"):
        zoo.load_state(model, state, "hf")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_loaded_nowhere(tmp_path, value):
    model, _ = own(tmp_path)
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    bad = {**kept, "backbone.norm.bias": torch.full((32,), value)}
    with pytest.raises(ConversionError, match=r"backbone.norm.bias: holds NaN or infinity"):
        zoo.load_state(model, bad)
    assert all(torch.equal(v, kept[k]) for k, v in model.state_dict().items())
    model.load_state_dict(bad)
    theirs = {k: v.clone() for k, v in model.state_for("timm").items()}
    save_file(theirs, tmp_path / "w.safetensors")
    model.save(tmp_path / "run" / "model")
    for load in (
        lambda: zoo.load_state(zoo.create("vit_mu_patch8_32", 3), theirs, "timm"),
        lambda: zoo.load(tmp_path / "w.safetensors", name="vit_mu_patch8_32"),
        lambda: zoo.load(tmp_path / "run" / "model"),
        lambda: zoo.load(tmp_path / "run"),
    ):
        with pytest.raises(ConversionError, match=r"norm.bias: holds NaN or infinity"):
            load()


@torch.no_grad()
@pytest.mark.parametrize("options", [{"head.pool": "attention"}, {"head.pool": "class_mean"}, {"head.norm": "rms"}],
                         ids=lambda options: "=".join(*options.items()))  # fmt: skip
@pytest.mark.parametrize("place", ["own", "w.safetensors"])
def test_an_option_of_another_head_makes_it_anew_where_classes_are_given(tmp_path, options, place):
    model, _ = own(tmp_path)
    model.save(tmp_path / "own")
    given = {} if place == "own" else {"name": "vit_mu_patch8_32"}
    new = zoo.load(tmp_path / place, ["x", "y"], **given, **options).eval()
    assert torch.equal(new.features(pixels()).x, model.features(pixels()).x)
    assert new(pixels()).shape == (2, 2)
    mine, old = new.state_dict(), model.state_dict()
    fresh = {k for k in mine if k.startswith("head.out.") or k not in old}
    report = new.record.report
    assert set(report.renewed) == fresh and f"{len(fresh)} new on purpose (head." in str(report)
    kept = [k for k in mine if k not in fresh]
    assert report.loaded == len(kept) and all(torch.equal(mine[k], old[k]) for k in kept)
    if fresh - {"head.out.weight", "head.out.bias"}:
        with pytest.raises(
            ConversionError, match="give classes= too, which makes what does not fit"
        ):
            zoo.load(tmp_path / place, **given, **options)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"window": 4}, "load has no option 'window'"),
        ({"classes": 2.5}, "load takes classes as a number"),
        ({"depth": 3}, "load takes depth from the weights; got 3: drop it"),
        ({"heads": 4}, "load takes heads from the weights; got 4: drop it"),
        ({"size": "x"}, "load takes size as"),
        (
            {"name": "vit_mu_patch8_3x"},
            "load takes the name of a model; got 'vit_mu_patch8_3x'; did you mean",
        ),
        ({"name": 3}, "load takes a name as text; got 3"),
        ({"layout": 3}, "load takes a layout as text; got 3"),
        ({"layout": "timmm"}, "load takes a layout of vit; got 'timmm'; did you mean 'timm'"),
        ({"patch": 0}, "load takes patch as"),
    ],
    ids=str,
)
def test_errors_name_load_and_never_suggest_what_they_refuse(tmp_path, given, says):
    own(tmp_path)
    with pytest.raises(UserError) as error:
        zoo.load(tmp_path / "w.safetensors", **{"name": "vit_mu_patch8_32", **given})
    said = str(error.value)
    assert said.startswith(says)
    asked, _, meant = said.partition("did you mean ")
    assert not meant or meant.removesuffix("?") not in asked


def test_a_config_json_of_timm_is_told_of_as_load(tmp_path):
    model, _ = own(tmp_path)
    file = model.save(tmp_path / "t", layout="timm") / "config.json"
    text = file.read_text()
    for old, new, says in (
        ('"vit_mu_patch8_32"', '"resnet50"', "load takes the name of a model; got 'resnet50'"),
        (
            '"img_size": [',
            '"depth": -1, "img_size": [',
            "load takes depth as a whole number at least",
        ),
    ):
        file.write_text(text.replace(old, new))
        with pytest.raises(UserError, match=f"^{says}"):
            zoo.load(tmp_path / "t")


@pytest.mark.parametrize("layout", ["zoo", "timm", "hf"])
def test_a_file_beside_its_config_stands_for_the_folder(tmp_path, layout):
    """So a training takes it, which has no place for a name."""
    model, _ = own(tmp_path)
    file = model.save(tmp_path / "m", layout=layout) / "model.safetensors"
    again = zoo.load(file).eval()
    with torch.no_grad():
        assert torch.equal(again(pixels()), model(pixels()))
    made = load_for(str(file), ["x", "y"], "label", {})
    assert made.record.labels == ("x", "y")
    (tmp_path / "m" / "config.json").unlink()
    with pytest.raises(
        OptionError, match=r'give name=.*beside a config.json \{"architecture": "vit'
    ):
        zoo.load(file)
    state = {k: v.clone() for k, v in model.state_for("timm").items()}
    save_file(state, file)
    (tmp_path / "m" / "config.json").write_text('{"architecture": "vit_mu_patch8_32"}')
    assert zoo.load(tmp_path / "m").record.name == "vit_mu_patch8_32"


class Harmful:
    """What a pickle would run."""

    def __reduce__(self):
        return (Path.touch, (Path("ran"),))


DAMAGED = {
    "cut": lambda data: data[:-40],
    "cut in the middle": lambda data: data[: len(data) // 2],
    "cut in its head": lambda data: data[:20],
    "empty": lambda data: b"",
    "its head overwritten": lambda data: b"\xff" * 16 + data[16:],
    "a page of the web": lambda data: b"<!doctype html><title>404</title>",
    "a pointer of git": lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
    "a pickle": lambda data: pickle.dumps(Harmful()),
    "a pickle with tensors": lambda data: pickle.dumps({"norm.weight": Harmful()}),
}  # fmt: skip


@pytest.mark.parametrize("how", [*DAMAGED, "code beside the tensors", "code as a tensor"])
@pytest.mark.parametrize("ending", ["safetensors", "pth", "bin", "npz"])
def test_no_damaged_file_is_loaded_and_nothing_is_run(tmp_path, monkeypatch, how, ending):
    monkeypatch.chdir(tmp_path)
    state, _ = sound("vit_mu_patch8_32", "timm")
    file = tmp_path / f"bad.{ending}"
    if how not in DAMAGED:  # only pickles can hold it
        more = {"args": Harmful()} if "beside" in how else {"head.bias": Harmful()}
        if ending == "npz":
            np.savez(
                file,
                **{k: v.numpy() for k, v in state.items()},
                x=np.array([Harmful()], dtype=object),
            )
        else:
            torch.save({**state, **more}, file)
    else:
        if ending == "safetensors":
            save_file(state, file)
        elif ending == "npz":
            np.savez(file, **{k: v.numpy() for k, v in state.items()})
        else:
            torch.save(state, file)
        file.write_bytes(DAMAGED[how](file.read_bytes()))
    with pytest.raises(UserError) as caught:
        zoo.load(file, name="vit_mu_patch8_32")
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)
    assert not Path("ran").exists()


@pytest.mark.parametrize("how", ["model_type", "act", "lacks", "type"])
def test_configs_that_are_not_known_are_refused(tmp_path, how):
    theirs = hf.ViTForImageClassification(hf.ViTConfig(**VIT))
    theirs.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    change = {
        "model_type": {"model_type": "resnet"},
        "act": {"hidden_act": "relu"},
        "type": {"hidden_size": "x"},
    }
    config |= change.get(how, {})
    if how == "lacks":
        del config["patch_size"]
    file.write_text(json.dumps(config))
    with pytest.raises(UserError) as caught:
        zoo.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert load_file(tmp_path / "model.safetensors")


SIZES = [32, 64, (32, 64), (72, 24)]


@torch.no_grad()
@pytest.mark.parametrize("size", SIZES)
def test_other_pictures_are_answered_as_each_library_does(tmp_path, size):
    """The same weights, and each library's own way to fit the table of positions."""
    sides = size if isinstance(size, tuple) else (size, size)
    x = torch.randn(2, 3, *sides)
    torch.manual_seed(0)
    for name, config, make in (
        ("vit", hf.ViTConfig(**VIT), hf.ViTModel),
        (
            "dinov2",
            hf.Dinov2Config(**{k: v for k, v in VIT.items() if k != "intermediate_size"}),
            hf.Dinov2Model,
        ),
    ):
        options = {"add_pooling_layer": False} if name == "vit" else {}
        theirs = make(config, **options).eval()
        theirs.embeddings.position_embeddings.data.normal_()
        theirs.save_pretrained(tmp_path / name)
        more = {"interpolate_pos_encoding": True} if name == "vit" else {}
        if name == "vit":  # a body without its head's prefix
            state = load_file(tmp_path / name / "model.safetensors")
            state = {f"vit.{k}": v for k, v in state.items()}
            save_file(state, tmp_path / name / "model.safetensors", {"format": "pt"})
        ours = zoo.load(tmp_path / name).eval()
        assert close(ours.features(x).x, theirs(x, **more).last_hidden_state), name
    small = dict(
        embed_dim=32, depth=2, num_heads=2, mlp_ratio=2, num_classes=3, img_size=32, patch_size=8
    )
    theirs = timm.models.VisionTransformer(**small, dynamic_img_size=True).eval()
    theirs.pos_embed.data.normal_()
    save_file(theirs.state_dict(), tmp_path / "t.safetensors")
    ours = zoo.load(tmp_path / "t.safetensors", name="vit_mu_patch8_32").eval()
    assert close(ours(x), theirs(x))


@torch.no_grad()
def test_a_larger_picture_is_that_of_torchvision(tmp_path):
    torch.manual_seed(0)
    native, large = (
        torchvision.models.VisionTransformer(n, 8, 2, 2, 32, 64, num_classes=3).eval()
        for n in (32, 64)
    )
    torch.nn.init.normal_(native.heads.head.weight)
    native.encoder.pos_embedding.data.normal_()
    torch.save(native.state_dict(), tmp_path / "w.pth")
    fitted = torchvision.models.vision_transformer.interpolate_embeddings(
        64, 8, native.state_dict()
    )
    large.load_state_dict(fitted)
    ours = zoo.load(tmp_path / "w.pth", name="vit_mu_patch8_32").eval()
    assert close(ours(pixels(64)), large(pixels(64)))
    assert close(
        zoo.load(tmp_path / "w.pth", name="vit_mu_patch8_32", size=64).eval()(pixels(64)),
        large(pixels(64)),
    )


def test_the_authors_of_dinov2_add_a_tenth():
    """As their code does: a scale of (side + 0.1) / native."""
    table = torch.randn(1 + 16, 8)
    ours = zoo.ops.resize_table(table, (4, 4), (6, 9), "offset")
    grid = table[1:].T.reshape(1, 8, 4, 4)
    theirs = torch.nn.functional.interpolate(grid, scale_factor=(6.1 / 4, 9.1 / 4), mode="bicubic")
    assert ours.shape == (1 + 54, 8)
    torch.testing.assert_close(ours[1:], theirs[0].flatten(1).T)


@torch.no_grad()
@pytest.mark.skipif(
    "ZOO_WEIGHTS" not in os.environ,
    reason="ZOO_WEIGHTS names no folder of genuine weights (../shared/weights/get.py)",
)
@pytest.mark.parametrize("size", [(224, 224), (518, 518), (224, 336)])
def test_genuine_weights_answer_as_in_transformers(size):
    folder = Path(os.environ["ZOO_WEIGHTS"]) / "vit_s14"
    theirs, ours = hf.AutoModel.from_pretrained(folder).eval(), zoo.load(folder).eval()
    assert ours.record.name == "vit_small_patch14_dinov2"
    x = torch.randn(1, 3, *size, generator=torch.Generator().manual_seed(0))
    assert close(ours.features(x).x, theirs(x).last_hidden_state)


# --- and back


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["vit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "deit3_small_patch16_224"]
)
def test_timm_takes_what_is_given_back(tmp_path, name):
    torch.manual_seed(0)
    ours = zoo.create(name, ["a", "b", "c"]).eval()
    ours.save(tmp_path / "t", layout="timm")
    theirs = timm.create_model(f"local-dir:{tmp_path / 't'}", pretrained=True).eval()
    assert close(ours(pixels(224)), theirs(pixels(224)))
    cfg = theirs.pretrained_cfg
    assert tuple(cfg["mean"]) == ours.record.preprocess.mean and cfg["num_classes"] == 3
    again = zoo.load(tmp_path / "t").eval()
    assert torch.equal(again(pixels(224)), ours(pixels(224)))


@torch.no_grad()
def test_timm_takes_another_size_too(tmp_path):
    torch.manual_seed(0)
    zoo.create("vit_tiny_patch16_224", 3).save(tmp_path / "m")
    ours = zoo.load(tmp_path / "m", size=(96, 64), channels=1).eval()
    ours.save(tmp_path / "t", layout="timm")
    theirs = timm.create_model(f"local-dir:{tmp_path / 't'}", pretrained=True).eval()
    x = torch.randn(2, 1, 96, 64)
    assert close(ours(x), theirs(x))
    again = zoo.load(tmp_path / "t").eval()
    assert torch.equal(again(x), ours(x)) and again.record.preprocess == ours.record.preprocess


@torch.no_grad()
@pytest.mark.parametrize(
    "name", ["vit_mu_patch8_32", "swin_mu_patch4_window4_64", "deit_mu_distilled_patch8_32"]
)
def test_transformers_takes_what_is_given_back(tmp_path, name):
    torch.manual_seed(0)
    ours = zoo.create(name, ["ant", "bee", "cat"]).eval()
    ours.save(tmp_path / "h", layout="hf")
    auto = (
        hf.DeiTForImageClassificationWithTeacher
        if "deit" in name
        else hf.AutoModelForImageClassification
    )
    theirs, info = auto.from_pretrained(tmp_path / "h", output_loading_info=True)
    assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    size = 64 if "swin" in name else 32
    assert close(ours(pixels(size)), theirs.eval()(pixels(size)).logits)
    assert theirs.config.id2label == {0: "ant", 1: "bee", 2: "cat"}
    processor = hf.AutoImageProcessor.from_pretrained(tmp_path / "h")
    assert tuple(processor.image_mean) == ours.record.preprocess.mean
    again = zoo.load(tmp_path / "h").eval()
    assert (
        close(again(pixels(size)), ours(pixels(size))) and again.record.labels == ours.record.labels
    )


@torch.no_grad()
def test_bodies_are_given_back_to_transformers(tmp_path):
    for name in ("vit_mu_patch8_dinov2", "vit_mu_patch8_reg4_dinov2"):
        torch.manual_seed(0)
        kind = hf.Dinov2WithRegistersModel if "reg4" in name else hf.Dinov2Model
        config = hf.Dinov2WithRegistersConfig if "reg4" in name else hf.Dinov2Config
        sizes = {k: v for k, v in VIT.items() if k != "intermediate_size"}
        kind(config(**sizes)).save_pretrained(tmp_path / name)
        ours = zoo.load(tmp_path / name).eval()
        ours.save(tmp_path / f"{name}_back", layout=ours.record.report.layout)
        theirs = hf.AutoModel.from_pretrained(tmp_path / f"{name}_back").eval()
        assert type(theirs) is kind
        assert close(ours.features(pixels()).x, theirs(pixels()).last_hidden_state)
        one, two = (load_file(tmp_path / n / "model.safetensors") for n in (name, f"{name}_back"))
        assert one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


@torch.no_grad()
def test_grey_pictures_are_read_grey_by_transformers(tmp_path):
    ours = zoo.create("vit_mu_patch8_32", 3, channels=1).eval()
    ours.save(tmp_path / "v", layout="hf")
    theirs = hf.AutoModelForImageClassification.from_pretrained(tmp_path / "v").eval()
    read = hf.AutoImageProcessor.from_pretrained(tmp_path / "v")
    picture = torchvision.transforms.functional.to_pil_image(pixels()[0, :1].sigmoid())
    inputs = read(picture, return_tensors="pt")
    ours_of_it = ours(ours.record.preprocess(picture)[None])
    torch.testing.assert_close(theirs(**inputs).logits, ours_of_it, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_torchvision_takes_what_is_given_back(tmp_path):
    ours = zoo.create("vit_mu_patch8_32", 3).eval()
    ours.save(tmp_path / "v", layout="torchvision")
    theirs = torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=3).eval()
    theirs.load_state_dict(torch.load(tmp_path / "v" / "model.pth", weights_only=True), strict=True)
    assert close(ours(pixels()), theirs(pixels()))


@torch.no_grad()
@pytest.mark.parametrize("name", ["vit_mu_patch8_32", "swin_mu_patch4_window4_64", "swin3d_mu"])
def test_what_is_given_to_torchvision_loads_again_with_its_labels(tmp_path, name):
    options = {"window": 2} if name.startswith("swin_") else {}
    ours = zoo.create(name, classes=["a", "b"], pad="attend", **options) if "swin" in name else None
    ours = (ours or zoo.create(name, classes=["a", "b"])).eval()
    again = zoo.load(ours.save(tmp_path / "v", layout="torchvision")).eval()
    assert again.record.labels == ("a", "b") and again.record.name == name
    assert again.record.preprocess == ours.record.preprocess
    frames = (4,) if name == "swin3d_mu" else ()
    x = torch.randn(1, 3, *frames, 32, 32)
    assert torch.equal(again(x), ours(x))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("vit_mu_patch8_32", {"pool": "mean"}, "no such head.pool 'mean', not 'class'"),
        ("vit_mu_patch8_32", {"activation": "silu"}, "mlp.activation 'silu', not 'gelu'"),
        ("vit_mu_patch8_32", {"eps": 1e-3}, "eps 0.001, not 1e-06"),
        ("vit_mu_patch8_32", {"channels": 1}, "adapter.channels 1, not 3"),
        ("vit_mu_patch8_32", {"size": (32, 48)}, "adapter.size"),
        ("vit_mu_patch8_32", {"head": None}, "takes a model with a last Linear"),
        ("vit_mu_patch8_32", {"head.pool": "class_mean"}, "head.pool 'class_mean', not 'class'"),
        ("swin_mu_patch4_window4_64", {"size": 72}, "adapter.pad 'mask', not 'attend'"),
        ("swin_mu_patch4_window4_64", {"channels": 1}, "adapter.channels 1, not 3"),
        ("swinv2_mu_window4_64", {"activation": "relu"}, "mlp.activation 'relu', not 'gelu'"),
    ],
    ids=str,
)
def test_what_torchvision_would_answer_otherwise_is_not_given(tmp_path, name, options, says):
    model = zoo.create(name, **{"classes": 3, **options} if "head" not in options else options)
    with pytest.raises(OptionError, match=says):
        model.save(tmp_path / "o", layout="torchvision")
    assert not (tmp_path / "o").exists()


def test_nothing_is_overwritten_or_half_given(tmp_path):
    model = zoo.create("vit_mu_patch8_32", 3)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    with pytest.raises(UserError, match="full holds something"):
        model.save(tmp_path / "full", layout="timm")
    with pytest.raises(OptionError, match=r"save takes the layout zoo, timm, hf, .*; got 'keras'"):
        model.save(tmp_path / "k", layout="keras")
    with pytest.raises(UserError, match="cannot be written"):
        model.save("/proc/nothing/here", layout="timm")
    assert not (tmp_path / "k").exists() and (tmp_path / "full" / "x").read_text() == "mine"


# --- how pictures are read


def test_pictures_are_read_as_the_folder_says(tmp_path):
    """The facts of a checkpoint, not of its family."""
    zoo.create("vit_mu_patch8_32", 3).save(tmp_path / "h", layout="hf")
    file = tmp_path / "h" / "preprocessor_config.json"
    facts = json.loads(file.read_text())
    assert zoo.load(tmp_path / "h").record.preprocess.mode == "crop_early"  # as theirs is
    sides = {"size": {"height": 32, "width": 32}, "do_center_crop": False}
    file.write_text(json.dumps({**facts, **sides}))
    assert zoo.load(tmp_path / "h").record.preprocess.mode == "squash"  # as it stretches pictures
    file.write_text(json.dumps({**facts, "image_mean": [0.1, 0.2, 0.3], "resample": 2}))
    prepare = zoo.load(tmp_path / "h").record.preprocess
    assert (
        prepare.mean == (0.1, 0.2, 0.3)
        and prepare.interpolation == "bilinear"
        and prepare.mode == "crop_early"
    )
    zoo.create("vit_tiny_patch16_224", ["a", "b"]).save(tmp_path / "t", layout="timm")
    file = tmp_path / "t" / "config.json"
    config = json.loads(file.read_text())
    config["pretrained_cfg"] |= {"std": [0.3, 0.3, 0.3], "crop_pct": 0.875, "crop_mode": "border"}
    file.write_text(json.dumps(config))
    model = zoo.load(tmp_path / "t")
    assert model.record.labels == ("a", "b") and model.record.preprocess.std == (0.3, 0.3, 0.3)
    assert (model.record.preprocess.crop, model.record.preprocess.mode) == (0.875, "pad")


def test_a_tag_of_timm_may_be_a_family(tmp_path):
    zoo.create("vit_base_patch16_224.mae", depth=1).save(tmp_path / "t", layout="timm")
    assert (
        json.loads((tmp_path / "t" / "config.json").read_text())["pretrained_cfg"]["tag"] == "mae"
    )


# --- and trained


@pytest.fixture
def shades(tmp_path):
    noise = np.random.default_rng(0)
    for name, level in (("dark", 60), ("light", 190)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(10):
            picture = np.clip(noise.normal(level, 30, (40, 32, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(tmp_path / "pictures" / name / f"{i}.png")
    return {"data.train": str(tmp_path / "pictures"), "run.dir": str(tmp_path / "run"), "run.epochs": 2,
            "run.global_batch": 8, "hw.workers": 0, "hw.accelerator": "cpu"}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("size", [None, 48])
def test_weights_of_transformers_are_tuned_and_given_back(tmp_path, shades, size):
    hf.ViTForImageClassification(hf.ViTConfig(**VIT)).save_pretrained(tmp_path / "vit")
    more = {} if size is None else {"model.size": size}
    with torch.enable_grad():
        training.train(
            "image_classify/vit_tiny_scratch",
            {**shades, "model.load": str(tmp_path / "vit"), **more},
        )
    ours = zoo.load(tmp_path / "run").eval()
    ours.save(tmp_path / "back", layout="hf")
    theirs = hf.AutoModelForImageClassification.from_pretrained(tmp_path / "back").eval()
    x = pixels(size or 32)
    assert close(ours(x), theirs(x).logits) and theirs.config.id2label == {0: "dark", 1: "light"}
    assert ours.record.preprocess.size == (size or 32,) * 2


def test_a_body_gets_a_head(tmp_path, shades):
    sizes = {k: v for k, v in VIT.items() if k != "intermediate_size"}
    hf.Dinov2Model(hf.Dinov2Config(**sizes)).save_pretrained(tmp_path / "body")
    flags = {**shades, "model.load": str(tmp_path / "body")}
    training.train("image_classify/vit_tiny_scratch", flags)
    assert zoo.load(tmp_path / "run").record.labels == ("dark", "light")
    said = (tmp_path / "run" / "log.txt").read_text()
    assert "2 new on purpose (head.out.weight, head.out.bias)" in said


@pytest.mark.parametrize(
    ("given", "new"),
    [({"pool": "attention"}, 9), ({"kind": "Classify", "norm": "rms"}, 3)],
    ids=["pool", "norm"],
)
def test_a_training_makes_another_head_and_says_so(tmp_path, shades, given, new):
    """On weights whose own head has other classes and another shape."""
    own(tmp_path)[0].save(tmp_path / "own")
    flags = {**shades, "model.load": str(tmp_path / "own")}
    flags |= {f"model.head.{key}": value for key, value in given.items()}
    training.train("image_classify/vit_tiny_scratch", flags)
    head = zoo.load(tmp_path / "run").head
    name, value = [*given.items()][-1]
    assert getattr(head.config, name) == value and len(head.state_dict()) == new
    said = (tmp_path / "run" / "log.txt").read_text()
    assert f"{new} new on purpose (head." in said


def test_another_kind_of_head_is_made_anew(tmp_path):
    model = own(tmp_path)[0]
    model.save(tmp_path / "own")
    made = load_for(str(tmp_path / "own"), ["x", "y"], "label", {"head.kind": "Classify"})
    assert made.record.report.renewed == ("head.out.weight", "head.out.bias")
    numbers = load_for(str(tmp_path / "own"), ["height"], "numbers")
    assert (numbers.head.config.target, numbers.head.config.classes) == ("numbers", 1)
    assert numbers.record.report.renewed == ("head.out.weight", "head.out.bias")
    dense = with_head("load", str(tmp_path / "own"), "scene", ["x", "y"], "mask", {})
    fresh = {f"head.{key}" for key in dense.head.state_dict()}
    assert type(dense.head).__name__ == "Segment" and set(dense.record.report.renewed) == fresh
    assert dense.record.report.loaded == len(model.state_dict()) - 2
    with pytest.raises(
        OptionError, match=r"head.kind .*Classify.*got 'Clasify'; did you mean 'Classify'"
    ):
        load_for(str(tmp_path / "own"), ["x", "y"], "label", {"head.kind": "Clasify"})


@pytest.mark.parametrize("read", [zoo.load, reading_of])
def test_a_slip_in_a_path_is_no_name_of_the_hub(tmp_path, monkeypatch, read):
    """What is nearly the name of something here does not wait for a network, nor does a path that
    is no such name; beside a folder of the owner's name any other name may be of the Hub."""
    asked = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zoo.weights.fetch", lambda *given: asked.append(given) or Path("runs"))
    Path("runs/mine").mkdir(parents=True)
    wants = r"there is no runs/mne; did you mean 'mine'\? \(the Hub's is runs/mne@main\)"
    with pytest.raises(UserError, match=wants):
        read("runs/mne")
    for path in ("./rns", "./runs/mne", "runs/../rns"):
        with pytest.raises(UserError, match=r"there is no .*; did you mean '\w+'\?$"):
            read(path)
    assert not asked
    names = ["runs/vit_base", "runs/mne@main", "runs/mine.of_theirs", "owner/model"]
    for name in names:
        with pytest.raises(UserError, match="runs"):  # which holds no weights
            read(name)
    assert [*dict(asked)] == names
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    Path("runs/mine.of").mkdir()
    with pytest.raises(UserError, match=r"is none that is here \(did you mean 'mine"):
        read("runs/mine.of_theirs")


@pytest.mark.parametrize("wrong", [None, 5, ""])
def test_a_place_is_text_or_a_path(wrong):
    with pytest.raises(
        UserError, match="load takes a folder, a file or a model of the Hub as text"
    ):
        zoo.load(wrong)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c["record"].update(labels=["a"]), "takes labels for the 2 classes of the head, none"),
        (lambda c: c["record"].update(labels=["a", "a"]), "takes labels for the 2 classes of the head, none twice"),
        (lambda c: c["record"].update(scale=[[0.0, 1.0]]), "takes scale for the 2 classes of the head"),
        (lambda c: c["record"].update(family="nope"), "a family that is here; got 'nope' in .*zoo list plugins"),
        (lambda c: c["record"]["preprocess"].update(size=[10**6, 10**6]), "a height and a width of 1 to 16384"),
    ],
)  # fmt: skip
def test_a_damaged_config_is_told(tmp_path, change, says):
    folder = zoo.create("vit_mu_patch8_32", classes=["a", "b"]).save(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=says):
        zoo.load(folder)


def test_a_name_for_what_says_its_own_is_refused(tmp_path):
    folder = zoo.create("vit_mu_patch8_32", classes=2).save(tmp_path / "m")
    assert zoo.load(folder, name="vit_mu_patch8_32", layout="zoo").record.name
    with pytest.raises(
        OptionError, match="load takes a name for another library's file; got 'bert"
    ):
        zoo.load(folder, name="bert_mu")
    with pytest.raises(
        OptionError, match="load takes a layout for another library's file; got 'hf'"
    ):
        zoo.load(folder, layout="hf")


@pytest.mark.parametrize(
    "change",
    [
        {"pretrained_cfg": ["x"]}, {"pretrained_cfg": "x"}, {"pretrained_cfg": {"input_size": 3}},
        {"model_type": ["vit"]}, {"model_type": {}}, {"model_args": {"img_size": {}}},
        {"model_args": {"img_size": 10**12}}, {"architecture": 3},
    ],
    ids=str,
)  # fmt: skip
def test_a_config_of_other_kinds_of_values_is_one_sentence(tmp_path, change):
    folder = zoo.create("vit_mu_patch8_32", classes=3).save(tmp_path / "x", layout="timm")
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UserError):
        zoo.load(folder)


@pytest.mark.parametrize("kind", ["float8", "sparse", "meta", "nested", "huge"])
def test_tensors_of_other_kinds_are_one_sentence(tmp_path, kind):
    state = dict(zoo.create("vit_mu_patch8_32", classes=3).state_for("timm"))
    key = "blocks.0.mlp.fc1.weight"
    makes = {
        "float8": lambda t: t.detach().to(torch.float8_e4m3fn)[:1],
        "sparse": lambda t: t.detach().to_sparse(),
        "meta": lambda t: t.detach().to("meta"),
        "nested": lambda t: t.detach(),
        "huge": lambda t: torch.full_like(t, 1e300, dtype=torch.float64),
    }
    state[key] = makes[kind](state[key])
    if kind == "nested":
        state = {"model": {}}
        state["model"]["model"] = state["model"]
    torch.save(state, tmp_path / "x.pth")
    with pytest.raises(UserError):
        zoo.load(tmp_path / "x.pth", name="vit_mu_patch8_32")
