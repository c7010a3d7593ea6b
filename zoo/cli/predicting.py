"""`zoo predict`: files in, named answers out."""

import argparse
import csv
import glob
import io
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import zoo
from zoo.cli.arguments import Flags
from zoo.cli.table import align, say, write_table
from zoo.data.layout import ENDINGS as SAMPLES
from zoo.data.layout import is_hidden, is_kind
from zoo.errors import SampleError, UserError

CHUNK = 32  # files that are asked for at once
ENDINGS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".txt": "table", "": "table"}


def predict(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo predict`: 1 where a file could not be read, which its row reports."""
    style = choose_format(args.format, args.out)
    folder = Path(args.model).expanduser()
    model = zoo.load(folder / "model" if (folder / "model").is_dir() else folder)
    kind = getattr(model.record.preprocess, "kind", "picture")
    files = find_files(args.files, kind if kind in SAMPLES else "picture")
    answers = list(answer(model, files, stop=args.on_bad == "raise"))
    if args.out:
        write_out(args.out, as_text(answers, style))
    elif style == "table":
        write_table(*as_rows(answers))
    else:
        say(as_text(answers, style))
    return 1 if any("error" in row for row in answers) else 0


def choose_format(given: str | None, out: Path | None) -> str:
    """What was asked for, or what `--out` ends in. UserError where the two differ, or the file
    cannot be written, before the work."""
    if out is None:
        return given or "table"
    ending = out.suffix.lower()
    if given is None and ending not in ENDINGS:
        ends = ", ".join(filter(None, ENDINGS))
        raise UserError(f"--out takes a file that ends in {ends}; got {out}: give --format")
    style = ENDINGS.get(ending, given)
    if given not in (None, style) and ending:
        raise UserError(f"--out {out} ends as {style}; got --format {given}: keep one")
    existed = out.exists()
    write_out(out, "", "a")
    if not existed:
        out.unlink()
    return given or style or "table"


def write_out(out: Path, text: str, mode: str = "w") -> None:
    """Write the file of `--out`. UserError where that fails."""
    try:
        with out.open(mode, encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"--out {out} cannot be written: {error.strerror}") from None


def find_files(words: Sequence[str], kind: str) -> list[str]:
    """Files as they are, folders -> the pictures or sounds below them, patterns -> what fits; each
    sorted.

    Hidden files and folders below a folder are left out, as in training.
    """
    files: list[str] = []
    for word in words:
        path = Path(word).expanduser()
        if path.is_dir():
            below = (p for p in path.rglob("*") if is_kind(p, kind) and not is_hidden(p, path))
            found = sorted(str(p) for p in below if p.is_file())
        elif glob.has_magic(word) and not path.exists():
            found = sorted(f for f in glob.glob(str(path), recursive=True) if os.path.isfile(f))
        else:
            found = [str(path)]
        if not found:
            raise UserError(f"zoo predict takes {kind}s; {word} holds none")
        files += found
    return files


def answer(model: Any, files: list[str], stop: bool) -> Iterator[dict[str, Any]]:
    """One dict per file: {"file", "label", "probability", "probabilities"} or {"file", "error"}."""
    for start in range(0, len(files), CHUNK):
        chunk = files[start : start + CHUNK]
        try:
            rows = model.predict(chunk)
        except SampleError:
            if stop:
                raise
            rows = [answer_one(model, file) for file in chunk]  # finds the bad ones
        yield from ({"file": file, **row} for file, row in zip(chunk, rows, strict=True))


def answer_one(model: Any, file: str) -> dict[str, Any]:
    """The answer, or {"error": why the file cannot be read}."""
    try:
        return model.predict(file)
    except SampleError as error:
        return {"error": error.reason}


def as_rows(answers: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a table; `error` only where there is one."""
    columns = ["file", "label", "probability"]
    columns += ["error"] if any("error" in row for row in answers) else []
    rows = [[row.get(column, "") for column in columns] for row in answers]
    return columns, [[f"{v:.4f}" if isinstance(v, float) else v for v in row] for row in rows]


def as_text(answers: list[dict[str, Any]], style: str) -> str:
    """JSON lines with all probabilities, CSV, or an aligned table."""
    if style == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in answers)
    columns, rows = as_rows(answers)
    if style != "csv":
        return align([columns, *rows])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()
