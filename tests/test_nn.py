"""The parts of the backbone against the plain formula, and what each option changes."""

import copy
import math
import re
import sys

import PIL.Image
import pytest
import torch
from torch import nn

import zoo
from zoo.errors import OptionError, ShapeError
from zoo.nn import Attention, AttentionConfig, Backbone, Block, BlockConfig, Stage
from zoo.ops import Mask, attend, cached, drop_path, resize_table, sincos_grid
from zoo.tokens import Tokens


def test_attend_is_the_formula():
    q, k, v = torch.randn(3, 2, 4, 6, 8, generator=torch.Generator().manual_seed(0))
    keep = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    scores = (q @ k.transpose(-1, -2) / math.sqrt(8)).masked_fill(~keep[:, None, None], -math.inf)
    torch.testing.assert_close(attend(q, k, v, Mask(keep=keep)), scores.softmax(-1) @ v)
    everything = (q @ k.transpose(-1, -2) / math.sqrt(8)).softmax(-1) @ v
    torch.testing.assert_close(attend(q, k, v), everything)


def test_a_query_without_keys_gives_zeros_and_finite_gradients():
    q, k, v = (torch.randn(1, 2, 3, 4, requires_grad=True) for _ in range(3))
    out = attend(q, k, v, Mask(keep=torch.zeros(1, 3, dtype=torch.bool)))
    assert torch.equal(out, torch.zeros_like(out))
    out.sum().backward()
    assert all(t.grad is not None and t.grad.isfinite().all() for t in (q, k, v))


