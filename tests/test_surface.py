"""Every named choice of the model side builds, runs, trains and is saved: one row each."""

import pytest
import torch

import zoo
from zoo.nn import (
    Alibi,
    AttentionConfig,
    Axes,
    Backbone,
    BlockConfig,
    Buckets,
    Continuous,
    GridTable,
    MlpConfig,
    Rope,
    Stage,
    Windows,
    WindowTable,
    use_path,
)

TEXT = {"adapter": lambda: zoo.adapters.Subwords(dim=32, vocabulary=50, length=20)}
GRID = (4, 6)


def sequence(**options):
    """A text model with one option changed, and its input."""
    return (
        zoo.Model(
            zoo.adapters.Subwords(dim=32, vocabulary=50, length=20, position="none"),
            Backbone(dim=32, depth=2, heads=2, **options),
            zoo.heads.Classify(dim=32, classes=3, pool="mean"),
        ),
        (torch.arange(24).view(2, 12),),
    )


def picture(class_token=False, **options):
    """A model of 4 x 6 patches with one option changed, and its input."""
    return (
        zoo.Model(
            zoo.adapters.Patches(dim=32, size=(16, 24), patch=4, class_token=class_token),
            Backbone(dim=32, depth=2, heads=2, **options),
            zoo.heads.Classify(dim=32, classes=3, pool="mean"),
        ),
        (torch.randn(2, 3, 16, 24),),
    )


def video(class_token=False, **options):
    """A model of 2 x 3 x 4 tubes with one option changed, and its input."""
    return (
        zoo.Model(
            zoo.adapters.Tubes(dim=32, size=(4, 12, 16), tube=(2, 4, 4), class_token=class_token),
            Backbone(dim=32, depth=2, heads=2, **options),
            zoo.heads.Classify(dim=32, classes=3, pool="mean"),
        ),
        (torch.randn(2, 3, 4, 12, 16),),
    )


def adapted(adapter, *inputs):
    """A model around an adapter, and its input."""
    stages = {"stages": adapter.stages} if hasattr(adapter, "stages") else {}
    plain = {} if stages else {"dim": adapter.dim, "depth": 2, "heads": 2}
    body = Backbone(**stages, **plain)
    return zoo.Model(
        adapter, body, zoo.heads.Classify(dim=body.dim, classes=3, pool="mean")
    ), inputs


def pooled(pool, **named):
    """A text model with a pooling, and its input."""
    adapter = zoo.adapters.Subwords(dim=32, vocabulary=50, length=20)
    if pool in ("prefix", "class_mean"):
        return adapted_pool(
            zoo.adapters.Patches(dim=32, size=16, patch=4), pool, torch.randn(2, 3, 16, 16)
        )
    return adapted_pool(adapter, pool, torch.arange(24).view(2, 12), named)


def adapted_pool(adapter, pool, x, named=None):
    head = zoo.heads.Classify(dim=32, classes=3, pool=pool, heads=2)
    return zoo.Model(adapter, Backbone(dim=32, depth=1, heads=2), head), (x,), named or {}


def stages(grouping, **block):
    attn = AttentionConfig(2, grouping=grouping)
    return {"stages": (Stage(2, BlockConfig(32, attn, **block)),)}


def staged(make, grouping, **block):
    model, inputs = make()
    body = Backbone(**stages(grouping, **block))
    return zoo.Model(model.adapter, body, model.head), inputs


def crossed():
    attn = AttentionConfig(2)
    body = Backbone(stages=(Stage(2, BlockConfig(32, attn, cross=attn)),), source=16)
    return body


def pathed(path):
    model, inputs = sequence(causal=True, position="rope")
    use_path(model, path)
    return model, inputs


