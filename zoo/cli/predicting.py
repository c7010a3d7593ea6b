"""`zoo predict`: files, tables or lines in, named answers out."""

import argparse
import codecs
import contextlib
import glob
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import zoo
from zoo.cli.answers import as_rows, as_text
from zoo.cli.arguments import Flags
from zoo.cli.pictures import LEAST, Drawn, Masks, Pictures, whole
from zoo.cli.rows import Input, Sample, many, table_samples
from zoo.cli.table import say, write_table
from zoo.data.layout import ENDINGS as FILES
from zoo.data.layout import files_below, is_kind
from zoo.data.table import READERS, is_table
from zoo.errors import SampleError, UserError, some
from zoo.inputs.names import user_path

MASKS = Path("predicted_masks")  # no folder that training reads masks from
OTHERS = {  # what a file of another encoding begins with, the longer marks first
    "UTF-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "UTF-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
CHUNK = 64  # samples that are asked for at once
ENDINGS = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".txt": "table", "": "table"}


def predict(args: argparse.Namespace, flags: Flags) -> int:
    """`zoo predict`: 1 where a sample could not be read, which its row reports."""
    style = choose_format(args.format, args.out)
    folder = user_path(args.model)
    folder = folder / "model" if (folder / "model").is_dir() else folder
    model = zoo.load(folder)
    kind = getattr(model.record.preprocess, "kind", "picture")
    pictures, boxes = pictures_of(args, kind), kind == "boxes"
    keep_least(model, args.least_score, kind)
    kind = "picture" if kind in ("scene", "boxes") else kind  # they take the same, and tell more
    refuse_inputs(args.out, args.files, kind)
    alone = args.on_bad == "raise" or len(args.files) < 2
    words, column = words_of(args, kind), Input(args.input, input_of_run(folder), boxes)
    samples = chain.from_iterable([samples_in(w, kind, column, alone) for w in words])
    answers = answer(model, samples, args.on_bad, pictures)
    first = next(answers, None)
    if first is None:
        raise UserError(f"zoo predict takes {kind}s; {some(args.files) or 'stdin'} holds none")
    bad: Counter[str] = Counter()
    answers = counted(chain([first], answers), bad)
    if args.out:
        write_out(args.out, as_text(answers, style))
    elif style == "table":
        write_table(*as_rows(answers, cut=True))
    else:
        for text in as_text(answers, style):
            say(text)
    return 1 if bad else 0


def pictures_of(args: argparse.Namespace, kind: str) -> Pictures:
    """What writes the pictures of `--masks` and `--drawn`. UserError for a model that tells no
    such, and for a folder with files."""
    for flag, folder, tells in (("masks", args.masks, "scene"), ("drawn", args.drawn, "boxes")):
        if folder is not None and kind != tells:
            what = f"--{flag} takes a model that tells {'masks' if flag == 'masks' else 'boxes'}"
            raise UserError(f"{what}; this one is of {many(kind)}")
    least = LEAST if args.least_score is None else args.least_score
    pictures = Masks(args.masks or MASKS) if args.drawn is None else Drawn(args.drawn, least)
    if kind == "scene" or args.drawn is not None:
        pictures.check()
    return pictures


def keep_least(model: Any, least: float | None, kind: str) -> None:
    """Let a model tell boxes of this score or more; None leaves it its own. UserError for a model
    that tells no boxes, and for what is no score."""
    if least is None:
        return
    if not isinstance(model.head, zoo.heads.Detect):
        what = "--least-score takes a model that tells boxes"
        raise UserError(f"{what}; this one is of {many(kind)}")
    if not 0 <= least <= 1:
        raise UserError(f"--least-score takes a score from 0 to 1; got {least:g}")
    model.head.fcos.score_thresh = least


def input_of_run(model: Path) -> str | None:
    """`data.input` of the run that a model's folder lies in; None where there is neither."""
    from zoo.training.places import read

    config = model.parent / "config.yaml"
    given = read(config) if model.name == "model" and config.is_file() else {}
    name = given["data.input"].value if "data.input" in given else None
    return name if isinstance(name, str) else None


def counted(answers: Iterable[dict[str, Any]], bad: Counter[str]) -> Iterator[dict[str, Any]]:
    """The answers as they are; `bad` counts the errors among them."""
    for row in answers:
        bad.update([row["error"]] if "error" in row else [])
        yield row


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


def refuse_inputs(out: Path | None, words: Sequence[str], kind: str) -> None:
    """UserError where `--out` is one of the files that are read, in a folder too, which it would
    overwrite."""
    if out is None or not out.exists():
        return
    for word in words:
        place = user_path(word)
        found = [place] if place.exists() else map(Path, glob.glob(str(place), recursive=True))
        inner = files_below(place, []) if place.is_dir() else []
        if inner and is_table(place):
            inner = [file for file in inner if file.suffix.lower() in READERS]
        elif kind in FILES:
            inner = [file for file in inner if is_kind(file, kind)]
        else:
            inner = [file for file in inner if file.suffix.lower() == ".txt"]
        if any(path.exists() and path.samefile(out) for path in (*found, *inner)):
            raise UserError(f"--out takes a file of its own; {out} is read by this command: give "
                            "another name")  # fmt: skip


def write_out(out: Path, texts: Iterable[str], mode: str = "w") -> None:
    """Write the file of `--out`, whole or not at all. UserError where that fails."""
    end = out.resolve()  # what a link points to is replaced, not the link
    alone = mode == "w" and (out.is_file() or not out.exists())  # not a pipe or a device
    try:
        with (
            whole(end) if alone else contextlib.nullcontext(out) as target,
            target.open(mode, encoding="utf-8", errors="surrogateescape", newline="") as file,
        ):
            file.writelines(texts)
    except OSError as error:
        raise UserError(f"--out {out} cannot be written: {error.strerror}") from None


