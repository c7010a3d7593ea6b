"""Scaled dot-product attention: the only caller of a fused kernel in this package."""

import torch.nn.functional as F
from torch import Tensor

from zoo.ops.mask import Mask


def attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None, dropout: float = 0.0
) -> Tensor:
    """(B, H, T, K), (B, G, S, K), (B, G, S, K) -> (B, H, T, K): softmax(q k' / sqrt(K)) v.

    A query that may attend to nothing gives zeros. (Vaswani et al. 2017, arXiv:1706.03762)
    """
    allowed = None if mask is None else mask.dense()
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, allowed, dropout, enable_gqa=grouped)
