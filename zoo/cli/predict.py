"""`zoo predict`: files in, named answers out."""

import argparse
import csv
import glob
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import zoo
from zoo.cli.arguments import Flags
from zoo.cli.table import align, write_table
from zoo.errors import UserError

CHUNK = 32  # pictures that are asked for at once


def predict(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo predict`. 1 where a file could not be read; it is reported in its row."""
    files = find_files(args.files)
    folder = Path(args.model).expanduser()
    inner = folder / "model"
    model = zoo.load(inner if inner.is_dir() else folder)
    answers = list(answer(model, files, args.on_bad == "raise"))
    style = args.format or (args.out.suffix[1:] if args.out else "")
    if style == "jsonl":
        text = "".join(json.dumps(a, ensure_ascii=False) + "\n" for a in answers)
    else:
        columns = ["file", "label", "probability"]
        columns += ["error"] if any("error" in a for a in answers) else []
        rows = [
            [f"{v:.4f}" if isinstance(v := a.get(c, ""), float) else v for c in columns]
            for a in answers
        ]
        if style == "csv":
            buffer = io.StringIO()
            csv.writer(buffer, lineterminator="\n").writerows([columns, *rows])
            text = buffer.getvalue()
        elif args.out is None:
            write_table(columns, rows)
            text = ""
        else:
            text = align([columns, *rows])
    if args.out is None:
        sys.stdout.write(text)
    else:
        try:
            args.out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"--out {args.out} cannot be written: {error.strerror}") from None
    return 1 if any("error" in a for a in answers) else 0


def find_files(words: Sequence[str]) -> list[str]:
    """Files as they are, folders -> the pictures below them, patterns -> what fits; sorted each."""
    files: list[str] = []
    for word in words:
        path = Path(word).expanduser()
        if path.is_dir():
            from PIL import Image

            kinds = Image.registered_extensions()
            inside = [p for p in path.rglob("*") if p.suffix.lower() in kinds and p.is_file()]
            found = sorted(str(p) for p in inside if not p.name.startswith("."))
        elif glob.has_magic(word) and not path.exists():
            found = sorted(f for f in glob.glob(str(path), recursive=True) if os.path.isfile(f))
        else:
            found = [str(path)]
        if not found:
            raise UserError(f"zoo predict takes pictures; {word} holds none")
        files += found
    return files


def answer(model: Any, files: list[str], stop: bool) -> Iterator[dict[str, Any]]:
    """One dict per file, {"file", "label", "probability", "probabilities"} or {"file", "error"}."""
    for start in range(0, len(files), CHUNK):
        chunk = files[start : start + CHUNK]
        try:
            for file, found in zip(chunk, model.predict(chunk), strict=True):
                yield {"file": file, **found}
            continue
        except UserError:
            if stop:
                raise
        for file in chunk:  # one of them is bad: one by one finds which
            try:
                yield {"file": file, **model.predict(file)}
            except UserError as error:
                yield {"file": file, "error": str(error)}
