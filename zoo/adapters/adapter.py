"""What adapters share: special tokens in front, zeros where padding was."""

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.errors import ShapeError, one_of
from zoo.nn import Part, owned
from zoo.shapes import check
from zoo.tokens import Tokens

C = TypeVar("C", bound=Any)  # a config, an AdapterConfig
POSITIONS = ("learned", "sincos", "sincos_scaled", "none")


@dataclass(frozen=True, kw_only=True)
class AdapterConfig:
    """What every adapter that adds positions takes."""

    dim: int
    """Model width D."""
    position: str = "learned"
    """What is added: learned (a table), sincos (sinusoids), sincos_scaled (to the tokens' norms) or
    none (relations belong to the backbone)."""
    dropout: float = 0.0
    """Zeroed share of the tokens' values."""


class Adapter(Part[C]):
    """Base: owns `token` (1, D), `registers` (R, D) and a learned table `position` (rows, D)."""

    def own(self, rows: int, prefix_rows: bool = False, register_rows: bool = True) -> None:
        """Make what the config asks for: `rows` of positions if they are learned, in front of them
        rows for the prefix too, if it has any, its registers included or not."""
        c = self.config
        one_of(type(self).__name__, "position", c.position, POSITIONS)
        token, registers = getattr(c, "class_token", None), getattr(c, "registers", 0)
        self.dim, self.special = c.dim, bool(token) + registers
        self.has_class = token is not False  # a text's first token is its class token
        self.token = owned((1, c.dim)) if token else None
        self.registers = owned((registers, c.dim)) if registers else None
        rows += (self.special - registers * (not register_rows)) * prefix_rows
        self.position = owned((rows, c.dim)) if c.position == "learned" else None

    @property
    def prefix(self) -> Tensor | None:
        """-> (P, D): the class token, then the registers; None for neither."""
        parts: list[Tensor] = [part for part in (self.token, self.registers) if part is not None]
        return torch.cat(parts) if parts else None

    def tokens(self, x: Tensor, front: Tensor | None = None, **more: Any) -> Tokens:
        """(B, T, D) -> Tokens of (B, P + T, D): the prefix in front, zeros where padding was.

        `front` (P or fewer, D) is added to the prefix; `more` are further fields of the Tokens.
        """
        if (prefix := self.prefix) is not None:
            if front is not None:
                prefix = prefix + F.pad(front, (0, 0, 0, len(prefix) - len(front)))
            prefix = prefix.to(x.dtype)
            x = torch.cat((prefix.expand(x.shape[0], -1, -1), x), 1)
        x = self.hide(F.dropout(x, self.config.dropout, self.training), more.get("keep"))
        return Tokens(x, prefix=self.special, **more)

    def hide(self, x: Tensor, keep: Tensor | None) -> Tensor:
        """(B, T) or (B, T, D), (B, T) bool -> the same shape: zeros where `keep` is False."""
        if keep is None:
            return x
        if keep.dtype != torch.bool:
            name = type(self).__name__
            raise ShapeError(
                f"{name} takes keep as true or false; got {keep.dtype}: use keep.bool()"
            )
        sizes = {"batch": x.shape[0], "tokens": x.shape[1]}
        check(f"{type(self).__name__} keep", keep, "batch tokens", floats=False, **sizes)
        return torch.where(keep if x.ndim == 2 else keep[..., None], x, 0)
