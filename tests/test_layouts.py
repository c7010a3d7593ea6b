"""Which layout keys are of, and what conversion says of what a library stores though it follows."""

import json
from dataclasses import replace

import peers
import pytest
import timm
import torch
from peers import CASES, PICTURES, distance, noisy

import zoo
from zoo.convert import ConversionError, Rule, from_theirs, to_theirs
from zoo.errors import OptionError
from zoo.shapes import pair

# Layouts whose further names, those of text towers and mask tokens, may be absent.
AND_MORE = (("timm", "fb"), ("hf", "hf_whole"), ("openai", "openclip"), ("baai", "baai_mim"),
            ("timm", "baai_mim"))  # fmt: skip


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


@pytest.mark.parametrize("name", zoo.list_models("*mu*"))
def test_a_layout_has_a_place_for_a_model_or_says_so(name):
    model, given = zoo.create(name), 0
    for layout in model.record.rules:
        try:
            state = model.state_for(layout)
        except ConversionError:
            continue
        zoo.load_state(model, state, layout=layout)
        given += 1
    assert given


def test_a_table_that_a_layout_has_otherwise_is_named_by_its_shape():
    model = zoo.create("vit_mu_patch8_32")
    with pytest.raises(ConversionError, match=r"has \(Y X\) d -> 1 Y X d, not \(17, 32\)"):
        model.state_for("naflex")


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


