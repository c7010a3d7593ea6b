"""create, load, save, features, predict: what a user touches first."""

import json
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load_file, save_file

import zoo
from zoo.convert import ConversionError
from zoo.errors import OptionError, ShapeError, UserError
from zoo.ops import drop_tokens

MU = "vit_mu_patch8_32"


def answer(model, *shape):
    torch.manual_seed(1)
    with torch.no_grad():
        return model.eval()(torch.randn(*shape))


def test_create_parses_any_size_patch_and_resolution():
    model = zoo.create("vit_tiny_patch4_48", classes=7, depth=1)
    assert answer(model, 2, 3, 48, 48).shape == (2, 7)
    assert model.features(torch.zeros(1, 3, 48, 48)).grid == (1, 12, 12)


def test_list_models_matches_patterns():
    assert "vit_base_patch16_224" in zoo.list_models("vit_base*")
    assert all(name.startswith("vit_base") for name in zoo.list_models("vit_base*"))
    assert zoo.list_models("nothing*") == []


@pytest.mark.parametrize("size", [(32, 32), (64, 32), (32, 64), (40, 56)])
def test_any_size_in_any_order(size):
    torch.manual_seed(0)
    model = zoo.create(MU, classes=3)
    first = answer(model, 2, 3, *size)
    answer(model, 1, 3, 48, 24)
    assert torch.equal(answer(model, 2, 3, *size), first)


def test_options_go_flat_where_unique_and_dotted_elsewhere():
    model = zoo.create(
        MU, layer_scale=1e-4, drop_path=0.2, **{"head.dropout": 0.3, "attn.bias": "none"}
    )
    assert model.backbone.blocks[-1].drop_path == 0.2
    assert model.backbone.blocks[0].attn_scale is not None
    assert model.head.config.dropout == 0.3
    assert model.backbone.blocks[0].attn.qkv.bias is None


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        (MU, {"layer_scal": 1}, "create has no option 'layer_scal'; did you mean 'layer_scale'?"),
        (
            MU,
            {"dropout": 0.1},
            "create knows several options 'dropout': "
            "adapter.dropout, head.dropout, block.attn.dropout, "
            "block.mlp.dropout, block.dropout; say which",
        ),
        (
            "vit_mu_patch8",
            {},
            "create takes the name of a model; got 'vit_mu_patch8'; did you mean 'vit_mu_patch",
        ),
        (
            MU,
            {"stem": "con"},
            "Patches takes the stem linear, conv, random; got 'con'; did you mean 'conv'?",
        ),
        (
            MU,
            {"init": "xavie"},
            "initialise takes the init normal, xavier, orthogonal, depth_scaled; got 'xavie'",
        ),
        (
            MU,
            {"heads": 5},
            "Attention takes heads that divide the width, and kv_heads that divide the heads; "
            "got width 32 and 5 heads",
        ),
        (MU, {"classes": 0}, "create takes classes as a whole number at least 1; got 0"),
        (MU, {"size": 30}, "Patches takes a picture that patches of 8x8 fill; got 30x30"),
    ],
)
def test_wrong_options_get_a_sentence(name, options, sentence):
    with pytest.raises(UserError) as error:
        zoo.create(name, **options)
    assert str(error.value).startswith(sentence)


def test_wrong_shapes_get_a_sentence():
    model = zoo.create(MU)
    with pytest.raises(ShapeError, match=r"got \(2, 1, 32, 32\): channels is 1, not 3"):
        model(torch.zeros(2, 1, 32, 32))
    with pytest.raises(ShapeError, match="got 33x32"):
        model(torch.zeros(2, 3, 33, 32))


def test_class_pooling_needs_a_class_token():
    with pytest.raises(OptionError, match="class_token"):
        zoo.create(MU, class_token=False)
    assert answer(zoo.create(MU, 3, class_token=False, pool="mean"), 1, 3, 32, 32).shape == (1, 3)


def test_parts_of_different_width_are_refused():
    with pytest.raises(OptionError, match="adapter 16 and backbone 32"):
        zoo.Model(
            zoo.adapters.Patches(dim=16, size=32, patch=8), zoo.Backbone(dim=32, depth=1, heads=2)
        )


def test_a_model_of_ones_own_parts():
    model = zoo.Model(
        zoo.adapters.Patches(size=32, patch=8, dim=24, position="sincos", registers=2),
        zoo.Backbone(dim=24, depth=2, heads=3),
        zoo.heads.Classify(dim=24, classes=5, pool="mean"),
    )
    assert answer(model, 2, 3, 32, 32).shape == (2, 5)
    assert model.features(torch.zeros(1, 3, 32, 32)).prefix == 3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stem": "conv", "adapter.position": "sincos", "init": "xavier"},
        {"adapter.position": "none", "stride": 4},
    ],
)
def test_save_and_load_give_the_same_model(tmp_path, options):
    model = zoo.create(MU, ["cat", "dog"], **options)
    model.save(tmp_path / "m")
    again = zoo.load(tmp_path / "m")
    assert torch.equal(answer(model, 2, 3, 32, 32), answer(again, 2, 3, 32, 32))
    assert again.record == model.record
    assert all(p.requires_grad for p in again.parameters())
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]


