"""What each part must hold whatever its weights: positions, groupings, packing, starts."""

import math

import pytest
import torch
import torchvision.models.swin_transformer as tv
import transformers as hf
from torch import nn

import zoo
from zoo import ops
from zoo.nn import (
    Attention,
    AttentionConfig,
    Axes,
    Backbone,
    Buckets,
    Continuous,
    GridTable,
    Rope,
    Windows,
)
from zoo.ops import alibi_slopes, bucket, join, rotate, sincos, split

ROWS = torch.arange(64)[None, :, None]


def close(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def grid_places(t, h, w):
    return torch.cartesian_prod(torch.arange(t), torch.arange(h), torch.arange(w))


def perturbed(module):
    """Away from the start, where much is zero or one."""
    generator = torch.Generator().manual_seed(1)
    for p in module.parameters():
        p.data += 0.1 * torch.randn(p.shape, generator=generator)
    return module.eval()


# positions


@pytest.mark.parametrize(
    ("rope", "places", "move"),
    [
        (Rope(), ROWS[0], (37,)),
        (Rope(base=5e5, widths=(8,)), ROWS[0], (1000,)),
        (Rope(base=(100.0, 1e4)), grid_places(1, 5, 7)[:, 1:], (11, 3)),
        (Rope(widths=(4, 6, 6)), grid_places(3, 4, 5), (2, 9, 5)),
    ],
    ids=["1 axis", "part of the head", "2 axes, 2 bases", "3 axes"],
)
def test_scores_of_rope_depend_on_differences_only(rope, places, move):
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, len(places), 16)

    def scores(positions):
        table = rope.rotation(positions, 16)
        return rotate(q, table) @ rotate(k, table).transpose(-1, -2)

    here = scores(places)
    close(here, scores(places + torch.tensor(move)), 1e-4)
    assert not torch.allclose(here, scores(places.flip(0)), atol=1e-3)
    close(rotate(q, rope.rotation(places, 16)).norm(dim=-1), q.norm(dim=-1))


@pytest.mark.parametrize("position", ["rope", "alibi"])
def test_relations_run_past_the_trained_length(position):
    """A text of 40 behind a model that saw 10: the scores of the first 10 stay, all is finite."""
    torch.manual_seed(0)
    adapter = zoo.adapters.Subwords(dim=32, vocabulary=50, length=10, position="none")
    body = Backbone(dim=32, depth=2, heads=2, position=position, causal=True)
    model = zoo.Model(adapter, body, None).eval()
    ids = torch.randint(50, (2, 40))
    with torch.no_grad():
        long, short = model(ids).x, model(ids[:, :10]).x
    assert long.isfinite().all()
    close(long[:, :10], short)


def test_sinusoids_run_past_the_trained_length_and_learned_tables_say_so():
    ids = torch.randint(50, (2, 40))
    longer = zoo.adapters.Subwords(dim=32, vocabulary=50, length=10, position="sincos")
    close(longer(ids).x[:, :10], longer(ids[:, :10]).x)
    learned = zoo.adapters.Subwords(dim=32, vocabulary=50, length=10)
    with pytest.raises(zoo.ShapeError, match="takes 10 tokens at most"):
        learned(ids)


