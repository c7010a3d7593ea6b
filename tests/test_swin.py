"""Windows against the Swin blocks of timm and torchvision, at sizes that need padding too."""

import pytest
import torch
from peers import noisy
from timm.models.swin_transformer import SwinTransformerBlock
from torchvision.models.swin_transformer import SwinTransformerBlock as VisionBlock
from torchvision.models.video.swin_transformer import ShiftedWindowAttention3d

import zoo
from zoo.errors import ShapeError
from zoo.nn import (
    AttentionConfig,
    Backbone,
    BackboneConfig,
    BlockConfig,
    Everything,
    Stage,
    Windows,
    WindowTable,
)
from zoo.nn.backbone import set_option
from zoo.nn.position import Alibi, Rope
from zoo.ops import join, split
from zoo.tokens import Tokens

D, H = 32, 4


def ours(window, shift, pad, state, norm="layer"):
    attn = AttentionConfig(H, position=WindowTable(window), grouping=Windows(window, shift, pad))
    body = Backbone(stages=(Stage(1, BlockConfig(D, attn, eps=1e-5)),), norm="none").eval()
    body.blocks[0].load_state_dict(state)
    return body


def with_names(peer, names, table):
    state = {"attn.position.table": table}
    for theirs, mine in names.items():
        for p in ("weight", "bias"):
            state[f"{mine}.{p}"] = getattr(peer.get_submodule(theirs), p)
    return state


TIMM = {"norm1": "attn_norm", "attn.qkv": "attn.qkv", "attn.proj": "attn.out", "norm2": "mlp_norm",
        "mlp.fc1": "mlp.up", "mlp.fc2": "mlp.down"}  # fmt: skip