def test_grouped_heads_repeat_keys():
    q, k, v = torch.randn(1, 4, 5, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    repeated = attend(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    torch.testing.assert_close(attend(q, k, v), repeated)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_block_reads_as_its_equation(place):
    torch.manual_seed(0)
    block = Block(BlockConfig(16, AttentionConfig(2), place=place, layer_scale=0.3)).eval()
    x = torch.randn(2, 5, 16)
    if place == "pre":
        y = x + 0.3 * block.attn(block.attn_norm(x))
        y = y + 0.3 * block.mlp(block.mlp_norm(y))
    else:
        y = block.attn_norm(x + 0.3 * block.attn(x))
        y = block.mlp_norm(y + 0.3 * block.mlp(y))
    torch.testing.assert_close(block(x), y)


@pytest.mark.parametrize("norm", ["layer", "rms", "none"])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_every_norm_and_activation_trains(norm, activation):
    body = Backbone(dim=16, depth=2, heads=2, norm=norm, activation=activation)
    body(Tokens(torch.randn(2, 5, 16))).x.square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in body.parameters())


def test_stages_of_one_width_equal_one_stage():
    torch.manual_seed(0)
    block = BlockConfig(16, AttentionConfig(2))
    one = Backbone(dim=16, depth=3, heads=2).eval()
    two = Backbone(stages=(Stage(1, block), Stage(2, block))).eval()
    for source, target in zip(one.blocks, two.blocks, strict=True):
        target.load_state_dict(source.state_dict())
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(one(Tokens(x)).x, two(Tokens(x)).x)


def test_drop_path_rates_rise_over_depth():
    body = Backbone(dim=16, depth=5, heads=2, drop_path=0.4)
    assert [b.drop_path for b in body.blocks] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


@pytest.mark.parametrize("place", ["pre", "post", "res_post", "sandwich"])
def test_drop_path_rises_over_depth_where_blocks_are_shared(place, monkeypatch):
    seen = []
    monkeypatch.setattr(
        zoo.nn.block, "drop_path", lambda x, rate, training: (seen.append(rate), x)[1]
    )
    block = BlockConfig(8, AttentionConfig(2), place=place)
    body = Backbone(stages=(Stage(1, block), Stage(4, block, share=2)), drop_path=0.4)
    body(Tokens(torch.randn(1, 3, 8)))
    assert seen[::2] == seen[1::2] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    first, *shared = (b.drop_path for b in body.blocks)
    assert first == 0.0 and shared == [pytest.approx((0.1, 0.2)), pytest.approx((0.3, 0.4))]


def test_drop_path_drops_whole_samples_and_keeps_the_mean():
    torch.manual_seed(0)
    out = drop_path(torch.ones(4000, 3), 0.25, training=True)
    assert sorted(set(out[:, 0].tolist())) == pytest.approx([0.0, 4 / 3])
    assert torch.equal(out[:, 0], out[:, 2])
    assert out.mean() == pytest.approx(1.0, abs=0.05)
    assert torch.equal(drop_path(out, 0.25, training=False), out)


@pytest.mark.parametrize("name", ["normal", "xavier"])
def test_init_reaches_every_linear(name):
    body = Backbone(dim=32, depth=1, heads=2, init=name)
    for key, layer in body.named_modules():
        if isinstance(layer, nn.Linear):
            assert torch.equal(layer.bias, torch.zeros_like(layer.bias)), key
            fan = sum(layer.weight.shape) if not key.endswith("qkv") else 64
            bound = 0.04 if name == "normal" else math.sqrt(6 / fan)
            assert bound * 0.9 < layer.weight.abs().max() <= bound, key


def test_heads_must_divide_the_width():
    with pytest.raises(OptionError, match="got width 16 and 3 heads"):
        Attention(16, AttentionConfig(3))


def test_sincos_tells_rows_from_columns():
    table = sincos_grid((3, 4), 16, 10000.0, torch.float32, torch.device("cpu"))
    assert table.shape == (12, 16)
    assert torch.equal(table[0, :8], table[3, :8])  # the same row
    assert torch.equal(table[0, 8:], table[4, 8:])  # the same column
    assert len({tuple(row.tolist()) for row in table}) == 12
    flipped = sincos_grid((4, 3), 16, 10000.0, torch.float32, torch.device("cpu"))
    swapped = torch.cat((flipped[:, 8:], flipped[:, :8]), 1).view(4, 3, 16).transpose(0, 1)
    torch.testing.assert_close(table, swapped.reshape(12, 16))


@pytest.mark.parametrize("grid", [(4, 4), (2, 8), (8, 2)])
def test_resizing_to_the_native_grid_is_the_identity(grid):
    table = torch.randn(1 + 16, 8)
    assert resize_table(table, grid, grid) is table


def test_a_grid_of_equal_count_is_another_grid():
    table = torch.randn(16, 8)
    assert not torch.equal(resize_table(table, (2, 8), (4, 4)), table)


def test_resize_keeps_the_prefix_and_does_not_swap_axes():
    rows = torch.arange(4.0)[:, None, None].expand(4, 3, 1).reshape(12, 1)
    table = torch.cat((torch.full((2, 1), 7.0), rows))
    out = resize_table(table, (4, 3), (8, 6))
    assert out[:2].flatten().tolist() == [7.0, 7.0]
    picture = out[2:].view(8, 6)
    torch.testing.assert_close(picture, picture[:, :1].expand(8, 6))  # still constant along a row
    assert (picture[1:, 0] > picture[:-1, 0]).all()


def test_resize_is_computed_in_fp32():
    table = torch.randn(16, 8)
    low = resize_table(table.bfloat16(), (4, 4), (6, 6))
    high = resize_table(table.bfloat16().float(), (4, 4), (6, 6))
    assert low.dtype == torch.bfloat16
    assert torch.equal(low, high.bfloat16())


def test_cached_tables_serve_training_after_inference():
    calls = []

    @cached
    def table(n: int) -> torch.Tensor:
        calls.append(n)
        return torch.ones(n)

    with torch.inference_mode():
        first = table(3)
    assert table(3) is first and calls == [3]
    (torch.ones(3, requires_grad=True) * first).sum().backward()  # an inference tensor would raise


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8), (2, 2, 3, 8), (0, 3, 8)])
def test_the_fast_linear_equals_torchs(shape, dtype, bias, monkeypatch):
    monkeypatch.setattr(sys.modules["zoo.ops.linear"], "FASTER", (torch.float32, torch.bfloat16))
    torch.manual_seed(0)
    layer = zoo.nn.Linear(8, 6, bias=bias).to(dtype)
    x = torch.randn(shape).to(dtype)
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {}
    full = [None if p is None else p.double() for p in (layer.weight, layer.bias)]
    for inputs in (x, x.transpose(0, -2), x[..., ::2].repeat_interleave(2, -1)):
        wanted = torch.nn.functional.linear(inputs.double(), *full).to(dtype)
        with torch.no_grad():
            torch.testing.assert_close(layer(inputs), wanted, **tolerance)
        torch.testing.assert_close(layer(inputs), wanted, **tolerance)
    layer(x).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("what", ["strided bias", "one bias", "strided weight"])
