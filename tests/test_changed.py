"""A loaded model for other pictures, options and heads: what was not asked for stays as it was."""

from dataclasses import fields

import pytest
import torch
from torchvision.models.swin_transformer import (
    PatchMergingV2,
    SwinTransformer,
    SwinTransformerBlockV2,
)

import zoo
from zoo import checkpoint
from zoo.errors import OptionError, UserError
from zoo.heads import Classify, ClassifyConfig
from zoo.resizing import merged

SWIN = "swin_mu_patch4_window4_64"
OWN = {"activation": "relu", "attn.dropout": 0.2, "block.dropout": 0.1, "drop_path": 0.3}
OTHER = {"size": 32, "window": 2, "channels": 1, "patch": 2}


def told(model):
    """Of each block, what an option of no weights can say."""
    configs = [block.config for block in model.backbone.blocks]
    each = [(c.mlp.activation, c.attn.dropout, c.dropout, c.attn.grouping.shift) for c in configs]
    return each, model.backbone.config.drop_path


@pytest.mark.parametrize("key", OTHER)
@pytest.mark.parametrize("name", [SWIN, "swinv2_mu_window4_64", "vit_mu_patch8_32"])
def test_options_of_blocks_outlast_another_size(tmp_path, name, key):
    if name.startswith("vit") and key == "window":
        pytest.skip("it has none")
    model = zoo.create(name, classes=2, **OWN)
    if name.startswith("vit"):
        told_of = lambda m: (m.backbone.blocks[0].config.mlp, m.backbone.config.drop_path)  # noqa: E731
    else:
        told_of = told
    model.save(tmp_path / "m")
    again = zoo.load(tmp_path / "m", **{key: OTHER[key]})
    assert told_of(again) == told_of(model)
    both = zoo.load(tmp_path / "m", **{key: OTHER[key], "attn.dropout": 0.4})
    assert {block.config.attn.dropout for block in both.backbone.blocks} == {0.4}


@torch.no_grad()
def test_a_larger_picture_is_answered_alike_with_options_of_blocks(tmp_path):
    zoo.create(SWIN, classes=2, **OWN).save(tmp_path / "m")
    x = torch.randn(1, 3, 64, 128)
    native = zoo.load(tmp_path / "m").eval()
    built = zoo.load(tmp_path / "m", size=(64, 128)).eval()
    torch.testing.assert_close(built(x), native(x))


def test_padding_goes_by_its_plain_name(tmp_path):
    zoo.create(SWIN, classes=2, **OWN).save(tmp_path / "m")
    model = zoo.load(tmp_path / "m", pad="attend")
    assert model.adapter.config.pad == "attend"
    assert {block.config.attn.grouping.pad for block in model.backbone.blocks} == {"attend"}
    assert told(model) == told(zoo.load(tmp_path / "m"))
    with pytest.raises(OptionError, match="pad"):
        zoo.load(tmp_path / "m", pad="atend")(torch.randn(1, 3, 64, 64))


def test_configs_are_merged_field_by_field():
    block = zoo.create(SWIN, classes=2).backbone.config.stages[0].block
    before = (block, 1, (1, 2))
    after = (zoo.create(SWIN, classes=2, window=2).backbone.config.stages[0].block, 1, (1, 3))
    own = (
        zoo.create(SWIN, classes=2, **{"attn.dropout": 0.5}).backbone.config.stages[0].block,
        9,
        (7, 2),
    )
    one, number, pair = merged(own, before, after)
    assert one.attn.dropout == 0.5 and one.attn.grouping == after[0].attn.grouping
    assert (number, pair) == (9, (7, 3))
    rest = [f.name for f in fields(block) if f.name != "attn"]
    assert all(getattr(one, name) == getattr(block, name) for name in rest)


