"""torchvision's FCOS without a body, whose loss is a sum."""

from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.detection.fcos import FCOS, FCOSHead


class SummedHead(FCOSHead):
    """torchvision's losses are means over the points of these pictures that hold a thing: two
    halves of a batch would then not add up to the batch."""

    def compute_loss(
        self,
        targets: list[dict[str, Tensor]],
        head_outputs: dict[str, Tensor],
        anchors: list[Tensor],
        matched_idxs: list[Tensor],
    ) -> dict[str, Tensor]:
        """As torchvision's -> {"total": the sum of all losses, "count": how many points hold a
        thing}."""
        count = torch.stack(matched_idxs).ge(0).sum()
        means = super().compute_loss(targets, head_outputs, anchors, matched_idxs)
        return {"total": torch.stack([*means.values()]).sum() * count.clamp(min=1), "count": count}


def make_fcos(
    channels: int, classes: int, depth: int, score: float, overlap: float, most: int
) -> FCOS:
    """What `Detect` is made of: convolutions, matching, losses and suppression."""
    body: Any = nn.Module()
    body.out_channels = channels
    head = SummedHead(channels, 1, classes, depth)
    # a side is told behind a ReLU: none shall begin dead, and boxes as wide as most maps' are
    nn.init.constant_(head.regression_head.bbox_reg.bias, 4.0)
    return FCOS(
        body, classes, head=head, score_thresh=score, nms_thresh=overlap, detections_per_img=most
    )