def test_load_renews_the_head_and_nothing_else(tmp_path):
    model = zoo.create(MU, ["cat", "dog"])
    model.save(tmp_path / "m")
    again = zoo.load(tmp_path / "m", classes=["a", "b", "c"])
    assert again.record.labels == ("a", "b", "c") and again.head.config.classes == 3
    assert again.head.out.weight.std() > 0
    for key, tensor in again.state_dict().items():
        if not key.startswith("head."):
            assert torch.equal(tensor, model.state_dict()[key]), key


def test_save_over_a_model_replaces_it_and_keeps_other_files(tmp_path):
    zoo.create(MU, 2).save(tmp_path / "m")
    (tmp_path / "m" / "notes.txt").write_text("mine")
    other = zoo.create(MU, 3)
    other.save(tmp_path / "m")
    assert torch.equal(answer(zoo.load(tmp_path / "m"), 1, 3, 32, 32), answer(other, 1, 3, 32, 32))
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_failed_save_leaves_what_was_there(tmp_path, monkeypatch):
    model = zoo.create(MU, 2)
    model.save(tmp_path / "m")
    before = answer(model, 1, 3, 32, 32)

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(UserError, match="cannot be written: No space left on device"):
        zoo.create(MU, 2).save(tmp_path / "m")
    with pytest.raises(UserError, match="No space left"):
        zoo.create(MU, 2).save(tmp_path / "new")
    assert torch.equal(answer(zoo.load(tmp_path / "m"), 1, 3, 32, 32), before)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def broken(folder, how):
    weights, config = folder / "model.safetensors", folder / "config.json"
    state = load_file(weights)
    kept = {"pair": json.loads(config.read_text())["pair"]}
    if how == "cut off":
        weights.write_bytes(weights.read_bytes()[:-100])
    elif how == "no weights":
        weights.unlink()
    elif how == "no JSON":
        config.write_text("{")
    elif how == "another program's":
        config.write_text('{"architecture": "vit"}')
    elif how == "another kind":
        config.write_text(config.read_text().replace('"Patches"', '"Pieces"'))
    elif how == "another option":
        config.write_text(config.read_text().replace('"stem"', '"stam"'))
    elif how == "tensor missing":
        save_file({k: t for k, t in state.items() if "blocks.1" not in k}, weights, kept)
    elif how == "tensor unknown":
        save_file({**state, "surprise": torch.zeros(1)}, weights, kept)
    elif how == "two saves":
        save_file(state, weights, {"pair": "0"})
    elif how == "another shape":
        save_file({**state, "head.out.bias": torch.zeros(9)}, weights, kept)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("cut off", "is not a whole safetensors file"),
        ("no weights", "has no model.safetensors"),
        ("no JSON", "is not readable JSON"),
        ("another program's", "takes the name of a model; got 'vit'"),
        ("another kind", "takes the adapter .*Patches.*; got 'Pieces'"),
        ("another option", "no option 'stam'; did you mean 'stem'"),
        ("tensor missing", "12 tensors that do not fit"),
        ("tensor unknown", "surprise: unknown"),
        ("two saves", "the two are of different saves"),
        ("another shape", r"head.out.bias: shape \(9,\), the model's head.out.bias is \(2,\)"),
    ],
)
def test_broken_folders_are_refused(tmp_path, how, says):
    zoo.create(MU, 2).save(tmp_path / "m")
    broken(tmp_path / "m", how)
    with pytest.raises(UserError, match=says):
        zoo.load(tmp_path / "m")


def test_load_says_what_it_takes(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        zoo.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match="has no config"):
        zoo.load(tmp_path)


def test_a_runs_folder_stands_for_its_model(tmp_path):
    zoo.create(MU, 2).save(tmp_path / "run" / "model")
    assert zoo.load(tmp_path / "run").head.config.classes == 2


def test_saved_config_is_plain_json(tmp_path):
    zoo.create(MU, ["cat", "dog"]).save(tmp_path / "m")
    saved = json.loads((tmp_path / "m" / "config.json").read_text())
    assert saved["adapter"]["kind"] == "Patches" and saved["adapter"]["patch"] == 8
    assert saved["record"]["labels"] == ["cat", "dog"]
    assert saved["zoo"] == 1


