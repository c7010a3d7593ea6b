"""Masks drawn and computed, and the paths of `ops.attend` against each other."""

import itertools

import pytest
import torch

from zoo.ops import Mask, attend, attention_weights
from zoo.ops.attend import filled_wins
from zoo.ops.pieces import in_pieces

KEEP = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1]]).bool()
SAMPLE = torch.tensor([[0, 0, 0, 1, 1, 1]] * 2)
MASKS = {
    "nothing": None,
    "causal": Mask(causal=True),
    "padding": Mask(keep=KEEP),
    "left padding, causal, band": Mask(keep=KEEP, causal=True, left=2),
    "packed": Mask(sample=SAMPLE),
    "packed, causal": Mask(sample=SAMPLE, causal=True),
    "band": Mask(left=1, right=1),
    "pairs": Mask(pairs=torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) < 0.5),
    "no key at all": Mask(keep=KEEP & False),
}
BIAS = torch.randn(1, 4, 6, 6, generator=torch.Generator().manual_seed(1))


def qkv(dtype=torch.float32):
    generator = torch.Generator().manual_seed(2)
    shapes = ((2, 4, 6, 8), (2, 2, 6, 8), (2, 2, 6, 8))
    return [torch.randn(s, generator=generator).to(dtype).requires_grad_() for s in shapes]


def draw(mask, n=6):
    dense = mask.dense(n, n, torch.device("cpu")).reshape(-1, n, n)[0]
    return ["".join("1" if x else "." for x in row) for row in dense]


def test_the_drawing_in_the_docstring_is_what_is_computed():
    mask = Mask(keep=torch.tensor([[False] + [True] * 5]), causal=True, left=2)
    lines = [line.strip().replace(" ", "") for line in (Mask.__doc__ or "").splitlines()]
    drawn = [line for line in lines if len(line) == 6 and set(line) <= {".", "1"}]
    assert draw(mask) == drawn


def test_queries_behind_a_cache_are_the_last_keys():
    full = Mask(causal=True, left=2).dense(6, 6, torch.device("cpu"))
    tail = Mask(causal=True, left=2).dense(2, 6, torch.device("cpu"))
    assert torch.equal(tail, full[-2:])


@pytest.mark.parametrize(("mask", "bias"), [*itertools.product(MASKS, (None, BIAS))])
def test_explicit_equals_fused_with_gradients(mask, bias):
    grads = []
    for path in ("fused", "explicit"):
        q, k, v = qkv()
        out = attend(q, k, v, MASKS[mask], bias, path=path)
        assert out.isfinite().all()
        out.square().sum().backward()
        grads.append((out, q.grad, k.grad, v.grad))
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("mask", "bias"), [*itertools.product(MASKS, (None, BIAS))])
def test_flex_equals_fused_forward(mask, bias):
    q, k, v = (t.detach() for t in qkv())
    fused = attend(q, k, v, MASKS[mask], bias, path="fused")
    torch.testing.assert_close(attend(q, k, v, MASKS[mask], bias, path="flex"), fused)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_stays_finite_and_near(mask, dtype):
    """Masks are combined as booleans, so no sum of lowest numbers overflows."""
    exact = attend(*qkv(), MASKS[mask], BIAS, path="fused")
    for path in ("fused", "explicit", "auto"):
        low = attend(*qkv(dtype), MASKS[mask], BIAS, path=path)
        assert low.dtype == dtype and low.isfinite().all()
        torch.testing.assert_close(low.float(), exact, rtol=0.1, atol=0.05)


def test_weights_sum_to_one_or_to_nothing():
    q, k, _ = qkv()
    keep = KEEP.clone()
    keep[1] = False
    sums = attention_weights(q, k, Mask(keep=keep)).sum(-1)
    torch.testing.assert_close(sums[0], torch.ones(4, 6))
    assert not sums[1].any()


