"""The letters that every shape in this package is written in, and the check at its borders.

Dimension key:

    B batch   T tokens (queries)   S keys   N tokens in a group   P prefix tokens
    H heads   G key/value heads   K head width   D model width
    C channels   A position axes   h, w grid rows and columns
"""

from torch import Tensor

from zoo.errors import ShapeError


def check(where: str, x: Tensor, spec: str, floats: bool = True, **sizes: int) -> None:
    """Raise ShapeError unless `x` has the axes named in `spec`, with the given sizes, and is float
    (or, with `floats=False`, is not).

    `check("Patches", pixels, "batch channels height width", channels=3)` on a (2, 4, 8, 8) tensor
    says
    `Patches takes (batch, channels=3, height, width); got (2, 4, 8, 8): channels is 4, not 3`.
    """
    if not isinstance(x, Tensor):
        raise ShapeError(f"{where} takes a torch.Tensor; got {type(x).__name__}")
    if x.is_floating_point() != floats:
        wanted = "fractions, such as float32" if floats else "whole numbers, such as int64"
        raise ShapeError(f"{where} takes {wanted}; got {x.dtype}")
    names = spec.split()
    if x.ndim != len(names):
        wrong = [f"{x.ndim} axes, not {len(names)}"]
    else:
        pairs = zip(names, x.shape, strict=True)
        wrong = [f"{n} is {got}, not {sizes[n]}" for n, got in pairs if sizes.get(n, got) != got]
    if wrong:
        wanted = ", ".join(f"{n}={sizes[n]}" if n in sizes else n for n in names)
        raise ShapeError(f"{where} takes ({wanted}); got {tuple(x.shape)}: {'; '.join(wrong)}")


def pair(value: int | tuple[int, int] | list[int]) -> tuple[int, int]:
    """16 -> (16, 16); (14, 16) stays: a height and a width."""
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))
