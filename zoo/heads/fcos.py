"""torchvision's FCOS without a body, whose loss is a sum."""

from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.detection.fcos import (
    FCOS,
    FCOSClassificationHead,
    FCOSHead,
    FCOSRegressionHead,
)


class Norm(nn.GroupNorm):
    """(B, C, h, w) -> the same, C normed in 32 groups: torchvision's, that takes one point too."""

    def __init__(self, channels: int):
        super().__init__(32, channels)

    def forward(self, input: Tensor) -> Tensor:  # nn.GroupNorm's name
        """(B, C, h, w) -> (B, C, h, w)."""
        return torch.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class SummedHead(FCOSHead):
    """torchvision's head, whose losses are sums.

    Its own are means over the points of these pictures that hold a thing: two halves of a batch
    would not add up to the batch.
    """

    def __init__(self, channels: int, classes: int, depth: int):
        super().__init__(channels, 1, classes, 0)
        self.classification_head = FCOSClassificationHead(
            channels, 1, classes, depth, norm_layer=Norm
        )
        self.regression_head = FCOSRegressionHead(channels, 1, depth, norm_layer=Norm)

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


def wake(head: Any) -> None:
    """Let boxes begin four cells to each side, as those that most maps tell of have.

    A side is told behind a ReLU. With torchvision's bias of 0 some begin dead at nearly all points,
    and then no box may be found, however long is trained.
    """
    nn.init.constant_(head.regression_head.bbox_reg.bias, 4.0)


def make_fcos(
    channels: int, classes: int, depth: int, score: float, overlap: float, most: int
) -> FCOS:
    """What `Detect` is made of: convolutions, matching, losses and suppression."""
    body: Any = nn.Module()
    body.out_channels = channels
    head = SummedHead(channels, classes, depth)
    wake(head)
    options: Any = {"score_thresh": score, "nms_thresh": overlap, "detections_per_img": most}
    fcos = FCOS(body, classes, head=head, **options)
    fcos.transform = nn.Identity()  # type: ignore[assignment]  # pictures come prepared
    return fcos