def words_of(args: argparse.Namespace, kind: str) -> list[str]:
    """The command's words, or `-` where there is none and something is piped in."""
    if not args.files and (kind != "text" or sys.stdin.isatty()):
        raise UserError(
            f"zoo predict takes {many(kind)}; got none: give FILE, or - for lines of text from "
            "stdin"
        )
    return args.files or ["-"]


def samples_in(word: str, kind: str, column: Input, alone: bool = True) -> Iterable[Sample]:
    """A word of the command -> its samples of that kind, in their order; rows of a table are read
    when it is their turn. UserError for a word that holds none, if it is `alone`; else that is what
    its row says."""
    path = user_path(word)
    try:
        if glob.has_magic(word) and not path.exists() and kind not in FILES:
            found = find_files(path, kind)
            alone = alone and len(found) == 1
            return chain.from_iterable([samples_in(w, kind, column, alone) for w in found])
        return samples_at(path, word, kind, column)
    except UserError as error:
        if alone:
            raise
        return [Sample({"file": word}, error)]


def samples_at(path: Path, word: str, kind: str, column: Input) -> Iterable[Sample]:
    """A file, a folder or `-` -> its samples."""
    if kind == "text" and (word == "-" or path.suffix.lower() == ".txt"):
        return lines_of(word)
    if (path.suffix.lower() in READERS and not path.is_dir()) or (
        path.is_dir() and is_table(path) and kind != "series"
    ):
        return table_samples(path, kind, column)
    if kind in FILES:
        return (Sample({"file": file}, file, Path(file).stem) for file in find_files(path, kind))
    if kind == "text" and path.is_dir():
        files = [f for f in files_below(path, []) if f.suffix.lower() == ".txt"]
        if files:
            return chain.from_iterable(map(lines_below, files))
    more = ", lines of a .txt file, or - for those of stdin" if kind == "text" else ""
    wants = f"zoo predict takes {many(kind)} of a table ({', '.join(READERS)}){more}"
    raise UserError(f"{wants}; got {word}")


def lines_of(word: str) -> Iterator[Sample]:
    """The lines of a file or of stdin (`-`), empty ones too; no other separators of Unicode end
    one. One that is no UTF-8 is told in its row. UserError where the file cannot be read, or says
    of itself that it is of another encoding."""
    try:
        file = user_path(word)
        data = read_stdin() if word == "-" else file.read_bytes()
    except OSError as error:
        wants = "zoo predict takes texts"
        raise UserError(f"{wants}; {word} cannot be read: {error.strerror}") from error
    for other, marks in OTHERS.items():
        if data.startswith(marks):
            raise UserError(f"zoo predict takes texts in UTF-8; {word} is {other}: save it as such")
    lines = data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").split(b"\n")
    return map(line_of, lines[:-1] if lines[-1] == b"" else lines)


def lines_below(file: Path) -> Iterable[Sample]:
    """The lines of a file in a folder, or one row that says why there are none."""
    if file.exists() and not file.is_file():  # a pipe, which may never end
        reason = SampleError(f"zoo predict takes texts; {file} is no regular file")
        return [Sample({"file": str(file)}, reason)]
    return samples_in(str(file), "text", Input(), alone=False)


def read_stdin() -> bytes:
    """All of stdin; a stand-in of text for it too."""
    return sys.stdin.buffer.read() if hasattr(sys.stdin, "buffer") else sys.stdin.read().encode()


def line_of(line: bytes) -> Sample:
    """A line's bytes -> the sample, or why it is none."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        reason = SampleError(f"a text must be UTF-8; byte {error.start} of the line is not", "")
        return Sample({"text": line.decode(errors="backslashreplace")}, reason)
    return Sample({"text": text}, text)


def find_files(path: Path, kind: str) -> list[str]:
    """A file as it is, a folder -> what lies below it, a pattern -> what fits; sorted.

    Below a folder it is as in training: links are followed, and what is hidden is left out.
    """
    if path.is_dir():
        found = [str(p) for p in files_below(path, []) if is_kind(p, kind)]
    elif glob.has_magic(str(path)) and not path.exists():
        found = sorted(f for f in glob.glob(str(path), recursive=True) if os.path.isfile(f))
    else:
        found = [str(path)]
    if not found:
        raise UserError(f"zoo predict takes {kind}s; {path} holds none")
    return found


def answer(
    model: Any, samples: Iterator[Sample], on_bad: str, pictures: Any = None
) -> Iterator[dict[str, Any]]:
    """One dict per sample: its row, and {"label", ...}, {"labels", ...}, {"numbers"}, {"mask",
    "shares"}, {"boxes"} or {"error"}. A sample that is an error itself is raised, or told in its
    row."""
    while chunk := list(islice(samples, CHUNK)):
        wrong = [s.source for s in chunk if isinstance(s.source, UserError)]
        if wrong and on_bad == "raise":
            raise wrong[0]
        asked = [s.source for s in chunk if not isinstance(s.source, UserError)]
        found = iter(model.predict(asked, on_bad=on_bad) if asked else ())
        for sample in chunk:
            bad = isinstance(sample.source, UserError)
            one = {"error": str(sample.source)} if bad else dict(next(found))
            one.pop("file", None)  # what a row has of it is what was typed
            yield {**sample.row, **(pictures(sample, one) if pictures else one)}