def test_softcap_bends_scores():
    q, k, v = (t.detach() * 10 for t in qkv())
    scores = 5 * torch.tanh(q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 8**0.5 / 5)
    wanted = scores.softmax(-1) @ v.repeat_interleave(2, 1)
    torch.testing.assert_close(attend(q, k, v, softcap=5.0), wanted)


def test_auto_fills_up_only_where_that_was_measured_to_win():
    q, k, _ = qkv(torch.bfloat16)
    assert filled_wins(q, k)
    assert not filled_wins(q.detach(), k.detach())  # torch.compile, DDP's checks: no memory to save
    assert not filled_wins(*qkv()[:2])
    with torch.no_grad():
        assert not filled_wins(q, k)  # six queries
        assert filled_wins(*(torch.zeros(2, 4, 49, 8, dtype=torch.bfloat16) for _ in range(2)))


LONG_KEEP = torch.arange(33) < torch.tensor([[33], [20], [0], [1]])
LONG = {
    "nothing": (None, None),
    "padding, one of nothing else": (Mask(keep=LONG_KEEP), None),
    "causal": (Mask(causal=True), None),
    "pairs of all": (Mask(pairs=torch.rand(33, 33) < 0.5), None),
    "groups of a sample": (Mask(pairs=torch.rand(2, 1, 33, 33) < 0.5), "bias"),
    "bias": (None, "bias"),
    "bias and padding": (Mask(keep=LONG_KEEP), "bias"),
}


@pytest.mark.parametrize("case", LONG)
@pytest.mark.parametrize("keys", [32, 33])
@pytest.mark.parametrize("trains", [False, True])
def test_keys_filled_up_change_no_answer(case, keys, trains):
    """On CPU in bf16, against the formula in fp32 on the same numbers."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((4, 4, 33, 8), (4, 2, 33, 8), (4, 2, 33, 8), (1, 4, 33, 33))
    given = [torch.randn(s, generator=generator).bfloat16()[:, :, :keys] for s in shapes]
    given[3] = given[3][..., :keys]
    mask, biased = LONG[case]
    if mask is not None:
        sides = {"keep": (..., slice(keys)), "pairs": (..., slice(keys), slice(keys))}
        known = {n: getattr(mask, n) for n in sides if getattr(mask, n) is not None}
        mask = Mask(causal=mask.causal, **{n: x[sides[n]] for n, x in known.items()})
    made = []
    for kind, path in ((torch.bfloat16, "auto"), (torch.float32, "explicit")):
        q, k, v, bias = (x.detach().to(kind, copy=True).requires_grad_(trains) for x in given)
        with torch.set_grad_enabled(trains):
            assert filled_wins(q, k) == (path == "auto")
            out = attend(q, k, v, mask, bias if biased else None, path=path)
        if trains:
            out.float().square().sum().backward()
        own = [bias.grad] if trains and biased else []
        made.append([out.detach(), *([q.grad, k.grad, v.grad] if trains else []), *own])
    for got, want in zip(*made, strict=True):
        assert got.isfinite().all() and got.dtype == torch.bfloat16
        assert (got.float() - want).norm() / want.norm() < 0.015
    if "padding" in case:
        assert made[0][0][2].abs().max() == 0  # no key at all


def test_pieces_are_put_together_in_order_and_only_without_gradients(monkeypatch):
    from zoo.ops import pieces

    monkeypatch.setattr(pieces, "MOST", 40)
    monkeypatch.setattr(pieces, "PIECE", 30)
    sizes = []

    def double(x):
        sizes.append(len(x))
        return 2 * x

    x = torch.arange(70.0).view(7, 10)
    with torch.no_grad():
        assert torch.equal(in_pieces(double, x, 10), 2 * x)
        assert torch.equal(in_pieces(double, x[:0], 10), x[:0])
    assert sizes == [3, 3, 1, 0]
    in_pieces(double, x, 10)
    assert sizes[-1] == 7