def test_sinusoids_of_one_axis_are_those_of_the_paper():
    dim, table = 8, sincos(torch.arange(50)[:, None], 8)
    for place in (0, 1, 7, 49):
        for i in range(dim // 2):
            angle = place / 10000 ** (2 * i / dim)
            assert table[place, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[place, dim // 2 + i].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_scaled_sinusoids_have_the_norm_of_what_they_are_added_to(scale):
    torch.manual_seed(0)
    adapter = zoo.adapters.Subwords(dim=32, vocabulary=50, position="sincos_scaled")
    adapter.embed.data *= scale / 0.02
    ids = torch.arange(1, 41)[None]
    added = adapter(ids).x - adapter.embed[ids]
    close(added.norm(dim=-1) / adapter.embed[ids].norm(dim=-1), torch.ones(1, 40), 1e-3)
    directions = nn.functional.normalize(sincos(torch.arange(40)[:, None], 32), dim=-1)
    close(nn.functional.normalize(added[0], dim=-1), directions, 1e-3)


@pytest.mark.parametrize("heads", [1, 4, 8, 12, 20])
def test_alibi_slopes_fall_geometrically(heads):
    slopes = alibi_slopes(heads)
    assert len(slopes) == len(set(slopes)) == heads and max(slopes) <= 1 and min(slopes) > 0
    if heads & (heads - 1) == 0:
        assert slopes == pytest.approx([2 ** (-8 * (i + 1) / heads) for i in range(heads)])


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("buckets", "furthest"), [(32, 128), (16, 40)])
def test_buckets_equal_t5s(both, buckets, furthest):
    ahead = torch.arange(-300, 301)[None]
    theirs = hf.models.t5.modeling_t5.T5Attention._relative_position_bucket
    assert torch.equal(
        bucket(ahead, buckets, furthest, both),
        theirs(ahead, bidirectional=both, num_buckets=buckets, max_distance=furthest),
    )


def test_bucket_bias_is_the_row_of_the_distance():
    bias = Buckets(buckets=8, furthest=20).bias(3)
    places = torch.tensor([[3], [9], [4]])
    out = bias(places, places)
    rows = bucket(places.T - places, 8, 20, True)
    for i in range(3):
        for j in range(3):
            assert torch.equal(out[:, i, j], bias.table[rows[i, j]])


# groupings


def attention(grouping, **more):
    torch.manual_seed(0)
    return perturbed(Backbone(dim=16, depth=1, heads=2, grouping=grouping, **more))


def every(body):
    """The same weights, all tokens in one group."""
    plain = attention("everything").eval()
    plain.load_state_dict(body.state_dict())
    return plain


@pytest.mark.parametrize("axis", ["time", "rows", "columns", "space"])
def test_axes_equal_a_loop_over_lines(axis):
    body, grid = attention(Axes(axis)), (2, 3, 4)
    x = torch.randn(2, 24, 16)
    out = body(zoo.Tokens(x, grid=grid)).x.view(2, *grid, 16)
    plain, cells = every(body), x.view(2, *grid, 16)
    dim = {"time": 1, "rows": 2, "columns": 3}.get(axis)
    if dim is None:
        lines = [(cells[:, t].reshape(2, 12, 16), out[:, t].reshape(2, 12, 16)) for t in range(2)]
    else:
        ours = out.movedim(dim, 3).reshape(2, -1, grid[dim - 1], 16)
        theirs = cells.movedim(dim, 3).reshape(2, -1, grid[dim - 1], 16)
        lines = [(theirs[:, i], ours[:, i]) for i in range(ours.shape[1])]
    assert len(lines) > 1
    for line, ours in lines:
        close(ours, plain(zoo.Tokens(line)).x)


@pytest.mark.parametrize("prefix", ["repeat", "skip"])
def test_axes_with_a_class_token(prefix):
    body = attention(Axes("rows", prefix))
    x = torch.randn(2, 1 + 12, 16)
    out = body(zoo.Tokens(x, grid=(1, 3, 4), prefix=1)).x
    plain = every(body)
    columns = [x[:, 1:].view(2, 3, 4, 16)[:, :, i] for i in range(4)]
    front = [x[:, :1]] if prefix == "repeat" else []
    for i, column in enumerate(columns):
        alone = plain(zoo.Tokens(torch.cat([*front, column], 1))).x[:, len(front) :]
        close(out[:, 1:].view(2, 3, 4, 16)[:, :, i], alone)


def test_windows_of_a_row_equal_a_loop_over_pieces():
    body = attention(Windows((5,)))
    x = torch.randn(2, 12, 16)  # the last piece has two tokens and no padding that counts
    out, plain = body(zoo.Tokens(x)).x, every(body)
    for start in (0, 5, 10):
        piece = slice(start, start + 5)
        close(out[:, piece], plain(zoo.Tokens(x[:, piece])).x)


@pytest.mark.parametrize("pad", ["mask", "attend", "attend_after"])
@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize(("grid", "window"), [((1, 7, 9), (4, 4)), ((3, 5, 6), (2, 3, 4))])
def test_join_undoes_split(grid, window, shift, pad):
    grouping = Windows(window, shift, pad)
    x = torch.randn(2, math.prod(grid), 8)
    layout = grouping.layout(zoo.Tokens(x, grid=grid))
    groups = split(x, layout)
    assert torch.equal(join(groups, layout), x)
    assert groups.shape[1] == math.prod(window)


def test_a_band_is_what_a_loop_over_its_keys_gives():
    body = attention("everything", left=2, right=1)
    block, x = body.blocks[0], torch.randn(1, 9, 16)
    with torch.no_grad():
        q, k, v = block.attn.project(block.attn_norm(x), None)
        rows = []
        for t in range(9):
            keys = slice(max(t - 2, 0), t + 2)
            weights = (q[:, :, t : t + 1] @ k[:, :, keys].transpose(-1, -2) / 8**0.5).softmax(-1)
            rows.append(weights @ v[:, :, keys])
        y = x + block.attn.out(torch.cat(rows, 2).transpose(1, 2).reshape(1, 9, 16))
        y = y + block.mlp(block.mlp_norm(y))
        close(body(zoo.Tokens(x)).x, body.norm(y))


@pytest.mark.parametrize("shift", [0, 2])
def test_cosine_attention_with_continuous_bias_equals_torchvision(shift):
    """Swin v2's attention: learned cosine scale, no key bias, log-spaced continuous bias."""
    torch.manual_seed(0)
    theirs = tv.ShiftedWindowAttentionV2(32, [4, 4], [shift, shift], 2).eval()
    config = AttentionConfig(2, bias="qv", scale="cosine", position=Continuous((4, 4)))
    ours = perturbed(Attention(32, config))
    with torch.no_grad():
        theirs.qkv.weight.copy_(ours.qkv.weight)
        q, v = ours.qkv.q_bias, ours.qkv.v_bias
        theirs.qkv.bias.copy_(torch.cat((q, torch.zeros_like(v), v)))
        theirs.proj.load_state_dict(ours.out.state_dict())
        theirs.logit_scale.copy_(ours.log_scale[:, None, None])
        theirs.cpb_mlp[0].load_state_dict(ours.position.up.state_dict())
        theirs.cpb_mlp[2].load_state_dict(ours.position.down.state_dict())
        body = Backbone(
            dim=32, depth=1, heads=2, norm="none", grouping=Windows((4, 4), bool(shift)),
            position=Continuous((4, 4)), **{"attn.bias": "qv", "attn.scale": "cosine"},
        ).eval()  # fmt: skip
        block = body.blocks[0]
        block.attn.load_state_dict(ours.state_dict())
        nn.init.zeros_(block.mlp.down.weight)
        x = torch.randn(2, 8, 12, 32)
        added = body(zoo.Tokens(x.flatten(1, 2), grid=(1, 8, 12))).x - x.flatten(1, 2)
        close(added.view_as(x), theirs(x))


# packing


@pytest.mark.parametrize("position", ["learned", "sincos", "rope", "alibi", "buckets"])
@pytest.mark.parametrize("causal", [False, True])
def test_packed_equals_alone(position, causal):
    """Texts packed in one row see neither each other nor where in the row they stand."""
    torch.manual_seed(0)
    added = position in ("learned", "sincos")
    adapter = zoo.adapters.Subwords(
        dim=32, vocabulary=50, length=16, position=position if added else "none"
    )
    options = {} if added else {"position": position}
    model = zoo.Model(adapter, Backbone(dim=32, depth=2, heads=2, causal=causal, **options)).eval()
    texts = [torch.randint(50, (n,)) for n in (5, 9, 2)]
    sample = torch.repeat_interleave(torch.arange(3), torch.tensor([5, 9, 2]))
    with torch.no_grad():
        together = model(torch.cat(texts)[None], sample=sample[None]).x[0]
        alone = torch.cat([model(text[None]).x[0] for text in texts])
    close(together, alone)


# adapters


@pytest.mark.parametrize("length", [1, 2, 7, 10])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv_stem_has_the_length_and_the_keep_of_its_stride(length, stride):
    adapter = zoo.adapters.Frames(dim=8, channels=3, stem="conv", stride=stride)
    keep = torch.arange(10) < torch.tensor([10, length])[:, None]
    tokens = adapter(torch.randn(2, 10, 3), keep=keep)
    assert tokens.x.shape[1] == tokens.keep.shape[1] == math.ceil(10 / stride)
    assert tokens.keep.sum(1).tolist() == [math.ceil(10 / stride), math.ceil(length / stride)]


def test_the_random_projection_stays_as_it_began():
    torch.manual_seed(0)
    adapter = zoo.adapters.Patches(dim=512, size=16, patch=4, stem="random")
    assert not any(p.requires_grad for p in adapter.stem.parameters())
    assert adapter.stem.weight.std().item() == pytest.approx(48**-0.5, rel=0.05)


def test_positions_given_win_over_those_counted():
    adapter = zoo.adapters.Subwords(dim=16, vocabulary=9, length=12).eval()
    ids = torch.arange(1, 5)[None]
    given = adapter(ids, positions=torch.tensor([[7, 3, 0, 2]]))
    close(given.x[0, 1] - adapter.embed[2], adapter.position[3])
    assert given.positions[0, :, 0].tolist() == [7, 3, 0, 2]


def test_segments_and_factorised_tables_add_up():
    adapter = zoo.adapters.Subwords(dim=16, vocabulary=9, length=12, segments=2, narrow=4).eval()
    ids, segments = torch.tensor([[1, 2]]), torch.tensor([[0, 1]])
    wanted = adapter.widen(adapter.embed[ids]) + adapter.segment[segments] + adapter.position[:2]
    close(adapter(ids, segments=segments).x, wanted)


# starts


def fused(init, **options):
    torch.manual_seed(0)
    body = Backbone(dim=64, depth=3, heads=4, init=init, **options)
    return body, body.blocks[1]


def test_orthogonal_starts_each_head_by_itself():
    _, block = fused("orthogonal")
    for head in block.attn.qkv.weight.split(16):
        close(head @ head.T, torch.eye(16))
    square = block.attn.out.weight
    close(square @ square.T, torch.eye(64))


def test_xavier_counts_a_fused_projection_as_its_matrices():
    _, block = fused("xavier")
    bound = math.sqrt(6 / (64 + 64))
    assert 0.95 * bound < block.attn.qkv.weight.abs().max() <= bound
    bound = math.sqrt(6 / (64 + 256))
    assert 0.95 * bound < block.mlp.up.weight.abs().max() <= bound


def test_normal_is_cut_and_depth_scaled_shrinks_what_enters_the_residual():
    _, block = fused("normal")
    assert block.mlp.up.weight.abs().max() <= 0.04
    plain = block.mlp.down.weight.std().item()
    _, block = fused("depth_scaled")
    for weight in (block.mlp.down.weight, block.attn.out.weight):
        assert weight.std().item() == pytest.approx(plain / math.sqrt(2 * 3), rel=0.05)
    assert block.mlp.up.weight.std().item() == pytest.approx(plain, rel=0.05)


@pytest.mark.parametrize("grid", [(3, 4), (5, 2), (6, 8), (1, 1)])
def test_a_grids_table_keeps_constants_and_the_first_tokens_rows_on_any_grid(grid):
    """Resized, equal offsets stay equal, and pairs with the first token keep rows of their own."""
    bias = GridTable((3, 4)).bias(2)
    bias.table.data[:-3] = 5.0
    bias.table.data[-3:] = torch.tensor([[1.0], [2.0], [3.0]])
    places = ops.grid_places(grid, 1, torch.device("cpu"))
    with torch.no_grad():
        found = bias(places, places, (1, *grid))[0]
    torch.testing.assert_close(found[:, 1:, 1:], torch.full_like(found[:, 1:, 1:], 5.0))
    assert (found[:, 0, 1:] == 1).all() and (found[:, 1:, 0] == 2).all()
    assert (found[:, 0, 0] == 3).all()


@pytest.mark.parametrize("grid", [(2, 3), (7,), (4, 4)])
def test_stretched_places_fill_their_extent_whatever_the_grid(grid):
    cpu = torch.device("cpu")
    plain, middles = (ops.grid_places(grid, 1, cpu, 6.0, centred) for centred in (False, True))
    assert not plain[:, 0].any() and not middles[:, 0].any()  # the prefix stands at 0
    assert plain.min() == 0 and plain.max() < 6
    torch.testing.assert_close(middles[0, 1:].mean(0), torch.zeros(len(grid)), atol=1e-6, rtol=0)
    sides = torch.tensor(grid)
    torch.testing.assert_close(middles[0, -1], 3 - 3 / sides)
    torch.testing.assert_close(plain[0, 1:] * sides / 6, ops.grid_places(grid, 0, cpu)[0].float())
