"""Weights made for another size: as timm makes them, and what must not change."""

import pytest
import torch
from timm.layers import resample_patch_embed
from timm.layers.pos_embed_rel import resize_rel_pos_bias_table_simple
from timm.models._manipulate import adapt_input_conv

from zoo.ops import resize_bias, resize_channels, resize_kernel


def close(ours, theirs):
    return (ours - theirs).norm() / theirs.norm() <= 1e-5


@pytest.mark.parametrize("size", [(8, 8), (32, 32), (14, 14), (12, 20), (16, 16)])
def test_kernels_are_resized_as_timm_does(size):
    kernel = torch.randn(5, 3, 16, 16)
    assert close(resize_kernel(kernel, size), resample_patch_embed(kernel, list(size)))
    if size == (16, 16):
        assert resize_kernel(kernel, size) is kernel


def test_a_larger_kernel_answers_a_larger_picture_as_before():
    """Which is what the pseudo-inverse is for; exact where enlarging loses nothing."""
    kernel, picture = torch.randn(5, 3, 8, 8), torch.randn(2, 3, 8, 8)
    larger = torch.nn.functional.interpolate(picture, (16, 16), mode="bicubic", antialias=True)
    before = torch.nn.functional.conv2d(picture, kernel)
    after = torch.nn.functional.conv2d(larger, resize_kernel(kernel, (16, 16)))
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 7])
def test_channels_are_those_of_timm(channels):
    kernel = torch.randn(5, 3, 4, 4)
    assert close(resize_channels(kernel, channels), adapt_input_conv(channels, kernel.clone()))
    grey = torch.randn(2, 1, 4, 4)
    before = torch.nn.functional.conv2d(grey.expand(-1, 3, -1, -1), kernel)
    after = resize_channels(kernel, channels)
    if channels in (1, 3, 6):
        now = torch.nn.functional.conv2d(grey.expand(-1, channels, -1, -1), after)
        torch.testing.assert_close(now, before, rtol=1e-4, atol=1e-4)


def test_one_channel_becomes_three_and_back():
    kernel = torch.randn(5, 1, 4, 4)
    assert close(resize_channels(resize_channels(kernel, 3), 1), kernel)


@pytest.mark.parametrize("window", [(8, 8), (12, 12), (7, 7), (5, 9)])
def test_bias_tables_are_resized_per_head_as_timm_does(window):
    table = torch.randn(13 * 13, 4)
    rows = (2 * window[0] - 1) * (2 * window[1] - 1)
    ours = resize_bias(table, (7, 7), window)
    assert close(ours, resize_rel_pos_bias_table_simple(table, window, (rows, 4)))
    assert window != (7, 7) or ours is table


def test_numbers_keep_their_dtype():
    half = torch.randn(2, 3, 4, 4).bfloat16()
    assert resize_kernel(half, (8, 8)).dtype == resize_channels(half, 1).dtype == torch.bfloat16
    assert resize_bias(torch.randn(9, 1).bfloat16(), (2, 2), (3, 3)).dtype == torch.bfloat16
