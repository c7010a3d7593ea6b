"""Answers as text: JSON lines, CSV or an aligned table."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from zoo.cli.table import align

SIDE_BY_SIDE = 8  # numbers of an answer; more stand below each other in a table
MANY = 100  # classes; of more than these a CSV has the told ones' probabilities alone
APART = ("probabilities", "numbers", "shares", "times", "boxes")  # what makes no one cell
WIDEST = 60  # characters of a cell in an aligned table; file names and errors are never cut
OF_A_BOX = ("label", "score", "x0", "y0", "x1", "y1")  # its cells


def as_rows(
    answers: Iterable[dict[str, Any]], cut: bool = False
) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a table: several labels in one cell; a column for each number, or a row
    where there are many or each has its time; a row for each box, and one without for a picture
    that has none. One that is `cut` to be read has the probabilities of the told labels alone,
    others a column for each class, if they are not MANY."""
    flat = []
    for given in answers:
        row = {key: v for key, v in given.items() if key not in APART}
        all_of = given.get("probabilities", {})
        if "labels" in row:
            each = (f"{all_of[name]:.4f}" for name in row["labels"])
            row |= {"labels": "|".join(row["labels"]), "probabilities": "|".join(each)}
        if "boxes" in given:
            flat += [row | corners(one) for one in given["boxes"]] or [row]
            continue
        numbers, times = given.get("numbers") or given.get("shares", {}), given.get("times", [])
        if not (cut or numbers or len(all_of) > MANY):
            beside = {f"probability_{name}": p for name, p in all_of.items()}
            flat.append(apart(row, beside) | beside)
        elif len(numbers) > SIDE_BY_SIDE or times:
            at = [{"time": time} for time in times] or [{}] * len(numbers)
            flat += [
                {**apart(row, numbers), **when, "number": name, "value": value}
                for when, (name, value) in zip(at, numbers.items(), strict=True)
            ]
        else:
            flat.append(apart(row, numbers) | numbers)
    columns = list(dict.fromkeys(column for row in flat for column in row))
    columns.sort(key="error".__eq__)  # last
    short = [cut and name not in ("file", "error") for name in columns]
    return columns, [
        [cell(row.get(n), cut, s) for n, s in zip(columns, short, strict=True)] for row in flat
    ]


def apart(row: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """A row whose columns do not have these names, but `given_` in front of them."""
    names = {*names}
    return {f"given_{key}" if key in names else key: value for key, value in row.items()}


def corners(box: dict[str, Any]) -> dict[str, Any]:
    """A box of an answer -> its cells."""
    return dict(zip(OF_A_BOX, (box["label"], box["score"], *box["box"]), strict=True))


def cell(value: Any, rounded: bool, cut: bool) -> Any:
    """A value in a table; `cut` makes it one short line."""
    if isinstance(value, float):
        return readable(value) if rounded else value
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False, default=str)
    if value is None:
        return ""
    text = " ".join(str(value).split()) if cut else value
    return f"{text[: WIDEST - 1]}…" if cut and len(text) > WIDEST else text


def readable(value: float) -> str:
    """A number with four places, or with four digits where those would hide it."""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.4g}"


def as_text(answers: Iterable[dict[str, Any]], style: str) -> Iterator[str]:
    """JSON lines, each as it is known; or CSV or an aligned table, whole."""
    if style == "jsonl":
        yield from (f"{json.dumps(row, ensure_ascii=False, default=str)}\n" for row in answers)
        return
    columns, rows = as_rows(answers, cut=style == "table")
    if style == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([columns, *rows])
        yield text.getvalue()
    else:
        yield align([columns, *rows])
