"""Our bodies in torchvision's detectors.

    from zoo.plugins.torchvision import fcos

    model = zoo.load("timm/swin_tiny_patch4_window7_224.ms_in1k")
    detector = fcos(model, classes=2, min_size=256, max_size=512)
    losses = detector([picture], [{"boxes": boxes, "labels": labels}])  # in training mode

The maps of a body go through `zoo.nn.Levels`.
"""

from collections import OrderedDict
from typing import Any

from torch import Tensor
from torch.nn import Module
from torchvision.models.detection import FCOS, MaskRCNN
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign

from zoo import nn
from zoo.errors import require
from zoo.heads.fcos import wake
from zoo.inputs import Preprocess
from zoo.model import Model
from zoo.ops import as_map


class Body(Module):
    """(B, C, H, W) pixels -> {"0": (B, channels, h, w), ...}, finest first: what torchvision's
    detectors take as their backbone.

    The adapter and the backbone are the model's own, its weights included; its head is left out.
    OptionError for a ViT whose patch is no multiple of 4: torchvision counts strides in whole
    pixels.
    """

    def __init__(self, model: Model, channels: int = 256):
        super().__init__()
        self.adapter, self.backbone, self.out_channels = model.adapter, model.backbone, channels
        config: Any = model.adapter.config
        patch = config.patch if isinstance(config.patch, int) else config.patch[-1]
        widths = [stage.block.dim for stage in model.backbone.config.stages]
        self.levels, fine = nn.Levels(widths, channels), patch
        if len(widths) == 1:
            wants = "torchvision's detectors take a body whose patch is a multiple of 4"
            require(patch % 4 == 0, f"{wants}; got a ViT with patch {patch}", "patch")
            fine = patch // 4
        count = 4 if len(widths) == 1 else len(widths)
        self.strides = tuple(fine * 2**i for i in range(count))

    def forward(self, pixels: Tensor) -> "OrderedDict[str, Tensor]":
        """(B, C, H, W) -> {"0": (B, channels, H / stride, W / stride), ...}."""
        tokens = self.backbone(self.adapter(pixels), stages=True)
        maps = self.levels([as_map(stage) for stage in tokens.stages])
        return OrderedDict((str(i), x) for i, x in enumerate(maps))


def fcos(model: Model, classes: int, channels: int = 256, **options: Any) -> FCOS:
    """torchvision's FCOS (Tian et al. 2019, arXiv:1904.01355) on a model's body.

    `classes` counts the background, which is class 0; `channels` is a multiple of 32. Each map's
    anchors are as large as its stride; mean and deviation are those of the model's preprocessing.
    Other options are FCOS's own, such as `min_size` and `max_size` of pictures, or `score_thresh`.
    """
    body = Body(model, channels)
    anchors = anchors_of(body, 1, (1.0,))
    detector = FCOS(body, classes, anchor_generator=anchors, **settings(model, body, options))
    wake(detector.head)
    return detector


def mask_rcnn(model: Model, classes: int, channels: int = 256, **options: Any) -> MaskRCNN:
    """torchvision's Mask R-CNN (He et al. 2017, arXiv:1703.06870) on a model's body.

    `classes` counts the background, which is class 0. Each map's anchors are eight times as large
    as its stride, of three shapes; mean and deviation are those of the model's preprocessing. Other
    options are MaskRCNN's own, such as `min_size` and `max_size` of pictures.
    """
    body = Body(model, channels)
    maps = [str(i) for i in range(len(body.strides))]
    pools = {f"{part}_roi_pool": MultiScaleRoIAlign(maps, size, 2)
             for part, size in (("box", 7), ("mask", 14))}  # fmt: skip
    anchors = anchors_of(body, 8, (0.5, 1.0, 2.0))
    options = {"rpn_anchor_generator": anchors, **pools, **settings(model, body, options)}
    return MaskRCNN(body, classes, **options)


def anchors_of(body: Body, times: int, shapes: tuple[float, ...]) -> AnchorGenerator:
    """Anchors of so many times each map's stride, of shapes of height over width."""
    sizes = tuple((times * stride,) for stride in body.strides)
    return AnchorGenerator(sizes, (shapes,) * len(sizes))


def settings(model: Model, body: Body, options: dict[str, Any]) -> dict[str, Any]:
    """A detector's options, with those that the body and its preprocessing ask for."""
    prepare, seen = model.record.preprocess, {}
    if isinstance(prepare, Preprocess):
        seen = {"image_mean": list(prepare.mean), "image_std": list(prepare.std)}
    return {"size_divisible": body.strides[-1], **seen, **options}