def test_the_fast_linear_reads_parameters_as_they_lie(what):
    torch.manual_seed(0)
    layer, x = zoo.nn.Linear(12, 8), torch.randn(3, 12)
    if what == "strided weight":
        layer.weight = nn.Parameter(torch.randn(12, 8).t())
    else:
        bias = torch.randn(16)[::2] if what == "strided bias" else torch.randn(1).expand(8)
        layer.bias = nn.Parameter(bias)
    for dtype in (torch.float32, torch.bfloat16):
        with torch.no_grad():
            out = layer.to(dtype)(x.to(dtype))
        torch.testing.assert_close(out, layer(x.to(dtype)), rtol=1e-2, atol=1e-2)


def test_whoever_follows_operations_sees_torchs_own():
    from torch.utils.flop_counter import FlopCounterMode

    layer, x = zoo.nn.Mlp(8, zoo.nn.MlpConfig()), torch.randn(3, 8)
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            layer(x)
        assert counter.get_total_flops() == 2 * 3 * 8 * 32 * 2
        _, slope = torch.func.jvp(layer, (x,), (torch.ones_like(x),))
    _, wanted = torch.func.jvp(layer, (x,), (torch.ones_like(x),))
    torch.testing.assert_close(slope, wanted)
    assert slope.abs().sum() > 0


def test_a_wrong_width_is_told_by_torch_itself():
    with torch.no_grad(), pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        zoo.nn.Linear(8, 6)(torch.randn(3, 7))


def test_the_fast_linear_leaves_autocast_its_choice():
    layer = zoo.nn.Linear(8, 6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(2, 8)).dtype == torch.bfloat16


def test_a_packed_model_is_a_copy_of_its_own(tmp_path):
    torch.manual_seed(0)
    model, x = zoo.create("eva02_mu_patch8_32", classes=3).train(), torch.randn(2, 3, 32, 32)
    seen: list[torch.Tensor] = []
    hooked = model.backbone.blocks[0].mlp.down
    hooked.register_forward_hook(lambda *given: seen.append(given[-1]))
    packed = zoo.fast.Packed(model)
    before = packed(x)
    torch.testing.assert_close(before, model.eval()(x))
    assert not before.requires_grad and model.train().training and len(seen) == 2
    assert all(p.requires_grad for p in model.parameters())
    kinds = [type(part) for part in packed.model.modules() if hasattr(part, "weight")]
    assert zoo.fast.PackedLinear in kinds and kinds.count(zoo.nn.Linear) == 1  # the hooked one
    for p in model.parameters():
        p.data += 1.0
    assert torch.equal(packed(x), before)
    assert [m.shape for m in packed.maps(x)] == [m.shape for m in model.maps(x)]
    _, shown = packed(x, details=("attention",))
    assert len(shown.attention) == len(model.backbone.blocks)
    picture = PIL.Image.new("RGB", (40, 30), "red")
    (label,) = {packed.predict(picture)["label"], packed.predict([picture])[0]["label"]}
    assert label == packed.model.predict(picture)["label"]


def test_a_packed_model_is_copied_but_not_saved(tmp_path):
    model, x = zoo.create("vit_mu_patch8_32", classes=3), torch.randn(2, 3, 32, 32)
    up = model.backbone.blocks[0].mlp.up
    up.forward = lambda x: 3 * nn.functional.linear(x, up.weight, up.bias)
    packed = zoo.fast.Packed(model)
    torch.testing.assert_close(packed(x), model.eval()(x))
    assert torch.equal(copy.deepcopy(packed)(x), packed(x))
    assert torch.equal(zoo.fast.Packed(packed.model)(x), packed(x))
    for use in (
        lambda: packed.model.save(tmp_path / "a"),
        lambda: packed.model.save(tmp_path / "a", layout="timm"),
        lambda: packed.model.state_for("timm"),
        lambda: torch.save(packed, tmp_path / "a.pt"),
    ):
        with pytest.raises(zoo.UserError, match="save the model that it was made from"):
            use()
    assert not (tmp_path / "a").exists()


