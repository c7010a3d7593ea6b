"""Which token may attend to which: said once, lowered in one place."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Mask:
    """What may attend, as facts; True always means "may". `ops.attend` decides which tensor, if
    any, that needs."""

    keep: Tensor | None = None
    """(B, S) bool: the keys that are real tokens."""

    def dense(self) -> Tensor | None:
        """-> (B, 1, 1, S) bool, broadcastable over heads and queries; None where everything may
        attend."""
        return None if self.keep is None else self.keep[:, None, None, :]