def built(name, **options):
    torch.manual_seed(0)
    model = zoo.create(name, classes=3, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval()


VIT, SWIN = "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224"
SMALL = {"dim": 24, "depths": (2, 2), "heads": (1, 2)}


@pytest.mark.parametrize(
    "name, options",
    [
        (VIT, {"depth": 2, "size": 64}),
        (VIT, {"depth": 2, "size": 64, "patch": 8}),
        (VIT, {"depth": 2, "size": (32, 64), "patch": 32, "channels": 1}),
        (VIT, {"depth": 2, "size": 64, "heads": 6}),
        (VIT, {"depth": 1, "size": 64, "dim": 96}),
        (SWIN, {**SMALL, "size": 56}),
        (SWIN, {**SMALL, "size": 64, "window": 8}),
        (SWIN, {**SMALL, "size": 64, "window": 4, "patch": 2}),
    ],
)
def test_timm_answers_what_is_given_back(name, options, tmp_path):
    model = built(name, **options)
    timms = timm.create_model(
        f"local-dir:{model.save(tmp_path / 'out', layout='timm')}", pretrained=True
    ).eval()
    side = model.adapter.config.size
    x = torch.randn(2, model.adapter.config.channels, *pair(side))
    again = zoo.load(tmp_path / "out").eval()
    with torch.no_grad():
        torch.testing.assert_close(timms(x), model(x), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(again(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["timm", "hf"])
@pytest.mark.parametrize(
    "option, told",
    [
        ({"mlp.activation": "relu"}, "mlp.activation 'relu', not 'gelu'"),
        ({"attn.scale": 0.5}, "attn.scale 0.5, not None"),
        ({"adapter.position": "sincos"}, "adapter.position 'sincos', not 'learned'"),
        ({"head.bias": False}, "head.bias False, not True"),
        ({"adapter.stride": 8}, "adapter.stride 8, not None"),
        ({"block.eps": 0.1}, "eps "),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_another_library_would_answer_otherwise_is_not_given_back(
    option, told, layout, tmp_path
):
    if layout == "timm" and "head.bias" in option:
        return  # there zeros are one
    model = built(VIT, depth=12, size=32, **option)
    with pytest.raises(OptionError) as error:
        model.save(tmp_path / "out", layout=layout)
    assert told in str(error.value) and str(error.value).endswith("save it in ours")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("args", [{"act_layer": "relu"}, {"global_pool": "max"}, {"mlp_ratio": 2}])
def test_model_args_without_a_word_of_ours_are_refused(args, tmp_path):
    built(VIT, depth=1, size=32).save(tmp_path / "out", layout="timm")
    file = tmp_path / "out" / "config.json"
    config = json.loads(file.read_text())
    config["model_args"] |= args
    file.write_text(json.dumps(config))
    with pytest.raises(OptionError, match=f"model_args of img_size.*has {next(iter(args))}"):
        zoo.load(tmp_path / "out")


def beit_mim():
    """BEiT as it was pretrained, with one table for all blocks, and timm's answer to the same."""
    theirs = noisy(
        peers.vit(timm.models.beit.Beit, mlp_ratio=4, use_abs_pos_emb=False, init_values=0.1,
                  use_shared_rel_pos_bias=True, global_pool="token", num_classes=0))  # fmt: skip
    theirs.rel_pos_bias.relative_position_bias_table.data.mul_(10)  # of weight among other scores
    index = {k: t for k, t in theirs.named_buffers() if k.endswith("relative_position_index")}
    more = {"mask_token": torch.randn(1, 1, 32), "lm_head.weight": torch.randn(9, 32),
            "lm_head.bias": torch.randn(9)}  # fmt: skip
    return theirs, {**theirs.state_dict(), **index, **more}


@torch.no_grad()
def test_one_table_for_all_blocks_becomes_each_blocks_own(tmp_path):
    theirs, state = beit_mim()
    torch.save({"model": state}, tmp_path / "w.pth")
    ours = zoo.load(tmp_path / "w.pth", name="beit_mu_patch8_32").eval()
    assert ours.record.report.layout == "microsoft_mim" and ours.record.report.carried == 4
    assert distance(ours.features(PICTURES).x, theirs.forward_features(PICTURES)) < 1e-5
    back = ours.state_for("microsoft_mim")
    assert back.keys() == state.keys() and all(torch.equal(back[k], t) for k, t in state.items())
    first, second = (block.attn.position.table for block in ours.backbone.stages[0].blocks)
    first.add_(1.0)
    assert not torch.equal(first, second)  # no memory in common
    with pytest.raises(ConversionError, match=r"one tensor for several.*blocks\.1\.attn\.position"):
        ours.state_for("microsoft_mim")


def test_a_table_for_all_blocks_of_another_size_is_told(tmp_path):
    _, state = beit_mim()
    state["rel_pos_bias.relative_position_bias_table"] = torch.zeros(9, 2)
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(ConversionError, match=r"bias_table: shape \(9, 2\), the model's backbone"):
        zoo.load(tmp_path / "w.pth", name="beit_mu_patch8_32")


@torch.no_grad()
def test_the_body_that_dino_gave_is_a_vit(tmp_path):
    theirs = noisy(peers.vit(num_classes=0))
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    ours = zoo.load(tmp_path / "w.pth", name="vit_mu_patch8_32").eval()
    assert ours.record.report.layout == "timm" and ours.head is None
    assert distance(ours.features(PICTURES).x, theirs.forward_features(PICTURES)) < 1e-5


@torch.no_grad()
def test_a_training_of_i_jepa(tmp_path):
    """Its file has the encoder beside the predictor, and both as DDP names them."""
    theirs = noisy(peers.siglip(global_pool="avg", fc_norm=False, num_classes=0))
    wrapped = {f"module.{key}": tensor for key, tensor in theirs.state_dict().items()}
    held = {"encoder": wrapped, "predictor": {"x": torch.ones(2)}, "epoch": 300}
    torch.save(held, tmp_path / "w.pth.tar.pth")
    ours = zoo.load(tmp_path / "w.pth.tar.pth", name="vit_mu_patch8_gap_32").eval()
    assert "taken from 'encoder', beside predictor, epoch" in str(ours.record.report)
    assert distance(ours.features(PICTURES).x, theirs.forward_features(PICTURES)) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("sides", [(32, 32), (48, 48), (24, 40), (20, 12)])
def test_naflex_answers_as_timm_at_any_size(tmp_path, sides):
    theirs = noisy(peers.naflex())
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    ours = zoo.load(tmp_path / "w.pth", name="naflexvit_mu_patch2_gap").eval()
    x = peers.pixels(3, *sides)
    assert distance(ours(x), theirs(x)) < 1e-5
    fixed = zoo.load(tmp_path / "w.pth", name="naflexvit_mu_patch2_gap", size=sides).eval()
    assert distance(fixed(x), theirs(x)) < 1e-5
    assert fixed.state_for("timm")["embeds.pos_embed"].shape == (
        1,
        sides[0] // 2,
        sides[1] // 2,
        32,
    )


@torch.no_grad()
def test_a_vit_of_timm_made_flexible_is_a_vit(tmp_path):
    theirs = timm.create_model("vit_tiny_patch16_224", num_classes=3, use_naflex=True)
    theirs = noisy(theirs)
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    ours = zoo.load(tmp_path / "w.pth", name="vit_tiny_patch16_224").eval()
    assert ours.record.report.layout == "naflex" and not ours.adapter.config.position_prefix
    for sides in ((224, 224), (96, 160)):
        x = peers.pixels(3, *sides)
        assert distance(ours(x), theirs(x)) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("size", [256, (64, 96)])
def test_timm_answers_what_is_given_back_of_naflex(tmp_path, size):
    ours = built("naflexvit_base_patch16_gap", depth=1, dim=48, heads=3, size=size)
    folder = ours.save(tmp_path / "out", layout="timm")
    theirs = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    assert theirs.pretrained_cfg["first_conv"] == "embeds.proj"
    again = zoo.load(folder).eval()
    for sides in (pair(size), (48, 80)):
        x = peers.pixels(3, *sides)
        torch.testing.assert_close(theirs(x), ours(x), rtol=1e-4, atol=1e-4)
        assert torch.equal(again(x), ours(x))


@pytest.mark.parametrize(
    "name", ["naflexvit_base_patch16_par_gap", "naflexvit_base_patch16_siglip"]
)
def test_naflex_with_other_positions_is_no_name(name):
    with pytest.raises(OptionError, match="takes the name of a model; got 'naflexvit"):
        zoo.create(name)


def test_a_table_of_positions_of_another_grid_is_told(tmp_path):
    state = dict(peers.naflex(pos_embed_grid_size=(8, 32)).state_dict())
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(ConversionError, match=r"pos_embed: shape \(1, 8, 32, 32\).*\(256, 32\)"):
        zoo.load(tmp_path / "w.pth", name="naflexvit_mu_patch2_gap")


def test_how_large_pictures_are_read_is_given_back_though_the_table_is_smaller(tmp_path):
    ours = built("naflexvit_base_patch16_gap", depth=1, dim=48, heads=3)
    prepare = replace(ours.record.preprocess, size=(384, 384))
    ours.record = replace(ours.record, preprocess=prepare)
    again = zoo.load(ours.save(tmp_path / "out", layout="timm"))
    assert again.record.preprocess == prepare and pair(again.adapter.config.size) == (256, 256)