def test_what_cannot_be_packed_is_refused():
    with pytest.raises(zoo.UserError, match=r"Packed takes a zoo\.Model; got NoneType"):
        zoo.fast.Packed(None)
    wants = "Packed takes a model with Linears on CPU in fp32 or bf16; got torch.float64 on cpu"
    with pytest.raises(zoo.UserError, match=re.escape(wants)):
        zoo.fast.Packed(zoo.create("vit_mu_patch8_32").double())
    with pytest.raises(zoo.UserError, match=r"got torch\.float32 on meta"):
        zoo.fast.Packed(zoo.create("vit_mu_patch8_32").to("meta"))


def test_tokens_are_a_pytree():
    from torch.utils import _pytree as pytree

    tokens = Tokens(torch.ones(1, 2, 3), grid=(1, 1, 1), prefix=1)
    doubled = pytree.tree_map(lambda t: t * 2, tokens)
    assert torch.equal(doubled.x, tokens.x * 2) and doubled.grid == (1, 1, 1)
    assert doubled.keep is None and doubled.prefix == 1


def test_unknown_part_options_are_named():
    with pytest.raises(OptionError) as error:
        zoo.adapters.Patches(dim=8, sise=32)
    assert str(error.value) == "Patches has no option 'sise'; did you mean 'size'?"
    with pytest.raises(OptionError, match="Classify needs the option 'classes'; got dim"):
        zoo.heads.Classify(dim=8)
    with pytest.raises(OptionError, match="Backbone has no option 'head'; did you mean 'heads'"):
        Backbone(dim=8, depth=1, head=2)


@pytest.mark.parametrize("top", [1, 2])
@pytest.mark.parametrize("gated", [False, True])
def test_experts_equal_a_loop_over_them_with_gradients(gated, top):
    torch.manual_seed(0)
    config = zoo.nn.MlpConfig(
        hidden=12, experts=4, top=top, bias=False, gated=gated, activation="silu"
    )
    routed = zoo.nn.Experts(8, config)
    for p in routed.parameters():
        torch.nn.init.normal_(p, std=0.5)
    x = torch.randn(2, 7, 8, requires_grad=True)

    def loop(x):
        weights = routed.router(x).softmax(-1)
        best, chosen = weights.topk(top, -1)
        best = best / best.sum(-1, keepdim=True) if top > 1 else best
        out = torch.zeros_like(x)
        for e in range(4):
            h = x @ routed.up[e].T
            if gated:
                gate, value = h.chunk(2, -1)
                h = torch.nn.functional.silu(gate) * value
            else:
                h = torch.nn.functional.silu(h)
            share = torch.where(chosen == e, best, 0).sum(-1, keepdim=True)
            out = out + share * (h @ routed.down[e].T)
        return out

    results = []
    for compute in (routed, loop):
        for leaf in (x, *routed.parameters()):
            leaf.grad = None
        out = compute(x)
        out.square().sum().backward()
        results.append([out, x.grad, *(p.grad for p in routed.parameters())])
    assert routed.router.weight.grad.abs().max() > 1e-3
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_balance_of_experts_counts_real_tokens_alone():
    torch.manual_seed(0)
    body = Backbone(dim=16, depth=1, heads=2, bias=False, experts=4, top=1)
    keep = torch.arange(6) < torch.tensor([6, 3])[:, None]
    x = torch.where(keep[..., None], torch.randn(2, 6, 16), 0)
    losses = []
    for junk in (0.0, 5.0):
        details = zoo.tokens.Details()
        tokens = Tokens(torch.where(keep[..., None], x, junk), keep)
        body(tokens, details=details, show=("aux",))
        losses.append(details.aux[0])
    torch.testing.assert_close(*losses)
    assert 0.005 < losses[0] < 0.04, "1 at perfect balance, by its weight"


def test_experts_without_a_weight_of_their_balance_have_none():
    body = Backbone(dim=16, depth=2, heads=2, bias=False, experts=4, balance=None)
    details = zoo.tokens.Details()
    body(Tokens(torch.randn(2, 6, 16)), details=details, show=("aux",))
    assert details.aux == []