@pytest.mark.parametrize("word", ["{}", "adapter.{}"])
def test_pictures_follow_the_adapter_and_keep_their_facts(tmp_path, word):
    model = zoo.create("deit_mu_patch8_32", classes=2)  # whose means differ by channel
    model.save(tmp_path / "m")
    facts = model.record.preprocess
    same = zoo.load(tmp_path / "m", **{word.format("channels"): 3})
    assert same.record.preprocess == facts
    grey = zoo.load(tmp_path / "m", **{word.format("channels"): 1}).record.preprocess
    assert (grey.channels, grey.mean) == (1, (pytest.approx(sum(facts.mean) / 3),))
    more = zoo.load(tmp_path / "m", **{word.format("channels"): 5}).record.preprocess
    assert more.channels == len(more.mean) == 5
    large = zoo.load(tmp_path / "m", **{word.format("size"): 64})
    assert large.record.preprocess.size == (64, 64) and large.adapter.grid == (8, 8)


@pytest.mark.parametrize("key", ["heads", "attn.heads", "block.attn.heads", "backbone.dim"])
def test_what_weights_are_made_for_is_no_option_by_any_name(tmp_path, key):
    zoo.create("vit_mu_patch8_32", classes=2).save(tmp_path / "m")
    with pytest.raises(OptionError, match=f"load takes {key} from the weights; got 4: drop it"):
        zoo.load(tmp_path / "m", **{key: 4})


@torch.no_grad()
def test_a_head_is_left_out_or_another(tmp_path):
    model = zoo.create("vit_mu_patch8_32", classes=["a", "b"]).eval()
    model.save(tmp_path / "m")
    x = torch.randn(2, 3, 32, 32)
    for body in (zoo.backbone(tmp_path / "m"), zoo.load(tmp_path / "m", head=None)):
        assert body.head is None and body.record.labels is None
        assert torch.equal(body.eval()(x).x, model.features(x).x)
        assert "head." not in str(body.record.report)
    body.save(tmp_path / "body")
    assert torch.equal(zoo.load(tmp_path / "body").eval()(x).x, model.features(x).x)
    head = Classify(ClassifyConfig(dim=body.backbone.dim, classes=5))
    other = zoo.load(tmp_path / "m", head=head, size=48)
    assert other.head.config.classes == 5 and other(torch.randn(1, 3, 48, 48)).shape == (1, 5)
    assert set(other.record.report.renewed) == {"head.out.weight", "head.out.bias"}
    assert other.record.report.resized == ("adapter.position",)
    for given, says in (
        ({"head": "classify"}, "load takes a head as a part that is built"),
        ({"head": head, "classes": 3}, "another head=, whose config has them"),
        ({"head": Classify(ClassifyConfig(dim=9, classes=5))}, "parts of one width"),
    ):
        with pytest.raises(OptionError, match=says):
            zoo.load(tmp_path / "m", **given)


@pytest.mark.parametrize("place", ["", "model"])
def test_a_run_that_was_stopped_says_how_it_goes_on(tmp_path, place):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("recipe: image_classify")
    with pytest.raises(UserError, match=f"its run was stopped; zoo resume {run} goes on with it"):
        checkpoint.read_folder(run / place)


def test_tables_of_the_old_size_are_not_given_back(tmp_path):
    """In half precision they differ from what is made, so they are carried."""

    def peer(window):
        torch.manual_seed(0)
        return SwinTransformer(
            [4, 4], 16, [2, 2], [1, 2], [window, window], num_classes=3,
            block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2,
        )  # fmt: skip

    model = zoo.create("swinv2_mu_window4_64", classes=3)
    state = {k: v.half() if v.is_floating_point() else v for k, v in peer(4).state_dict().items()}
    zoo.load_state(model, state, layout="torchvision")
    back = model.state_for("torchvision")
    assert all(torch.equal(back[key].to(state[key]), state[key]) for key in state)
    model.save(tmp_path / "m")
    smaller = zoo.load(tmp_path / "m", window=2, size=32)
    peer(2).load_state_dict(smaller.state_for("torchvision"))


def test_what_was_carried_beside_other_weights_is_gone():
    model = zoo.create("vit_mu_patch8_clip_32")
    whole = model.state_for("openai")
    zoo.load_state(model, {**whole, "logit_scale": torch.tensor(2.0)}, layout="openai")
    assert "logit_scale" in model.state_for("openai")
    zoo.load_state(model, whole, layout="openai")
    assert model.state_for("openai").keys() == whole.keys()