def test_load_state_is_all_or_nothing():
    model = zoo.create(MU, 2)
    before = {k: t.clone() for k, t in model.state_dict().items()}
    state = {k: t + 1 for k, t in before.items()}
    state.pop("head.out.bias")
    with pytest.raises(ConversionError, match="bias: missing"):
        zoo.load_state(model, state)
    assert all(torch.equal(t, before[k]) for k, t in model.state_dict().items())


def test_unknown_layouts_are_named():
    with pytest.raises(
        OptionError, match=r"has the layouts timm, .*; got 'tim'; did you mean 'timm'"
    ):
        zoo.create(MU).state_for("tim")


def test_meta_build():
    with torch.device("meta"):
        model = zoo.create("vit_gigantic_patch14_224")
    assert sum(p.numel() for p in model.parameters()) > 1.8e9
    assert all(t.is_meta for t in model.state_dict().values())


def test_predict_names_answers(tmp_path):
    from PIL import Image

    model = zoo.create(MU, ["cat", "dog"])
    picture = Image.new("RGB", (50, 40), (200, 30, 30))
    picture.save(tmp_path / "a.png")
    one = model.predict(tmp_path / "a.png")
    assert one["file"] == str(tmp_path / "a.png")
    assert one["label"] in ("cat", "dog") and one["probability"] == max(
        one["probabilities"].values()
    )
    assert sum(one["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    many = model.predict([tmp_path / "a.png", picture, (tmp_path / "a.png").read_bytes()])
    for other in many:
        assert other["probabilities"] == pytest.approx(one["probabilities"], abs=1e-5)
    model.train()
    model.predict(picture)
    assert model.training


def test_predict_says_what_it_lacks(tmp_path):
    with pytest.raises(UserError, match="this one has no head"):
        zoo.create(MU, head=None).predict("x.png")
    with pytest.raises(UserError, match="nowhere"):
        zoo.create(MU).predict(tmp_path / "nowhere.png")


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"drop_path": "abc"}, "drop_path"),
        ({"drop_path": 2}, "drop_path"),
        ({"drop_path": -0.1}, "drop_path"),
        ({"head.dropout": float("nan")}, "dropout"),
        ({"depth": "two"}, "depth"),
        ({"depth": 1.5}, "depth"),
        ({"depth": 0}, "depth"),
        ({"heads": 0}, "heads"),
        ({"dim": -32}, "dim"),
        ({"class_token": "nope"}, "class_token"),
        ({"patch": 0}, "patch"),
        ({"size": "big"}, "size"),
        ({"size": [32, 32, 32]}, "size"),
        ({"registers": -1}, "registers"),
        ({"hidden": -4}, "hidden"),
        ({"layer_scale": [1]}, "layer_scale"),
        ({"base": "x"}, "base"),
        ({"checkpoint": "maybe"}, "checkpoint"),
        ({"ratio": 0}, "ratio"),
        ({"classes": "cat"}, "classes"),
        ({"classes": True}, "classes"),
        ({"classes": ["a", "a"]}, "classes"),
        ({"classes": []}, "classes"),
        ({"head": "classify"}, "head"),
        ({"block.attn.position": "rop"}, "position"),
        ({"block.attn.position": {"kind": "rope", "base": -1}}, "base"),
    ],
)
def test_values_of_another_type_or_out_of_bounds_are_refused(options, key):
    with pytest.raises(OptionError) as error:
        zoo.create(MU, **options)
    assert error.value.key == key
    assert "got" in str(error.value)


@pytest.mark.parametrize("name", [5, None, ["a"], "vit_mu_patch0_32"])
def test_names_that_are_none(name):
    with pytest.raises(OptionError):
        zoo.create(name)


def test_swin_stages_follow_plain_names_alone():
    name = "swin_mu_patch4_window4_64"
    assert len(zoo.create(name, depths=(1, 1, 1), heads=(1, 2, 4)).backbone.stages) == 3
    with pytest.raises(OptionError, match="plain names; got adapter"):
        zoo.create(name, **{"adapter.depths": (1, 1)})


@pytest.mark.parametrize(
    "path",
    ["adapter.dim", "adapter.size", "head.classes", "backbone.stages", "backbone.drop_path", "record",
     "record.preprocess", "record.labels", "backbone.stages.0.change", "backbone.stages.0.block.attn"],
)  # fmt: skip
@pytest.mark.parametrize("value", ["abc", 5, [], {"a": {}}])
def test_damaged_configs_are_one_sentence(tmp_path, path, value):
    zoo.create(MU, ["a", "b"]).save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    *parents, last = path.split(".")
    inner = config
    for part in parents:
        inner = inner[int(part) if part.isdigit() else part]
    if (path, value) in (("record", []), ("record.labels", []), ("record.preprocess", [])):
        pytest.skip("an empty record says nothing, and that is allowed")
    inner[last] = value
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError):
        zoo.load(tmp_path / "m")


