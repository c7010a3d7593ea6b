"""Multi-head attention: the one class of this package."""

from einops import rearrange
from torch import Tensor, nn

from zoo.errors import OptionError
from zoo.ops import Mask, attend


class Attention(nn.Module):
    """(B, T, D) -> (B, T, D). Self-attention of `heads` heads through one fused projection, q then
    k then v."""

    def __init__(self, dim: int, heads: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        if dim % heads:
            raise OptionError(
                f"Attention takes heads that divide the width; got width {dim} and {heads} heads",
                "heads",
            )
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=bias)
        self.out = nn.Linear(dim, dim, bias=bias)

    def forward(self, x: Tensor, mask: Mask | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        q, k, v = rearrange(self.qkv(x), "b t (n h k) -> n b h t k", n=3, h=self.heads)
        x = attend(q, k, v, mask, dropout=self.dropout if self.training else 0.0)
        return self.out(rearrange(x, "b h t k -> b t (h k)"))