@pytest.mark.parametrize("position", ["rope", "alibi", "buckets"])
def test_tokens_without_positions_are_refused_by_relations(position):
    body = Backbone(dim=16, depth=1, heads=2, position=position)
    with pytest.raises(ShapeError, match=f"got the position {position} and none"):
        body(Tokens(torch.randn(1, 3, 16)))


@pytest.mark.parametrize("activation", sorted(zoo.nn.mlp.ACTIVATIONS))
@pytest.mark.parametrize("gated", [False, True])
def test_an_activation_written_in_place_is_the_same_and_spares_what_a_hook_holds(activation, gated):
    torch.manual_seed(0)
    mlp = zoo.nn.mlp.Mlp(16, zoo.nn.MlpConfig(hidden=24, activation=activation, gated=gated))
    x = torch.randn(2, 5, 16)
    trained = mlp(x)  # keeps what its gradients need
    with torch.no_grad():
        torch.testing.assert_close(mlp(x), trained, rtol=0, atol=1e-6)
        held = []
        mlp.up.register_forward_hook(lambda _, given, out: held.append(out))
        torch.testing.assert_close(mlp(x), trained, rtol=0, atol=1e-6)
        torch.testing.assert_close(
            held[0], torch.nn.functional.linear(x, mlp.up.weight, mlp.up.bias)
        )


@pytest.mark.parametrize("prefix", [0, 1, 3])
def test_a_table_of_a_grid_tells_prefix_tokens_from_patches(prefix):
    """The same offset has the same bias wherever it is; pairs with a prefix token have their own."""
    torch.manual_seed(0)
    front = {"class_token": prefix > 0, "registers": max(prefix - 1, 0)}
    patches = zoo.adapters.Patches(size=32, patch=8, dim=16, position="none", **front)
    tokens = patches(torch.randn(1, 3, 24, 32))
    body = Backbone(dim=16, depth=1, heads=2, position=zoo.nn.GridTable((4, 4)), norm="none")
    nn.init.zeros_(body.blocks[0].attn.qkv.weight)
    nn.init.normal_(body.blocks[0].attn.position.table)
    details = zoo.tokens.Details()
    body(tokens, details=details, show=("attention",))
    scores = details.attention[0][0].log()
    among = scores[:, prefix:, prefix:].unflatten(1, (3, 4)).unflatten(3, (3, 4))
    steps = among[:, :, :3, :, :3].diagonal(0, 1, 3).diagonal(0, 1, 2)
    right = among[:, :, :3, :, 1:].diagonal(0, 1, 3).diagonal(0, 1, 2) - steps
    torch.testing.assert_close(right, right[:, :1, :1].expand_as(right), rtol=1e-3, atol=1e-4)
    own = scores[:, :, :prefix]
    torch.testing.assert_close(own, own[:, :, :1].expand_as(own), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_a_table_of_a_grid_that_blocks_share_knows_the_grid_too(drop):
    patches = zoo.adapters.Patches(size=32, patch=8, dim=16, position="none")
    tokens, kind = patches(torch.randn(2, 3, 48, 40)), zoo.nn.GridTable((4, 4))
    own = BlockConfig(16, AttentionConfig(2, position=kind))
    one = Backbone(stages=(Stage(1, own),), drop_tokens=drop)
    shared = (Stage(1, BlockConfig(16, AttentionConfig(2)), position=kind),)
    other = Backbone(stages=shared, drop_tokens=drop)
    nn.init.normal_(one.blocks[0].attn.position.table)
    state = {
        k.replace("blocks.0.attn.position", "position"): v for k, v in one.state_dict().items()
    }
    other.load_state_dict(state)
    answers = []
    for body in (one, other):
        torch.manual_seed(0)
        answers.append(body.train()(tokens).x)
    torch.testing.assert_close(*answers)


def test_rates_of_drop_path_need_no_graphs_of_their_own():
    block, x = BlockConfig(8, AttentionConfig(2)), Tokens(torch.randn(2, 3, 8))
    body = Backbone(stages=(Stage(3, block), Stage(3, block, share=3)), drop_path=0.5).eval()
    expected, graphs = body(x).x, []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    for one in body.blocks:
        one.compile(backend=backend, dynamic=True, fullgraph=True)
    torch.testing.assert_close(body(x).x, expected)
    assert len(graphs) <= 2
