"""The standing laws, over a mu-sized member of every family."""

import copy

import pytest
import torch

import zoo
from zoo import ops
from zoo.nn import use_path
from zoo.ops import drop_tokens, pieces

MU = [name for name in zoo.list_models() if "mu" in name.split("_")]
TEXT = ("bert_mu", "gpt2_mu", "llama_mu")


def model_of(name, **options):
    torch.manual_seed(0)
    model = zoo.create(name, **options)
    generator = torch.Generator().manual_seed(1)
    for p in model.parameters():  # away from the start, where much is zero or one
        p.data += 0.05 * torch.randn(p.shape, generator=generator)
    return model.eval()


def batch_of(name, batch=3, size=None):
    """Inputs that the family takes, as (args, kwargs); `size` picks another than the native one."""
    generator = torch.Generator().manual_seed(2)
    if name in TEXT:
        return (torch.randint(1, 64, (batch, size or 12), generator=generator),)
    if name == "ast_mu":
        return (torch.randn(batch, size or 64, 32, generator=generator),)
    side = size or (64 if "swin" in name else 32)
    if name == "swin3d_mu":
        return (torch.randn(batch, 3, 4, side // 2, side // 2, generator=generator),)
    return (torch.randn(batch, 3, side, side, generator=generator),)


def close(a, b, tolerance=1e-5):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def answer(model, inputs, **named):
    with torch.no_grad():
        out = model(*inputs, **named)
    return out.x if isinstance(out, zoo.Tokens) else out


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_equals_alone(name, side):
    """What stands in the padding, and who else is in the batch, changes nothing."""
    model = model_of(name, classes=5)
    lengths, longest = (12, 7, 1), 12
    (ids,) = batch_of(name)
    keep = torch.arange(longest) < torch.tensor(lengths)[:, None]
    if side == "left":
        keep = keep.flip(1)
    junk = torch.where(keep, ids, 63)
    together = answer(model, (junk,), keep=keep)
    for row, length in enumerate(lengths):
        alone = ids[row][keep[row]][None]
        assert alone.shape[1] == length
        close(together[row], answer(model, (alone,))[0], 1e-4)


@pytest.mark.parametrize("stem", ["linear", "conv"])
@pytest.mark.parametrize("position", ["learned", "sincos", "none"])
def test_padded_frames_equal_alone_with_nan_in_the_padding(stem, position):
    torch.manual_seed(0)
    model = zoo.Model(
        zoo.adapters.Frames(dim=32, channels=6, stem=stem, position=position, class_token=True),
        zoo.Backbone(dim=32, depth=2, heads=2),
        zoo.heads.Classify(dim=32, classes=3, pool="mean"),
    ).eval()
    frames = torch.randn(3, 20, 6)
    keep = torch.arange(20) < torch.tensor([20, 13, 6])[:, None]
    padded = torch.where(keep[..., None], frames, torch.nan)
    together = answer(model, (padded,), keep=keep)
    assert together.isfinite().all()
    for row, length in enumerate((20, 13, 6)):
        close(together[row], answer(model, (frames[row : row + 1, :length],))[0], 1e-4)


BANDS = ({"left": 2}, {"left": 1, "right": 2}, {"left": 2, "causal": True})


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("front", range(5))
def test_frames_padded_in_front_equal_alone_behind_a_strided_stem(front, stride):
    torch.manual_seed(0)
    model = zoo.Model(
        zoo.adapters.Frames(dim=32, channels=6, stem="conv", stride=stride),
        zoo.Backbone(dim=32, depth=1, heads=2),
        zoo.heads.Classify(dim=32, classes=3, pool="mean"),
    ).eval()
    frames, keep = torch.randn(2, 12, 6), torch.ones(2, 12, dtype=torch.bool)
    keep[0, :front] = keep[0, 11:] = False
    together = answer(model, (torch.where(keep[..., None], frames, torch.nan),), keep=keep)
    for row in range(2):
        close(together[row], answer(model, (frames[row][keep[row]][None],))[0], 1e-4)


@pytest.mark.parametrize("band", BANDS)
@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_equals_alone_in_a_band_behind_a_class_token(band, side):
    torch.manual_seed(0)
    model = zoo.Model(
        zoo.adapters.Frames(dim=32, channels=6, class_token=True),
        zoo.Backbone(dim=32, depth=2, heads=2, **band),
        zoo.heads.Classify(dim=32, classes=3, pool="class_mean"),
    ).eval()
    frames, keep = torch.randn(2, 12, 6), torch.arange(12) < torch.tensor([12, 7])[:, None]
    keep = keep.flip(1) if side == "left" else keep
    together = answer(model, (torch.where(keep[..., None], frames, torch.nan),), keep=keep)
    for row in range(2):
        close(together[row], answer(model, (frames[row][keep[row]][None],))[0], 1e-4)


@pytest.mark.parametrize("band", BANDS)
@pytest.mark.parametrize("padded", [False, True])
def test_a_band_counts_the_tokens_that_were_dropped(band, padded):
    words = zoo.adapters.Subwords(dim=32, vocabulary=64)
    body = zoo.Backbone(dim=32, depth=1, heads=2, drop_tokens=0.5, **band).train()
    keep = torch.arange(24).expand(2, -1) >= torch.tensor([0, 9])[:, None] if padded else None
    tokens, shown = words(torch.randint(1, 64, (2, 24)), keep=keep), zoo.tokens.Details()
    torch.manual_seed(3)
    some = drop_tokens(tokens, 0.5, training=True)
    torch.manual_seed(3)
    body(tokens, details=shown, show=("attention",))
    place = some.positions[..., 0]
    back = place[:, :, None] - place[:, None]
    wanted = (back <= band["left"]) & (back >= -(0 if "causal" in band else band.get("right", 24)))
    seen = (shown.attention[0] > 0).all(1)
    real = seen.new_ones(2, 12) if some.keep is None else some.keep
    assert torch.equal(seen[real], (wanted & real[:, None])[real])


@pytest.mark.parametrize("name", [n for n in MU if n not in TEXT])
def test_any_size_in_any_order(name):
    model = model_of(name)
    sizes = (100, 64, 30) if name == "ast_mu" else (100, 64, 12) if "swin" in name else (48, 32, 8)
    first = [answer(model, batch_of(name, size=s)) for s in sizes]
    again = [answer(model, batch_of(name, size=s)) for s in reversed(sizes)]
    for a, b in zip(first, reversed(again), strict=True):
        assert torch.equal(a, b) and a.isfinite().all()


@pytest.mark.parametrize("name", MU)
def test_forward_writes_nothing_to_the_modules(name):
    model = model_of(name)

    def facts():
        kinds = (int, float, str, bool, tuple, type(None))
        return {
            (key, attribute): value if isinstance(value, kinds) else id(value)
            for key, module in model.named_modules()
            for attribute, value in vars(module).items()
        }

    before, tensors = facts(), {k: t.clone() for k, t in model.state_dict().items()}
    answer(model, batch_of(name))
    assert facts() == before
    assert all(torch.equal(tensors[k], t) for k, t in model.state_dict().items())


@pytest.mark.parametrize("name", MU)
def test_inspected_equals_not_inspected(name):
    model = model_of(name)
    inputs = batch_of(name)
    plain = answer(model, inputs)
    with torch.no_grad():
        out, details = model(*inputs, details=("states", "attention", "aux"))
    out = out.x if isinstance(out, zoo.Tokens) else out
    assert torch.equal(out, plain)
    depth = len(model.backbone.blocks)
    assert len(details.states) == depth + 1 and len(details.attention) == depth
    for maps in details.attention:
        weights = maps.sum(-1)
        close(weights, torch.ones_like(weights))


@pytest.mark.parametrize("name", MU)
def test_a_batch_in_pieces_equals_the_whole(name, monkeypatch):
    """Where what lies between is large, blocks see some samples at a time."""
    model, inputs = model_of(name, classes=5), batch_of(name)
    whole, passes = answer(model, inputs), []
    monkeypatch.setattr(pieces, "MOST", 1)
    monkeypatch.setattr(pieces, "PIECE", 1)
    seen = zoo.nn.Block.mix
    spied = lambda block, name, x, around: (passes.append(len(x)), seen(block, name, x, around))[1]  # noqa: E731
    monkeypatch.setattr(zoo.nn.Block, "mix", spied)
    close(answer(model, inputs), whole)
    assert set(passes) == {1}


@pytest.mark.parametrize("where", ["block", "within", "before", "everywhere"])
def test_a_hook_sees_the_whole_batch(where, monkeypatch):
    model, inputs = model_of("vit_mu_patch8_32", classes=5), batch_of("vit_mu_patch8_32")
    whole, sizes = answer(model, inputs), []
    monkeypatch.setattr(pieces, "MOST", 1)
    monkeypatch.setattr(pieces, "PIECE", 1)
    block, see = model.backbone.blocks[0], lambda _, given, *__: sizes.append(len(given[0]))
    handle = {
        "block": lambda: block.register_forward_hook(see),
        "within": lambda: block.mlp.up.register_forward_hook(see),
        "before": lambda: block.register_forward_pre_hook(see),
        "everywhere": lambda: torch.nn.modules.module.register_module_forward_hook(
            lambda part, given, _: see(part, given) if part is block else None
        ),
    }[where]()
    try:
        close(answer(model, inputs), whole)
    finally:
        handle.remove()
    assert sizes == [3]


def test_in_training_no_batch_is_taken_apart(monkeypatch):
    """An outer checkpoint computes twice, without gradients and with: dropout has to be the same."""
    model = model_of("vit_mu_patch8_32", **{"block.dropout": 0.5}).train()
    (inputs,) = batch_of("vit_mu_patch8_32")
    monkeypatch.setattr(pieces, "MOST", 1)
    monkeypatch.setattr(pieces, "PIECE", 1)
    outs = []
    for grad in (False, True):
        torch.manual_seed(3)
        with torch.set_grad_enabled(grad):
            outs.append(model(inputs))
    close(*outs)


def test_a_bias_of_other_samples_is_refused():
    model, (x,) = model_of("vit_mu_patch8_32"), batch_of("vit_mu_patch8_32", 4)
    tokens, bias = model.embed(x), torch.zeros(2, 1, 17, 17)
    model.backbone(tokens, bias=bias[:1])
    with pytest.raises(zoo.ShapeError, match="for each sample, or one for all; got one of 2 for 4"):
        model.backbone(tokens, bias=bias)


@pytest.mark.parametrize("name", ["vit_mu_patch8_32", "swin_mu_patch4_window4_64", "ast_mu"])
def test_a_model_is_exported_for_batches_of_any_size(name):
    model = model_of(name, classes=5)
    (x,) = batch_of(name, 4)
    batch = torch.export.Dim("batch", min=2)
    with torch.no_grad():
        program = torch.export.export(model, (x,), dynamic_shapes=(({0: batch},),))
    for count in (2, 7):
        (x,) = batch_of(name, count)
        close(program.module()(x), answer(model, (x,)), 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MU)
def test_a_batch_of_none_has_no_answers(name, dtype):
    inputs = [x[:0] if x.dtype == torch.int64 else x[:0].to(dtype) for x in batch_of(name)]
    assert answer(model_of(name, classes=5).to(dtype), inputs).shape == (0, 5)


@pytest.mark.parametrize("position", ["rope", "alibi", "buckets"])
def test_what_is_around_single_samples_goes_with_them(position, monkeypatch):
    """Positions within windows, and padding: such a batch stays whole."""
    torch.manual_seed(0)
    windows = zoo.nn.Windows((4,), shift=True)
    body = zoo.Backbone(dim=32, depth=2, heads=2, position=position, grouping=windows)
    ids, head = torch.randint(1, 64, (3, 12)), zoo.heads.Classify(dim=32, classes=3, pool="mean")
    words = zoo.adapters.Subwords(dim=32, vocabulary=64, position="none")
    model = zoo.Model(words, body, head).eval()
    for keep in (None, torch.arange(12) < torch.tensor([12, 7, 1])[:, None]):
        monkeypatch.setattr(pieces, "MOST", 10**9)
        whole = answer(model, (ids,), keep=keep)
        monkeypatch.setattr(pieces, "MOST", 1)
        monkeypatch.setattr(pieces, "PIECE", 1)
        close(answer(model, (ids,), keep=keep), whole)


@pytest.mark.parametrize("name", MU)
def test_explicit_equals_fused_with_gradients(name):
    fused = model_of(name)
    use_path(fused, "fused")
    explicit = copy.deepcopy(fused)
    use_path(explicit, "explicit")
    inputs = batch_of(name)
    for model in (fused, explicit):
        out = model(*inputs)
        (out.x if isinstance(out, zoo.Tokens) else out).square().mean().backward()
    close(answer(fused, inputs), answer(explicit, inputs), 1e-4)
    others = dict(explicit.named_parameters())
    for key, p in fused.named_parameters():
        assert (p.grad is None) == (others[key].grad is None), key
        if p.grad is not None:
            close(p.grad, others[key].grad, 1e-4)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", MU)
def test_flex_equals_fused_forward(name):
    model = model_of(name).requires_grad_(False)
    inputs = batch_of(name)
    plain = answer(model, inputs)
    use_path(model, "flex")
    close(answer(model, inputs), plain, 1e-4)


@pytest.mark.parametrize("name", MU)
def test_bf16_within_bf16(name):
    model = model_of(name)
    inputs = batch_of(name)
    exact = answer(model, inputs)
    low = tuple(t.bfloat16() if t.is_floating_point() else t for t in inputs)
    out = answer(model.bfloat16(), low)
    assert out.dtype == torch.bfloat16
    assert float((out.float() - exact).norm() / exact.norm()) < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MU)
def test_packed_equals_the_model(name, dtype):
    model = model_of(name).to(dtype)
    inputs = tuple(t.to(dtype) if t.is_floating_point() else t for t in batch_of(name))
    packed = zoo.fast.Packed(model)
    assert any(isinstance(part, zoo.fast.PackedLinear) for part in packed.model.modules())
    out, wanted = packed(*inputs), answer(model, inputs)
    out = out.x if isinstance(out, zoo.Tokens) else out
    tolerance = 1e-5 if dtype == torch.float32 else 0.0
    close(out, wanted, tolerance)
    close(packed.features(*inputs).x, model.features(*inputs).x, tolerance or 0.05)


@pytest.mark.parametrize("name", MU)
def test_meta_build_and_load(name, tmp_path):
    model = model_of(name)
    model.save(tmp_path / "m")
    again = zoo.load(tmp_path / "m").eval()
    assert torch.equal(answer(model, batch_of(name)), answer(again, batch_of(name)))
    with torch.device("meta"):
        hollow = zoo.create(name)
    assert all(t.is_meta for t in hollow.state_dict().values())
    hollow.load_state_dict(model.state_dict(), assign=True)
    assert torch.equal(answer(model, batch_of(name)), answer(hollow.eval(), batch_of(name)))


@pytest.mark.parametrize("name", MU)
def test_derived_tables_are_not_stored(name):
    model = model_of(name)
    assert not dict(model.named_buffers())
    assert model.state_dict().keys() == dict(model.named_parameters()).keys()


@pytest.mark.parametrize("name", MU)
def test_every_trainable_parameter_gets_a_gradient(name):
    model = model_of(name, classes=5).train()
    model(*batch_of(name)).square().mean().backward()
    missing = [key for key, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert not missing


@pytest.mark.parametrize("name", MU)
def test_checkpointing_changes_nothing(name):
    plain = model_of(name)
    saving = model_of(name, checkpoint=True)
    saving.load_state_dict(plain.state_dict())
    for model in (plain, saving):
        model.train()
        out = model(*batch_of(name))
        (out.x if isinstance(out, zoo.Tokens) else out).square().mean().backward()
    for (key, a), (_, b) in zip(plain.named_parameters(), saving.named_parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), key
        if a.grad is not None:
            close(a.grad, b.grad)
    out, details = saving(*batch_of(name), details=("attention",))
    count = len(details.attention)
    (out.x if isinstance(out, zoo.Tokens) else out).sum().backward()
    assert len(details.attention) == count == len(saving.backbone.blocks)


@pytest.mark.parametrize("name", [n for n in MU if "swin" not in n])
def test_token_dropping_keeps_masks_positions_and_the_answers_shape(name):
    model = model_of(name, drop_tokens=0.5, classes=5)
    inputs = batch_of(name)
    whole = answer(model, inputs)
    model.train()
    dropped = answer(model, inputs)
    assert dropped.shape == whole.shape and not torch.equal(dropped, whole)
    tokens = model.adapter(*inputs)
    some = drop_tokens(tokens, model.backbone.config.drop_tokens, training=True)
    assert some.grid is None and some.prefix == tokens.prefix
    assert some.x.shape[1] == tokens.prefix + round((tokens.x.shape[1] - tokens.prefix) * 0.5)
    places = tokens.positions.expand(len(tokens.x), -1, -1)
    for row in range(len(tokens.x)):  # each token that is left still stands where it stood
        for x, place in zip(some.x[row], some.positions[row], strict=True):
            same = (tokens.x[row] == x).all(-1) & (places[row] == place).all(-1)
            assert same.any()


@pytest.mark.parametrize("size", [None, 48])
@pytest.mark.parametrize("name", [n for n in MU if "swin" not in n and n not in TEXT])
def test_what_is_left_of_dropped_tokens_attends_as_if_the_others_were_hidden(name, size):
    body = model_of(name, drop_tokens=0.5)
    with torch.no_grad():
        tokens = body.adapter(*batch_of(name, size=size))
        some = drop_tokens(tokens, 0.5, training=True)
        match = (some.x[:, :, None] == tokens.x[:, None]).all(-1).int()  # (B, T', T)
        whole = body.backbone(tokens.replace(keep=match.any(1))).x
        close(body.backbone(some).x, ops.take(whole, match.argmax(-1)), 1e-4)


@pytest.mark.parametrize("name", MU)
def test_compiled_equals_eager_with_dynamic_sizes_and_no_break_in_blocks(name):
    model = model_of(name)
    expected = [answer(model, batch_of(name, b)) for b in (2, 3)]
    for block in model.backbone.blocks:
        block.compile(backend="aot_eager", dynamic=True, fullgraph=True)
    torch._dynamo.reset()
    for b, wanted in zip((2, 3), expected, strict=True):
        close(answer(model, batch_of(name, b)), wanted, 1e-4)


@pytest.mark.parametrize("name", ["swin_mu_patch4_window4_64", "llama_mu"])
def test_a_whole_model_is_traced_as_one_graph(name):
    model, inputs = model_of(name), batch_of(name)
    expected = answer(model, inputs)
    torch._dynamo.reset()
    close(answer(torch.compile(model, backend="eager", fullgraph=True), inputs), expected)
