"""Raw samples through a model, and its answers by name."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.errors import SampleError, UserError, one_of, suggest
from zoo.inputs.names import listed
from zoo.inputs.prepare import Prepare

BEYOND = "the model's answer to it is no number: its values are too far from those of train"
MISSING = ("NAType", "NaTType")  # of pandas, beside NaN
FILES = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet")


@torch.inference_mode()
def predict(
    model: Any, source: Any, batch: int = 64, column: str | None = None, on_bad: str = "raise"
) -> Any:
    """See `zoo.Model.predict`. The model is left in the mode, training or eval, that it was in."""
    prepare, scale = model.record.preprocess, model.record.scale
    config = getattr(model.head, "config", None)
    target = getattr(config, "target", "label")
    several = isinstance(getattr(config, "heads", None), Mapping)
    if model.head is None or prepare is None or several or target == "pixels":
        lacks = "no preprocessing in its record" if prepare is None else "no head"
        lacks = "one that rebuilds what is hidden" if target == "pixels" else lacks
        lacks = "several heads" if several else lacks
        wants = "predict takes a model with a head and preprocessing"
        todo = ": model.features(model.record.preprocess(SAMPLE)[None]) gives its tokens"
        todo = todo if model.head is None and prepare is not None else ""
        raise UserError(f"{wants}; this one has {lacks}{todo}")
    if not isinstance(batch, Integral) or batch < 1:
        raise UserError(f"predict takes batches of at least 1, a whole number; got {batch!r}")
    one_of("predict", "on_bad", on_bad, ("raise", "report"))
    if isinstance(source, str) and not prepare.from_files and Path(source).suffix in FILES:
        wants = f"predict takes a {prepare.kind} itself, or a list of them"
        raise UserError(f"{wants}; got the name of a file, {source}: read it, or use `zoo predict`")
    sources, many = samples_of(source, column, prepare)
    batch = 1 if prepare.alone else batch
    answers, was_training, place = [], model.training, next(model.parameters())
    model.eval()
    try:
        for start in range(0, len(sources), batch):
            chunk = [attempt(prepare, s, on_bad) for s in sources[start : start + batch]]
            good = [x[0] for x in chunk if isinstance(x, tuple)]
            rows = iter(answered(model, target, scale, good, prepare, place) if good else ())
            for sample, x in zip(sources[start : start + batch], chunk, strict=True):
                row = next(rows) if isinstance(x, tuple) else None
                if row is not None:
                    one = told(row, model.record.labels, target, prepare, x[1])
                    answers.append(one | (prepare.beside(sample) if target == "numbers" else {}))
                    continue
                if on_bad == "raise":
                    raise SampleError(f"predict takes samples within reason; {BEYOND}", BEYOND)
                answers.append({"error": x if isinstance(x, str) else BEYOND})
    finally:
        model.train(was_training)
    if prepare.from_files:
        answers = [
            {"file": str(s), **answer} if isinstance(s, (str, Path)) else answer
            for s, answer in zip(sources, answers, strict=True)
        ]
    return answers if many else answers[0]


def samples_of(source: Any, column: str | None, prepare: Prepare) -> tuple[Sequence[Any], bool]:
    """What predict is given -> samples, and whether they were several."""
    names = columns_of(source)
    if names is None or prepare.from_tables:
        if column is not None:
            got = "a table is one sample of this model" if names else type(source).__name__
            raise UserError(f"predict takes a column of a data frame or table; got {got}: drop it")
        many = isinstance(source, (list, tuple))
        return (source if many else [source]), many
    if column not in names:
        got = "no column" if column is None else f"{column!r}{suggest(column, names)}"
        raise UserError(
            f"predict takes the column of a table that holds the samples; got {got}: give "
            f"column=, one of {listed(names)}"
        )
    missing = None if prepare.from_files else ""  # as in tables that are trained on
    return [missing if (c := cell_of(cell)) is None else c for cell in source[column]], True


def columns_of(source: Any) -> list[str] | None:
    """The columns of a `datasets` table or a pandas data frame; None for anything else."""
    if hasattr(source, "column_names"):
        return list(source.column_names)
    frame = hasattr(source, "columns") and hasattr(source, "to_dict")
    return [str(name) for name in source.columns] if frame else None


def cell_of(cell: Any) -> Any:
    """A cell as a sample: the file that a dict of `datasets` stands for, None for what pandas has
    where there is nothing."""
    if isinstance(cell, dict) and {"bytes", "path"} & cell.keys():
        return cell.get("path") if cell.get("bytes") is None else cell["bytes"]
    missing = type(cell).__name__ in MISSING or (isinstance(cell, float) and math.isnan(cell))
    return None if missing else cell


def attempt(prepare: Prepare, source: Any, on_bad: str) -> tuple[Tensor, Any] | str:
    """A sample's tensor and what its answer is told in, or why there is none where that is to be
    reported."""
    try:
        return prepare.prepared(source)
    except UserError as error:
        if on_bad == "raise":
            raise
        return getattr(error, "reason", str(error))


def answered(
    model: Any,
    target: str,
    scale: Sequence[tuple[float, float]] | None,
    samples: list[Tensor],
    prepare: Prepare,
    place: Tensor,
) -> list[Any]:
    """Tensors of samples -> the probabilities, or the numbers in the data's units, of each; for
    masks the logits of its pixels, for boxes what is found. None where they are not finite;
    UserError where that is the fault of the weights."""
    told = model(**to_device(prepare.batch(samples), place))
    rows, boxes = None, target == "boxes"
    answer = (torch.cat((told.logits, told.sides), -1) if boxes else told).double().cpu()
    if boxes:
        rows = [{name: x.cpu() for name, x in row.items()} for row in model.head.found(told)]
    elif target == "mask":
        rows = answer
    elif target == "numbers":
        if scale is not None:
            mean, deviation = torch.tensor(scale, dtype=torch.float64).unbind(-1)
            start, unit = prepare.measure(samples) or (mean, deviation)
            answer = start + unit * answer
    else:
        answer = answer.softmax(-1) if target == "label" else answer.sigmoid()
    good = answer.isfinite().flatten(1).all(1).tolist()
    if not all(good) and not all(w.isfinite().all() for w in model.parameters()):
        raise UserError("predict takes a model of finite weights; this one answers NaN")
    rows = answer.tolist() if rows is None else rows
    return [row if ok else None for row, ok in zip(rows, good, strict=True)]


def told(
    row: Any, labels: Sequence[str] | None, target: str, prepare: Any, original: Any
) -> dict[str, Any]:
    """What a model says of one sample, by name; `original` is what its answer is told in."""
    if target == "boxes":
        return prepare.answer(row, labels, original)
    return prepare.answer(row, labels) if target == "mask" else named(row, labels, target)


def to_device(inputs: dict[str, Tensor], like: Tensor) -> dict[str, Tensor]:
    """The tensors where `like` is; fractions in its dtype too."""
    return {
        name: x.to(like.device, like.dtype if x.is_floating_point() else x.dtype)
        for name, x in inputs.items()
    }


def named(row: list[float], labels: Sequence[str] | None, target: str) -> dict[str, Any]:
    """What a model says of one sample, by name; classes without labels are numbered."""
    names = labels or [str(i) for i in range(len(row))]
    each = dict(zip(names, row, strict=True))
    if target == "numbers":
        return {"numbers": each}
    if target == "labels":
        return {"labels": [name for name, p in each.items() if p >= 0.5], "probabilities": each}
    best = max(each, key=each.__getitem__)
    return {"label": best, "probability": each[best], "probabilities": each}
