"""Groupings: how tokens are put together before they attend. Values without parameters.

ViT, BERT and GPT attend over `Everything`; Swin over `Windows` of a grid; divided space-time
attention over `Axes`.
"""

from dataclasses import dataclass, replace

from zoo.errors import ShapeError, one_of
from zoo.nn.config import Choice
from zoo.ops import Layout, axis_layout, window_layout
from zoo.tokens import Tokens

ROW = "a row: give --model.backbone.grouping.window [8], or everything with left and right"
AXES = {"time": 0, "rows": 1, "columns": 2, "space": 2}  # the axis of lines; space: flattened


@dataclass(frozen=True)
class Grouping(Choice):
    """Base: `layout(tokens)` once per size, then `ops.split` before and `ops.join` behind each
    attention."""

    def layout(self, tokens: Tokens) -> Layout | None:
        """Tokens of (B, P + T, D) -> the index tables of their grid, or None where they stay as
        they are."""
        return None


@dataclass(frozen=True)
class Everything(Grouping, kind="everything"):
    """All tokens attend in one group."""


@dataclass(frozen=True)
class Windows(Grouping, kind="windows"):
    """Tokens attend inside windows of a 1-, 2- or 3-axis grid. Refuses prefix tokens.

    (Swin: Liu et al. 2021, arXiv:2103.14030; Video Swin: arXiv:2106.13230)
    """

    window: tuple[int, ...] = (7, 7)
    """The window's sides, on the grid's last axes."""
    shift: bool = False
    """Whether windows lie half a window further, and wrap around. A row of tokens always is, since
    others of its batch may be longer; of a grid, see `moves`."""
    pad: str = "mask"
    """What happens where windows do not fill the grid: see `ops.window_layout`."""
    moves: str = "each"
    """Which axes are shifted: each that one window does not fill; all or none of them; or, whatever
    the grid, always or never."""

    def layout(self, tokens: Tokens) -> Layout:
        """Tokens of (B, T, D) -> the index tables. ShapeError without a grid, and with prefix
        tokens, dropped tokens or several samples in a row.

        Tokens in a row count as a grid of one axis, where windows start at the first real one. If
        some are padding, no place of a window may be attended that is: ShapeError unless pad is
        mask.
        """
        one_of("Windows", "pad", self.pad, ("mask", "attend", "attend_after"))
        one_of("Windows", "moves", self.moves, ("each", "all", "always", "never"))
        keep, row = tokens.keep, tokens.grid is None and len(self.window) == 1
        lacks = {"prefix tokens": tokens.prefix,
                 "what is left of dropped tokens": tokens.order is not None,
                 ROW: tokens.grid is None and not row,
                 "several samples in a row": tokens.sample is not None,
                 f"padding and pad {self.pad}": row and keep is not None and self.pad != "mask",
                 }  # fmt: skip
        if got := [what for what, wrong in lacks.items() if wrong]:
            raise ShapeError(f"Windows takes the tokens of a grid, or of one row; got {got[0]}")
        grid = tokens.grid or (1, 1, tokens.x.shape[1])
        window = (1,) * (3 - len(self.window)) + self.window
        sides = zip(grid, window, strict=True)
        free = [row or g > w for g, w in sides]
        every = {"always": True, "never": False, "all": all(free[-len(self.window) :])}
        free = free if self.moves == "each" else [every[self.moves]] * 3
        moved = [w // 2 if self.shift and f else 0 for w, f in zip(window, free, strict=True)]
        layout = window_layout(grid, window, tuple(moved), self.pad, tokens.x.device)  # type: ignore[arg-type]
        if not row or keep is None:
            return layout
        real = (~keep).int().argsort(dim=1, stable=True)  # these tokens first
        return replace(layout, index=real[:, layout.index], inverse=layout.inverse[real.argsort(1)])


@dataclass(frozen=True)
class Axes(Grouping, kind="axes"):
    """Tokens attend along one axis of the grid (divided space-time: Bertasius et al. 2021,
    arXiv:2102.05095).

    Prefix tokens are repeated into every group, and averaged over groups behind it ("repeat"), or
    stay out ("skip": this attention adds nothing to them).
    """

    axis: str = "time"
    """time, rows (along a column's rows), columns, or space (rows and columns of one time
    together)."""
    prefix: str = "repeat"
    """repeat or skip."""

    def layout(self, tokens: Tokens) -> Layout:
        """Tokens of (B, P + T, D) -> the index tables. ShapeError without a grid."""
        shared = one_of("Axes", "prefix", self.prefix, ("repeat", "skip")) == "repeat"
        axis = AXES[one_of("Axes", "axis", self.axis, AXES)]
        if tokens.grid is None:
            raise ShapeError("Axes takes tokens of a grid; got a row (a text), or dropped tokens")
        t, h, w = tokens.grid
        grid = (t, 1, h * w) if self.axis == "space" else (t, h, w)
        return axis_layout(grid, axis, tokens.x.device, tokens.prefix, shared)
