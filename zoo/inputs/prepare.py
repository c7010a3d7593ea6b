"""What turns a raw sample into a model's input: one frozen value per kind of sample."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from zoo.errors import SampleError, UserError, one_of, suggest


@dataclass(frozen=True)
class Prepare:
    """Base. The same value serves training, evaluation and prediction, and travels with the model.

    A subclass is a frozen dataclass of plain values with a name, `class Preprocess(Prepare,
    kind="picture")`, and says what its two steps are: `load` reads a sample as it is, `finish`
    makes the tensor. `augment` varies between the two, `batch` puts tensors together.
    """

    kind: ClassVar[str] = ""
    width: ClassVar[int] = 4
    """Bytes that one value of a loaded sample takes (see `Rows.values`)."""
    work: ClassVar[int] = 1000
    """About how many values it takes to finish one sample."""
    from_files: ClassVar[bool] = True
    """Whether a path stands for a sample, and its answer is named after it."""
    from_tables: ClassVar[bool] = False
    """Whether a whole table is one sample."""
    alone: ClassVar[bool] = False
    """Whether samples are answered one at a time, since each has a size of its own."""
    input: ClassVar[str] = ""
    """What the tensor is called among a model's inputs; "" where that cannot be told."""
    kinds: ClassVar[dict[str, type["Prepare"]]] = {}

    def __init_subclass__(cls, kind: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = kind
        Prepare.kinds[kind] = cls

    def __call__(self, source: Any) -> Tensor:
        """A raw sample -> its tensor. UserError that names it if it cannot be read, SampleError if
        its values are such that their squares are no float32."""
        return self.prepared(source)[0]

    def prepared(self, source: Any) -> tuple[Tensor, Any]:
        """The same with what `original` says of the sample."""
        loaded = self.load(source)
        made = self.finish(loaded)
        if made.is_floating_point() and not made.norm().isfinite():
            reason = f"its values, prepared, reach {float(made.abs().max()):g}: correct them"
            raise SampleError(f"a {self.kind} takes values near those of train; {reason}", reason)
        return made, self.original(loaded)

    def load(self, source: Any) -> Any:
        """A raw sample, read and decoded, at its own size. UserError if it cannot be."""
        raise NotImplementedError

    def finish(self, loaded: Any) -> Tensor:
        """What `load` gave -> the tensor of one sample."""
        raise NotImplementedError

    def original(self, loaded: Any) -> Any:
        """What `load` gave -> what its answer is told in, such as a picture's own sides, where
        `finish` does not keep it; else None."""
        return None

    def augment(self, config: Any) -> Callable[[Any], Tensor]:
        """The data section of a config -> what stands for `finish` while training."""
        raise NotImplementedError

    def batch(self, samples: Sequence[Tensor]) -> dict[str, Tensor]:
        """Tensors of samples -> the model's inputs by name."""
        raise NotImplementedError

    def fitted(self, keeps: bool) -> Self:
        """The same for an adapter that takes `keep`, or that takes samples of one size alone."""
        return self

    def measure(self, samples: Sequence[Tensor]) -> tuple[Tensor, Tensor] | None:
        """Tensors of samples -> what the numbers told of each are measured by, in the data's units:
        (B, 1) float64 that they are counted from, and (B, 1) that they are counted in.

        None where that is the mean and the deviation of train, for all samples.
        """
        return None

    def beside(self, source: Any) -> dict[str, Any]:
        """A raw sample -> what stands in its answer beside the numbers, such as times."""
        return {}

    def adapter(self) -> dict[str, Any]:
        """Options of an adapter that depend on the data, such as the size of a vocabulary."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        values = dataclasses.asdict(self)
        plain = {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}
        return {"kind": self.kind, **plain}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The value that `to_dict` wrote, of any kind. UserError for what none has."""
        fields = dict(values)
        name = one_of("Preprocess", "kind", fields.pop("kind", "picture"), Prepare.kinds)
        kind: Any = Prepare.kinds[name]
        known = {f.name: f for f in dataclasses.fields(kind)}
        for key in fields:
            if key not in known:
                raise UserError(f"{kind.__name__} has no {key!r}{suggest(key, known)}")
        for key, field in known.items():
            if key not in fields and field.default is dataclasses.MISSING:
                raise UserError(f"{kind.__name__} takes a {key}; got none")
        return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


STEP = 16  # lengths of batches are multiples of it: kernels are made anew for each length


def pad_together(
    samples: Sequence[Tensor], most: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """[(T, ...)] of different lengths -> (B, T, ...), and (B, T) bool, True where real.

    T is the longest, up to a multiple of `STEP` (and to `most`). None in place of the second where
    all are of that length.
    """
    lengths = torch.tensor([len(sample) for sample in samples])
    longest = int(lengths.max())
    full = max(longest, min(-(-longest // STEP) * STEP, most or math.inf))
    padded = samples[0].new_zeros(len(samples), int(full), *samples[0].shape[1:])
    for row, sample in zip(padded, samples, strict=True):
        row[: len(sample)] = sample
    keep = torch.arange(int(full)) < lengths[:, None]
    return padded, None if bool(keep.all()) else keep