VISION = {**TIMM, "mlp.0": "mlp.up", "mlp.3": "mlp.down"}
del VISION["mlp.fc1"], VISION["mlp.fc2"]


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("grid", [(14, 14), (14, 21), (10, 17), (8, 7)])
def test_block_equals_timm(grid, shift):
    peer = noisy(SwinTransformerBlock(D, grid, num_heads=H, window_size=7, shift_size=3 * shift))
    body = ours(
        (7, 7),
        shift,
        "attend_after",
        with_names(peer, TIMM, peer.attn.relative_position_bias_table),
    )
    x = torch.randn(2, *grid, D, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        mine = body(Tokens(x.flatten(1, 2), grid=(1, *grid))).x
        torch.testing.assert_close(mine, peer(x).flatten(1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("grid", [(14, 14), (10, 17), (7, 9), (3, 5)])
def test_block_equals_torchvision(grid, shift):
    peer = noisy(VisionBlock(D, H, [7, 7], [3 * shift, 3 * shift]))
    body = ours(
        (7, 7), shift, "attend", with_names(peer, VISION, peer.attn.relative_position_bias_table)
    )
    x = torch.randn(2, *grid, D, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        mine = body(Tokens(x.flatten(1, 2), grid=(1, *grid))).x
        torch.testing.assert_close(mine, peer(x).flatten(1, 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("grid", [(4, 14, 14), (3, 10, 8), (2, 7, 9)])
def test_video_attention_equals_torchvision(grid, shift):
    window = (2, 7, 7)
    peer = noisy(ShiftedWindowAttention3d(D, list(window), [w // 2 * shift for w in window], H))
    attn = AttentionConfig(
        H, position=WindowTable(window), grouping=Windows(window, shift, "attend")
    )
    body = Backbone(stages=(Stage(1, BlockConfig(D, attn, norm="none")),), norm="none").eval()
    block = body.blocks[0]
    block.attn.load_state_dict({
        "qkv.weight": peer.qkv.weight, "qkv.bias": peer.qkv.bias, "out.weight": peer.proj.weight,
        "out.bias": peer.proj.bias,
        "position.table": peer.relative_position_bias_table})  # fmt: skip
    torch.nn.init.zeros_(block.mlp.down.weight)
    x = torch.randn(2, *grid, D, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        mine = body(Tokens(x.flatten(1, 3), grid=grid)).x - x.flatten(1, 3)
        torch.testing.assert_close(mine, peer(x).flatten(1, 3), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("grid", [(1, 9, 11), (3, 5, 4), (1, 1, 1)])
@pytest.mark.parametrize("shift", [False, True])
def test_masked_padding_is_attended_by_none(grid, shift):
    """With pad="mask", no place may attend to padding, and every token comes back to its place."""
    window = (2, 4, 3)
    grouping = Windows(window, shift, "mask")
    x = torch.randn(1, grid[0] * grid[1] * grid[2], D)
    layout = grouping.layout(Tokens(x, grid=grid))
    groups = split(x, layout)
    torch.testing.assert_close(join(groups, layout), x)
    if layout.real is not None and layout.allowed is not None:
        real = layout.real.view(layout.groups, -1)
        assert not layout.allowed[:, 0][:, :, :].masked_fill(real[:, None], False).any()


@pytest.mark.parametrize("shift", [False, True])
def test_padded_rows_in_windows_equal_alone(shift):
    """A row's own padding, and that of windows which do not fill it, are both attended by none."""
    torch.manual_seed(0)
    body = Backbone(dim=D, depth=2, heads=H, grouping=Windows((5,), shift)).eval()
    x = torch.randn(2, 12, D)
    keep = torch.arange(12) < torch.tensor([12, 7])[:, None]
    with torch.no_grad():
        out = body(Tokens(x, keep)).x
        junk = torch.where(keep[..., None], x, 9.0)
        torch.testing.assert_close(body(Tokens(junk, keep)).x[keep], out[keep])
        torch.testing.assert_close(body(Tokens(x)).x[0], out[0])


@pytest.mark.parametrize("position", [None, WindowTable((5,)), Rope(), Alibi()])
@pytest.mark.parametrize("length", [3, 5, 7, 11])
@pytest.mark.parametrize("front", [0, 2, 13])
def test_windows_of_a_row_are_those_of_its_real_tokens(front, length, position):
    """Padding, wherever it stands and however far, moves no window and decides no shift."""
    torch.manual_seed(0)
    attn = AttentionConfig(H, position=position, grouping=Windows((5,)))
    stage = Stage(2, BlockConfig(D, attn), change={1: {"attn.grouping.shift": True}})
    body = noisy(Backbone(stages=(stage,)))
    x, places = torch.randn(1, length, D), torch.arange(length)[None, :, None]
    sides = (front, 15 - front)
    keep = torch.nn.functional.pad(torch.ones(1, length, dtype=torch.bool), sides)
    with torch.no_grad():
        padded = torch.nn.functional.pad(x, (0, 0, *sides), value=7.0)
        padded_places = torch.nn.functional.pad(places, (0, 0, *sides))
        rows = Tokens(padded.repeat(2, 1, 1), torch.cat((keep, keep | True)), padded_places)
        alone = body(Tokens(x, positions=places)).x[0]
        torch.testing.assert_close(body(rows).x[0][keep[0]], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "pad, more, got",
    [
        ("mask", {"prefix": 1}, "prefix tokens"),
        ("mask", {"sample": torch.zeros(1, 6, dtype=torch.long)}, "several samples in a row"),
        ("attend", {"keep": torch.ones(1, 6, dtype=torch.bool)}, "padding and pad attend"),
    ],
)
def test_windows_say_what_they_do_not_take(pad, more, got):
    body = Backbone(dim=D, depth=1, heads=H, grouping=Windows((4,), pad=pad), drop_tokens=0.5)
    with pytest.raises(ShapeError, match=f"the tokens of a grid, or of one row; got {got}"):
        body.eval()(Tokens(torch.randn(1, 6, D), **more))
    with pytest.raises(ShapeError, match="got what is left of dropped tokens"):
        body.train()(Tokens(torch.randn(1, 6, D)))


def test_an_option_of_a_grouping_reaches_shifted_blocks_too(tmp_path):
    name = "swin_mu_patch4_window4_64"

    def groupings(model):
        return [block.config.attn.grouping for block in model.backbone.blocks]

    plain = zoo.create(name, classes=2)
    plain.save(tmp_path / "m")
    dotted = {"grouping.pad": "attend"}
    for model in (zoo.create(name, classes=2, **dotted), zoo.load(tmp_path / "m", **dotted)):
        assert groupings(model) == groupings(zoo.create(name, classes=2, pad="attend"))
    small = groupings(
        zoo.create(name, classes=2, **{"grouping.window": (2, 2), "position": "alibi"})
    )
    assert [g.window for g in small] == [(2, 2)] * 4 and [g.shift for g in small] == [
        False,
        True,
    ] * 2


def test_an_option_reaches_only_blocks_that_have_it():
    block = BlockConfig(D, AttentionConfig(H, grouping=Windows((4,))))
    config = BackboneConfig((Stage(3, block, change={1: {"attn.grouping": Everything()}}),))
    config = set_option(config, "block.attn.grouping.window", (2,))
    made = [config.stages[0].config_of(i).attn.grouping for i in range(3)]
    assert made == [Windows((2,)), Everything(), Windows((2,))]
    config = set_option(config, "block.attn.grouping", Everything())
    assert {config.stages[0].config_of(i).attn.grouping for i in range(3)} == {Everything()}