A = zoo.adapters
ROWS = {
    # positions
    "position rope, 1 axis": lambda: sequence(position="rope"),
    "position rope, base": lambda: sequence(position=Rope(base=5e5)),
    "position rope, part of the head": lambda: sequence(position=Rope(widths=(8,))),
    "position rope, 2 axes": lambda: picture(position="rope", class_token=True),
    "position rope, 2 bases": lambda: picture(position=Rope(base=(100.0, 1e4))),
    "position rope, 3 axes": lambda: video(position=Rope(widths=(4, 6, 6))),
    "position alibi": lambda: sequence(position="alibi"),
    "position buckets": lambda: sequence(position="buckets", causal=True),
    "position buckets, per stage": lambda: (
        zoo.Model(
            A.Subwords(dim=32, vocabulary=50, position="none"),
            Backbone(stages=(Stage(2, BlockConfig(32, AttentionConfig(2)), position=Buckets()),)),
            zoo.heads.Classify(dim=32, classes=3, pool="mean"),
        ),
        (torch.arange(24).view(2, 12),),
    ),
    "position table, 1 axis": lambda: sequence(position=WindowTable((12,))),
    "grouping windows, 1 axis": lambda: sequence(grouping=Windows((5,), shift=True)),
    "position table, 2 axes": lambda: picture(position=WindowTable(GRID)),
    "position table of a grid": lambda: picture(class_token=True, position=GridTable(GRID)),
    "position table, 3 axes": lambda: video(position=WindowTable((2, 3, 4))),
    "position continuous": lambda: picture(position=Continuous(GRID)),
    "position none": lambda: sequence(),
    "added sincos, 1 axis": lambda: adapted(A.Subwords(dim=32, vocabulary=50, position="sincos"), torch.arange(24).view(2, 12)),
    "added sincos, scaled": lambda: adapted(A.Subwords(dim=32, vocabulary=50, position="sincos_scaled"), torch.arange(24).view(2, 12)),
    "added sincos, 2 axes": lambda: adapted(A.Patches(dim=32, size=16, patch=4, position="sincos"), torch.randn(2, 3, 16, 16)),
    "added sincos, 3 axes": lambda: adapted(A.Tubes(dim=32, size=(4, 8, 8), tube=(2, 4, 4)), torch.randn(2, 3, 4, 8, 8)),
    "added learned": lambda: adapted(A.Patches(dim=32, size=16, patch=4), torch.randn(2, 3, 16, 16)),
    # norms and their places
    "norm layer": lambda: sequence(norm="layer"),
    "norm rms": lambda: sequence(norm="rms"),
    "norm rms_offset": lambda: sequence(norm="rms_offset"),
    "norm none": lambda: sequence(norm="none"),
    "place pre": lambda: sequence(place="pre"),
    "place post": lambda: sequence(place="post"),
    "place res_post": lambda: sequence(place="res_post"),
    "place sandwich": lambda: sequence(place="sandwich"),
    "layer scale": lambda: sequence(layer_scale=0.1),
    "drop path": lambda: sequence(drop_path=0.2),
    "drop tokens": lambda: sequence(drop_tokens=0.3),
    "dropout": lambda: sequence(**{"dropout": 0.1, "attn.dropout": 0.1, "mlp.dropout": 0.1}),
    "checkpoint": lambda: sequence(checkpoint=True),
    # initialisations
    "init normal": lambda: sequence(init="normal"),
    "init xavier": lambda: sequence(init="xavier"),
    "init orthogonal": lambda: sequence(init="orthogonal"),
    "init depth_scaled": lambda: sequence(init="depth_scaled"),
    # MLPs
    "mlp relu": lambda: sequence(activation="relu"),
    "mlp gelu": lambda: sequence(activation="gelu"),
    "mlp gelu_tanh": lambda: sequence(activation="gelu_tanh"),
    "mlp quick_gelu": lambda: sequence(activation="quick_gelu"),
    "mlp silu": lambda: sequence(activation="silu"),
    "mlp gated": lambda: sequence(gated=True),
    "mlp inner norm": lambda: sequence(**{"mlp.inner_norm": "layer"}),
    "mlp ratio": lambda: sequence(hidden=40),
    "mlp experts": lambda: sequence(bias=False, experts=4, top=2),
    "mlp gated experts": lambda: sequence(bias=False, experts=3, top=1, gated=True),
    # attention
    "attention GQA": lambda: sequence(kv_heads=1),
    "attention width": lambda: sequence(width=24),
    "attention bias qv": lambda: sequence(**{"attn.bias": "qv"}),
    "attention bias none": lambda: sequence(bias=False),
    "attention scale": lambda: sequence(**{"attn.scale": 1.0}),
    "attention cosine": lambda: sequence(**{"attn.scale": "cosine"}),
    "attention softcap": lambda: sequence(softcap=30.0),
    "attention qk norm": lambda: sequence(qk_norm="rms"),
    "attention inner norm": lambda: sequence(**{"attn.inner_norm": "layer"}),
    "attention causal": lambda: sequence(causal=True),
    "attention band": lambda: sequence(left=2, right=1),
    "path fused": lambda: pathed("fused"),
    "path explicit": lambda: pathed("explicit"),
    # groupings
    "grouping everything": lambda: sequence(),
    "grouping windows, 2 axes": lambda: staged(picture, Windows((3, 4))),
    "grouping windows, shifted, masked": lambda: staged(picture, Windows((3, 4), shift=True)),
    "grouping windows, attended": lambda: staged(picture, Windows((3, 4), True, "attend")),
    "grouping windows, 3 axes": lambda: staged(video, Windows((2, 2, 2), shift=True)),
    "grouping axes, rows": lambda: staged(picture, Axes("rows")),
    "grouping axes, columns": lambda: staged(picture, Axes("columns")),
    "grouping divided space-time": lambda: staged(video, Axes("space"), time=AttentionConfig(2, grouping=Axes("time"))),
    # adapters
    "adapter Patches": lambda: adapted(A.Patches(dim=32, size=16, patch=4), torch.randn(2, 3, 16, 16)),
    "adapter Patches, conv stem": lambda: adapted(A.Patches(dim=32, size=16, patch=4, stem="conv"), torch.randn(2, 3, 16, 16)),
    "adapter Patches, random stem": lambda: adapted(A.Patches(dim=32, size=16, patch=4, stem="random"), torch.randn(2, 3, 16, 16)),
    "adapter SwinPatches": lambda: adapted(A.SwinPatches(dim=16, depths=(2, 2), heads=(1, 2), window=(4, 4)), torch.randn(2, 3, 40, 36)),
    "adapter SwinPatches, conv stem": lambda: adapted(A.SwinPatches(dim=16, depths=(2, 2), heads=(1, 2), window=(4, 4), stem="conv"), torch.randn(2, 3, 40, 36)),
    "adapter SwinPatches, version 2": lambda: adapted(A.SwinPatches(dim=16, depths=(2, 2), heads=(1, 2), window=(4, 4), version=2), torch.randn(2, 3, 40, 36)),
    "adapter SwinPatches, video": lambda: adapted(A.SwinPatches(dim=16, depths=(2, 2), heads=(1, 2), window=(2, 4, 4), patch=(2, 4, 4)), torch.randn(2, 3, 6, 32, 32)),
    "adapter Subwords": lambda: adapted(A.Subwords(dim=32, vocabulary=50, segments=2, norm="layer"), torch.arange(24).view(2, 12)),
    "adapter Subwords, factorised": lambda: adapted(A.Subwords(dim=32, vocabulary=50, narrow=8), torch.arange(24).view(2, 12)),
    "adapter Frames": lambda: adapted(A.Frames(dim=32, channels=6), torch.randn(2, 15, 6)),
    "adapter Frames, conv stem": lambda: adapted(A.Frames(dim=32, channels=6, stem="conv"), torch.randn(2, 15, 6)),
    "adapter SpectrogramPatches": lambda: adapted(A.SpectrogramPatches(dim=32, size=(32, 64)), torch.randn(2, 64, 32)),
    "adapter Tubes": lambda: adapted(A.Tubes(dim=32, size=(4, 8, 8), tube=(2, 4, 4), position="learned", class_token=True), torch.randn(2, 3, 6, 8, 12)),
    # poolings
    "pool class": lambda: pooled("class"),
    "pool class_mean": lambda: pooled("class_mean"),
    "pool prefix": lambda: pooled("prefix"),
    "pool mean": lambda: pooled("mean"),
    "pool attention": lambda: pooled("attention"),
    "pool last": lambda: pooled("last", keep=torch.arange(12).expand(2, -1) < 9),
    "pool pick": lambda: pooled("pick", pick=torch.tensor([3, 4])),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_row(row, tmp_path):
    torch.manual_seed(0)
    model, inputs, *more = ROWS[row]()
    named = more[0] if more else {}
    logits = model.train()(*inputs, **named)
    assert logits.shape == (2, 3) and logits.isfinite().all()
    logits.square().mean().backward()
    missing = [k for k, p in model.named_parameters() if p.requires_grad and p.grad is None]
    # experts that no token chose get zeros, never nothing
    assert not missing
    model.eval()
    with torch.no_grad():
        wanted = model(*inputs, **named)
        model.save(tmp_path / "m")
        again = zoo.load(tmp_path / "m").eval()
        torch.testing.assert_close(again(*inputs, **named), wanted)


def test_cross_attention_reads_its_source_and_masks_it():
    torch.manual_seed(0)
    body = crossed().eval()
    tokens, source = zoo.Tokens(torch.randn(2, 5, 32)), torch.randn(2, 7, 16)
    keep = torch.arange(7) < torch.tensor([7, 4])[:, None]
    with torch.no_grad():
        out = body(tokens, zoo.Tokens(source, keep)).x
        junk = torch.where(keep[..., None], source, 9.0)
        torch.testing.assert_close(body(tokens, zoo.Tokens(junk, keep)).x, out)
        short = body(tokens.replace(x=tokens.x[1:]), zoo.Tokens(source[1:, :4])).x
        torch.testing.assert_close(short[0], out[1])
    with pytest.raises(zoo.OptionError, match="takes a source"):
        body(tokens)


def test_external_pairwise_bias_reaches_the_scores():
    torch.manual_seed(0)
    body = Backbone(dim=32, depth=1, heads=2).eval()
    x = torch.randn(1, 4, 32)
    bias = torch.full((1, 2, 4, 4), -1e4)
    bias[..., 0] = 0.0  # everyone may only look at the first token
    with torch.no_grad():
        tokens = zoo.Tokens(x)
        forced = body(tokens, bias=bias).x
        changed = x.clone()
        changed[:, 2] += 1.0
        other = body(zoo.Tokens(changed), bias=bias).x
    torch.testing.assert_close(forced[:, [0, 1, 3]], other[:, [0, 1, 3]])
    assert not torch.allclose(body(tokens).x, forced)
    assert Alibi().bias(2) is not None and MlpConfig().hidden is None
