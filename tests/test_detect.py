"""Our maps in torchvision's detectors."""

import numpy as np
import pytest
import torch
from torchvision.ops import box_iou

import zoo
from zoo.plugins.torchvision import Body, fcos, mask_rcnn


def body(kind):
    torch.manual_seed(0)
    if kind == "swin":
        return zoo.create("swin_mu_patch4_window4_64")
    return zoo.create("vit_mu_patch8_32", head=None, fill=True)


@pytest.mark.parametrize("kind", ["swin", "vit"])
def test_levels_are_finest_first_and_each_weight_learns(kind):
    levels = Body(body(kind), channels=24)
    maps = levels(torch.randn(2, 3, 64, 96))
    assert list(maps) == [str(i) for i in range(len(levels.strides))]
    for stride, x in zip(levels.strides, maps.values(), strict=True):
        assert x.shape == (2, 24, 64 / stride, 96 / stride)
    sum(x.square().mean() for x in maps.values()).backward()
    assert all(p.grad is not None for p in levels.parameters())
    assert not dict(levels.named_buffers())  # no BatchNorm


def test_a_vit_whose_strides_are_no_whole_pixels_is_refused():
    first = zoo.adapters.Patches(size=28, patch=14, dim=32)
    with pytest.raises(zoo.OptionError, match="a multiple of 4; got a ViT with patch 14"):
        Body(zoo.Model(first, zoo.Backbone(dim=32, depth=1, heads=2)))


@pytest.mark.parametrize("kind", ["swin", "vit"])
def test_pictures_of_any_sizes_go_through_fcos_together(kind):
    detector = fcos(body(kind), classes=2, channels=32, min_size=40, max_size=80).eval()
    with torch.no_grad():
        found = detector([torch.rand(3, 40, 61), torch.rand(3, 50, 33)])
    assert [set(f) for f in found] == [{"boxes", "scores", "labels"}] * 2


def scenes(count):
    """Dark noise with one bright square each, and its box."""
    noise = np.random.default_rng(0)
    pictures, targets = [], []
    for _ in range(count):
        picture = torch.from_numpy(noise.uniform(0, 0.3, (3, 64, 64))).float()
        top, left, side = noise.integers(0, 36), noise.integers(0, 36), noise.integers(14, 28)
        picture[:, top : top + side, left : left + side] += 0.6
        pictures.append(picture)
        box = torch.tensor([[left, top, left + side, top + side]]).float()
        targets.append({"boxes": box, "labels": torch.tensor([1])})
    return pictures, targets


def test_fcos_on_a_swin_finds_squares_it_has_not_seen():
    torch.manual_seed(0)
    detector = fcos(body("swin"), classes=2, channels=32, min_size=64, max_size=64)
    assert detector.transform.image_mean == [0.485, 0.456, 0.406]
    optimizer = torch.optim.AdamW(detector.parameters(), lr=2e-3)
    pictures, targets = scenes(24)
    for _ in range(25):
        for start in range(0, 16, 8):
            chunk = slice(start, start + 8)
            losses = detector(pictures[chunk], targets[chunk])
            assert {"classification", "bbox_regression", "bbox_ctrness"} == losses.keys()
            optimizer.zero_grad()
            sum(losses.values()).backward()
            torch.nn.utils.clip_grad_norm_(detector.parameters(), 1.0)
            optimizer.step()
    with torch.no_grad():
        found = detector.eval()(pictures[16:])
    overlaps = [
        box_iou(f["boxes"][:1], t["boxes"]) for f, t in zip(found, targets[16:], strict=True)
    ]
    assert np.mean([float(o.max()) if o.numel() else 0.0 for o in overlaps]) > 0.6


def squares(count):
    """The same, and the mask of each box."""
    pictures, targets = scenes(count)
    for target in targets:
        left, top, right, bottom = target["boxes"][0].int().tolist()
        target["masks"] = torch.zeros(1, 64, 64, dtype=torch.uint8)
        target["masks"][0, top:bottom, left:right] = 1
    return pictures, targets


@pytest.mark.parametrize("kind", ["swin", "vit"])
def test_mask_rcnn_learns_on_a_body_and_gives_boxes_with_masks(kind):
    torch.manual_seed(0)
    detector = mask_rcnn(body(kind), classes=2, channels=32, min_size=64, max_size=64)
    optimizer = torch.optim.AdamW(detector.parameters(), lr=1e-3)
    pictures, targets = squares(4)
    totals = []
    for _ in range(6):
        losses = detector(pictures, targets)
        assert {"loss_mask", "loss_box_reg", "loss_objectness"} < losses.keys()
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        totals.append(total.item())
    assert totals[-1] < totals[0]
    with torch.no_grad():
        found = detector.eval()([torch.rand(3, 40, 61), *pictures[:1]])
    for picture, one in zip([torch.rand(3, 40, 61), *pictures[:1]], found, strict=True):
        assert {"boxes", "scores", "labels", "masks"} == one.keys()
        assert one["masks"].shape == (len(one["boxes"]), 1, *picture.shape[-2:])
