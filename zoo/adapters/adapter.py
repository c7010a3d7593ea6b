"""What adapters share: special tokens in front, positions that are added, zeros where padding
was."""

from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.errors import ShapeError, one_of
from zoo.nn import Part
from zoo.nn.init import owned
from zoo.ops import add_positions, grid_places, resize_table, sincos, sincos_grid
from zoo.tokens import Grid, Tokens

C = TypeVar("C", bound=Any)
POSITIONS = ("learned", "sincos", "sincos_scaled", "none")


class Adapter(Part[C]):
    """Base: owns `token` (1, D), `registers` (R, D) and a learned table `position` (rows, D)."""

    grid: tuple[int, ...] = ()  # the grid of a learned table

    def own(self, c: C, rows: int) -> None:
        """Make what the config asks for; `rows` of positions if they are learned."""
        self.where, self.dim = type(self).__name__, c.dim
        self.has_class = getattr(c, "class_token", True)
        one_of(self.where, "position", c.position, POSITIONS)
        registers = getattr(c, "registers", 0)
        self.token = owned((1, c.dim)) if getattr(c, "class_token", False) else None
        self.registers = owned((registers, c.dim)) if registers else None
        self.position = owned((rows, c.dim)) if c.position == "learned" else None

    @property
    def prefix(self) -> Tensor | None:
        """-> (P, D): the class token, then the registers; None for neither."""
        parts: list[Tensor] = [part for part in (self.token, self.registers) if part is not None]
        return torch.cat(parts) if parts else None

    def on_grid(self, x: Tensor, grid: tuple[int, ...]) -> Tokens:
        """(B, T, D) tokens of a grid of the adapter's axes -> Tokens of (B, P + T, D)."""
        c, table = self.config, None
        if self.position is not None:
            table = resize_table(self.position, self.grid, grid)
        elif c.position != "none":
            table = sincos_grid(grid, c.dim, c.base, x.dtype, x.device)
        prefix = self.prefix
        count = 0 if prefix is None else len(prefix)
        full: Grid = (*(1,) * (3 - len(grid)), *grid)  # type: ignore[assignment]  # three sides
        return self.tokens(x, table, grid_places(grid, count, x.device), grid=full)

    def in_order(self, x: Tensor, places: Tensor, keep: Tensor | None, **more: Any) -> Tokens:
        """(B, T, D) tokens that stand at `places` (B or 1, T) -> Tokens of (B, P + T, D)."""
        c, table = self.config, None
        if self.position is not None:
            if x.shape[1] > c.length and more.get("sample") is None:
                raise ShapeError(
                    f"{self.where} takes {c.length} tokens at most, the rows of its table of "
                    f"positions; got {x.shape[1]}: cut them, or create it with a larger length"
                )
            table = F.embedding(places + getattr(c, "offset", 0), self.position)
        elif c.position != "none":
            table = sincos(places[..., None], c.dim)
        if (prefix := self.prefix) is not None:
            places = F.pad(places, (len(prefix), 0))
            keep = None if keep is None else F.pad(keep, (len(prefix), 0), value=True)
        return self.tokens(x, table, places[..., None], keep).replace(**more)

    def tokens(
        self,
        x: Tensor,
        table: Tensor | None,
        places: Tensor,
        keep: Tensor | None = None,
        grid: Grid | None = None,
    ) -> Tokens:
        """(B, T, D), (..., T or P + T, D), (B or 1, P + T, A), (B, P + T) -> Tokens of (B, P + T,
        D).

        Adds the table's rows, to the prefix too where it has them, puts the prefix in front, and
        zeros the padding.
        """
        prefix, count = self.prefix, x.shape[1]
        if table is not None:
            x = add_positions(x, table[..., -count:, :], self.config.position)
        x = self.finish(x)
        if prefix is not None:
            if table is not None and table.ndim == 2 and len(table) > count:
                prefix = prefix + table[: len(prefix)]
            x = torch.cat((prefix.to(x.dtype).expand(len(x), -1, -1), x), 1)
        x = F.dropout(x, self.config.dropout, self.training)
        x = x if keep is None else torch.where(keep[..., None], x, 0)
        return Tokens(x, keep, places, grid, 0 if prefix is None else len(prefix))

    def finish(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D): what follows the sum with the positions."""
        return x


def ranks(x: Tensor, keep: Tensor | None, sample: Tensor | None = None) -> Tensor:
    """(B, T, ...), keep, sample -> (B or 1, T) int64: each one's rank among the kept of its
    sample."""
    count = torch.arange(x.shape[1], device=x.device)[None]
    if keep is not None:
        count = (keep.long().cumsum(1) - 1).clamp(min=0)
    if sample is not None:
        first = sample != F.pad(sample, (1, 0), value=-1)[:, :-1]
        count = count - torch.where(first, count, 0).cummax(1).values
    return count