def test_classes_renew_a_head_in_the_models_dtype_or_make_the_usual_one(tmp_path):
    zoo.create(MU, 2).bfloat16().save(tmp_path / "low")
    model = zoo.load(tmp_path / "low", classes=3)
    assert model(torch.zeros(1, 3, 32, 32).bfloat16()).dtype == torch.bfloat16
    zoo.create(MU, head=None).save(tmp_path / "body")
    model = zoo.load(tmp_path / "body", classes=["a", "b", "c"], size=48)
    assert model.head.config.pool == "class" and model.record.labels == ("a", "b", "c")
    assert model(torch.zeros(1, 3, 48, 48)).shape == (1, 3)
    assert set(model.record.report.renewed) == {"head.out.weight", "head.out.bias"}
    zoo.create("swin_mu_patch4_window4_64", head=None).save(tmp_path / "swin")
    assert zoo.load(tmp_path / "swin", classes=3).head.config.pool == "mean"


def test_home_folders_are_meant_by_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    zoo.create(MU, 2).save("~/m")
    assert (tmp_path / "m" / "config.json").exists()
    zoo.load("~/m")


def test_dropped_tokens_spare_what_the_head_reads():
    torch.manual_seed(0)
    model = zoo.Model(
        zoo.adapters.Subwords(dim=32, vocabulary=50),
        zoo.Backbone(dim=32, depth=1, heads=2, drop_tokens=0.7),
        zoo.heads.Classify(dim=32, classes=3, pool="pick"),
    ).train()
    ids, pick = torch.arange(40).view(2, 20), torch.tensor([15, 3])
    for _ in range(20):
        tokens = model.adapter(ids, pick=pick)
        some = drop_tokens(tokens, model.backbone.config.drop_tokens, training=True)
        rows = torch.arange(2)
        assert torch.equal(some.x[rows, some.pick], tokens.x[rows, pick])
        assert torch.equal(some.x[:, 0], tokens.x[:, 0])  # the first, a text's class token


def test_options_of_a_position_go_by_name():
    model = zoo.create("llama_mu", **{"position.base": 500.0})
    assert model.backbone.blocks[0].attn.config.position.base == 500.0


def test_a_position_that_does_nothing_is_refused():
    @dataclass(frozen=True)
    class Idle(zoo.nn.Position, kind="idle"):
        pass

    with pytest.raises(OptionError, match="idle does neither"):
        zoo.create(MU, **{"block.attn.position": "idle"})


def test_a_model_that_answers_nan_says_so():
    from PIL import Image

    model = zoo.create(MU, 2)
    model.head.out.bias.data[0] = float("nan")
    with pytest.raises(UserError, match="answers NaN"):
        model.predict(Image.new("RGB", (8, 8)))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_pixels_are_floats_and_ids_are_not(dtype):
    with pytest.raises(ShapeError, match="Patches takes fractions, such as float32; got torch"):
        zoo.create(MU)(torch.zeros(1, 3, 32, 32, dtype=dtype))
    with pytest.raises(ShapeError, match="Subwords takes whole numbers"):
        zoo.create("bert_mu")(torch.zeros(1, 4))


@pytest.mark.parametrize("dtype", [torch.int32, torch.complex64, torch.bool])
def test_tensors_of_another_kind_are_not_cast(dtype):
    model = zoo.create(MU, 2)
    state = model.state_dict()
    with pytest.raises(ConversionError, match="no float"):
        zoo.load_state(model, {**state, "head.out.bias": state["head.out.bias"].to(dtype)})


@pytest.mark.parametrize("options", [{"depth": 10**9}, {"dim": 10**30}, {"registers": 10**9}])
def test_sizes_that_no_machine_could_build_are_refused_before_they_are_built(options):
    with pytest.raises(OptionError, match=r"from \d to 1"):
        zoo.create(MU, **options)


@pytest.mark.parametrize("classes", [["a", ""], ["a", "a "], ["a", " "]])
def test_labels_that_are_one_or_none_are_refused(classes):
    with pytest.raises(OptionError, match="as the labels' names, each once"):
        zoo.create("vit_mu_patch8_32", classes=classes)


@pytest.mark.parametrize("layout", ["zoo", "timm"])
@pytest.mark.parametrize("folder", [None, "", 5])
def test_a_model_is_saved_in_a_folder_with_a_name(folder, layout):
    with pytest.raises(UserError, match="save takes a folder, as text or a Path; got"):
        zoo.create("vit_mu_patch8_32", classes=2).save(folder, layout=layout)


@pytest.mark.parametrize("batch", [0, 1.5, "8"])
def test_a_batch_is_a_whole_number(batch):
    with pytest.raises(UserError, match="batches of at least 1, a whole number; got"):
        zoo.create("vit_mu_patch8_32", classes=2).predict([], batch=batch)
