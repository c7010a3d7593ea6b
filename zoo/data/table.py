"""Tables on disk -> `datasets.Dataset`s, by split. Cells stay on disk until they are asked for."""

import contextlib
import errno
import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.data.columns import MISSING
from zoo.data.delimited import fault_in, fault_in_json, head_of, short_rows
from zoo.data.layout import SPLIT_NAMES
from zoo.errors import UserError
from zoo.inputs.names import listed, user_path

if TYPE_CHECKING:
    from datasets import Dataset

READERS = {
    ".csv": "csv", ".tsv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json",
    ".parquet": "parquet",
}  # fmt: skip
FAULTS = {
    ".csv": fault_in, ".tsv": fault_in, ".jsonl": fault_in_json, ".ndjson": fault_in_json,
}  # fmt: skip
# how readers say that there are none, beside StopIteration and IndexError
WITHOUT_ROWS = ("corresponds to no data", "BatchSize must be greater than 0")
METADATA = "metadata"
DISK = (  # what the system says of a place that cannot be written
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EEXIST,
    errno.ENOTDIR, errno.ENOENT,
)  # fmt: skip
log = logging.getLogger("zoo")
HUB = "hf:"
HALF = re.compile(  # each escape of JSON: a pair of surrogates, a lone one (found), any other
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\."
)
TAKES = f"a table ({', '.join(READERS)}), a saved dataset's folder or {HUB}NAME[:CONFIG] of the Hub"


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether `read_tables` reads it: by its ending, by what lies in the folder, or as a name."""
    file = user_path(path)
    return (
        str(path).startswith(HUB)
        or file.suffix.lower() in READERS
        or (file.is_dir() and (_saved(file) or bool(_split_files(file))))
    )


def read_tables(path: str | os.PathLike[str], key: str) -> "dict[str, Dataset]":
    """{"train": a table, and "val", "test" where the source has them}; Arrow files on disk.

    Cells of CSV and TSV are text as they are written, an empty one is an empty text. UserError that
    names the file where it cannot be read, and for a table without rows.
    """
    import datasets

    file = user_path(path)
    with _quiet(datasets):
        try:
            if str(path).startswith(HUB):
                name, _, part = str(path).removeprefix(HUB).partition(":")
                if not name.strip():
                    raise UserError(f"{key} takes {TAKES}; {path} names none")
                found = _load(datasets, name, part or None)
            elif file.is_dir() and _saved(file):
                found = datasets.load_from_disk(str(file))
            elif file.is_dir() and _split_files(file):
                found = {s: _read(datasets, f) for s, f in _split_files(file).items()}
            elif file.is_file() and not file.stat().st_size:
                raise UserError(f"{key} takes a table with rows; {path} is empty (0 bytes)")
            elif file.is_file() and file.suffix.lower() in READERS:
                found = _read(datasets, file)
            else:
                got = "is none of these" if file.is_file() else "is no regular file"
                got = "is a folder without such" if file.is_dir() else got
                got = got if file.exists() else "does not exist"
                raise UserError(f"{key} takes {TAKES}; {path} {got}")
        except UserError:
            raise
        except Exception as error:  # its readers raise pandas', pyarrow's and bare ones
            cause = error.__cause__ or error
            told = any(sign in str(cause) for sign in WITHOUT_ROWS)
            if told or isinstance(error, (StopIteration, IndexError)):
                raise UserError(f"{key} takes a table with rows; {path} has none") from error
            look = FAULTS.get(file.suffix.lower()) if file.is_file() else None
            found = "" if look is None else look(file)
            reason = found or (str(cause).strip().splitlines() or [type(cause).__name__])[0]
            raise UserError(f"{key} takes {TAKES}; {path} cannot be read: {reason}") from error
    tables = _by_split(found if isinstance(found, dict) else {"train": found}, path, key)
    for split, table in tables.items():
        if not len(table):
            raise UserError(f"{key} takes a table with rows; the {split} of {path} has none")
        for name, feature in table.features.items():
            if isinstance(feature, (datasets.Audio, datasets.Image)):  # decoding is ours
                tables[split] = table = table.cast_column(name, type(feature)(decode=False))
    return tables


def _read(datasets: Any, file: Path) -> "Dataset":
    import pyarrow.compute as pc

    reader = READERS[file.suffix.lower()]
    options: dict[str, Any] = {}
    header, bare = [], []
    if reader == "csv":
        separator, header = head_of(file)
        bare = [i for i, name in enumerate(header) if not name]
        header = [name or f"column {i} without a name" for i, name in enumerate(header, 1)]
        as_text = datasets.Features({name: datasets.Value("string") for name in header})
        options = {"sep": separator, "features": as_text, "keep_default_na": False}
        options |= {"encoding": "utf-8-sig", "index_col": False}
        options |= {"names": header, "header": 0} if bare else {}
    # by its content: `datasets` would take a file of the same name and moment for the one it knows
    with file.open("rb") as data:
        content = hashlib.file_digest(data, "sha256").hexdigest()[:32]
    with repaired(file) if reader == "json" else contextlib.nullcontext(file) as whole:
        table = _load(datasets, reader, content, data_files=str(whole), split="train", **options)
    if reader == "csv" and table.num_columns > 1:
        blank = pc.any(pc.equal(table.data.column(-1), ""))  # type: ignore[attr-defined]
        # missing cells are read as empty ones, the last of the row among them
        short = short_rows(file) if blank.as_py() else []
        if short:
            got = f"{len(short)} of {file} have fewer than the header ({listed(short)})"
            raise UserError(f"a table has as many cells in each row; {got}: add what they lack, "
                            f"empty cells too")  # fmt: skip
    if bare:
        what = "columns without a name, which are empty or number the rows"
        log.warning("%s: left out %d %s", file, len(bare), what)
        table = table.remove_columns([header[i] for i in bare])
    return with_points(table, file) if options.get("sep") == ";" else table


def with_points(table: "Dataset", file: Path) -> "Dataset":
    """A table with ; between its cells, as programs write it whose numbers have decimal commas: the
    columns that hold such numbers alone get points, and that is said."""
    import pyarrow.compute as pc

    def has(column: Any, pattern: str, how: Any) -> bool:
        return how(pc.match_substring_regex(column, pattern)).as_py()  # type: ignore[attr-defined]

    number, empty = r"[+-]?\d+(,\d+)?([eE][+-]?\d+)?", f"(?i:{'|'.join(MISSING)})?"
    names = [
        name
        for name in table.column_names
        if has(table.data.column(name), r"^\s*[+-]?\d+,\d", pc.any)  # type: ignore[attr-defined]
        and has(table.data.column(name), rf"^\s*({number}|{empty})\s*$", pc.all)  # type: ignore[attr-defined]
    ]
    if not names:
        return table
    log.warning("%s: decimal commas were read as such in the columns %s", file, listed(names))
    return table.map(_pointed, batched=True, fn_kwargs={"names": names}, features=table.features)


def _pointed(cells: dict[str, list[str]], names: list[str]) -> dict[str, list[str]]:
    return {name: [cell.replace(",", ".") for cell in cells[name]] for name in names}


@contextlib.contextmanager
def repaired(file: Path) -> Iterator[Path]:
    """A JSON file; where it has halves of characters (escapes of lone surrogates, which are no
    text), a copy with U+FFFD in their place for as long as it is read, and that is said."""

    def whole(found: re.Match[bytes]) -> bytes:
        return b"\\ufffd" if found[1] else found[0]

    with file.open("rb") as data:
        rows = [f"line {i}" for i, line in enumerate(data, 1) if any(HALF.findall(line))]
    if not rows:
        yield file
        return
    log.warning(
        "%s: halves of characters (lone surrogates) were read as U+FFFD (%s)",
        file, listed(rows),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / file.name
        with file.open("rb") as data, copy.open("wb") as out:
            out.writelines(HALF.sub(whole, line) for line in data)
        yield copy


def _load(datasets: Any, *names: str | None, **options: Any) -> Any:
    """`datasets.load_dataset`. UserError where the disk of its cache is at fault, not the table."""
    try:
        return datasets.load_dataset(*names, **options)
    except Exception as error:  # what the system said stands behind its own
        behind: BaseException | None = error
        while behind is not None:
            reason = getattr(behind, "errno", None) in DISK and os.strerror(behind.errno)  # type: ignore[attr-defined]
            if "Not enough disk space" in str(behind) or reason:
                cache = f"{datasets.config.HF_DATASETS_CACHE} cannot be written"
                raise UserError(
                    f"tables are kept in the cache of datasets; {cache}: {reason or behind}: make "
                    "room there, or name another folder with HF_DATASETS_CACHE"
                ) from error
            behind = behind.__cause__ or behind.__context__
        raise


def doubtful(table: Any, path: Path, split: str) -> list[str]:
    """A note where cells of a CSV or TSV file seem to have swallowed rows: a quotation mark that
    nothing closes opens a cell, which then goes on up to the next one."""
    file = _split_files(path).get(split, path) if path.is_dir() else path
    broken = wrapped(table) if READERS.get(file.suffix.lower()) == "csv" else []
    if not broken:
        return []
    found, (separator, header) = [], head_of(file)
    for i, row in enumerate(table.select_columns(broken)):
        inner = [line for cell in row.values() for line in (cell or "").split("\n")[1:-1]]
        if any(line.count(separator) == len(header) - 1 for line in inner):
            found.append(f"row {i + 1}")
    if not found:
        return []
    return [
        f"{len(found)} rows of {file.name} hold lines that look like rows themselves "
        f"({listed(found)}): if a quotation mark opens a cell there by mistake, double it"
    ]


def wrapped(table: Any) -> list[str]:
    """The columns of text in which some cell has a line break."""
    import pyarrow.compute as pc

    return [
        name
        for name in table.column_names
        if getattr(table.features[name], "dtype", "") == "string"  # lists have none
        and pc.any(pc.match_substring(table.data.column(name), "\n")).as_py()  # type: ignore[attr-defined]
    ]


def _saved(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))


def _split_files(folder: Path) -> dict[str, Path]:
    """Files named train, val, test in a folder, or one named metadata in it or in each of such
    folders, which is how folders of files say more than a class."""
    files = [f for f in sorted(folder.iterdir()) if f.suffix.lower() in READERS and f.is_file()]
    alone = [f for f in files if f.stem.lower() == METADATA and _names_files(f)]
    each = [(SPLIT_NAMES.get(folder.name.lower(), "train"), file) for file in alone]
    if not alone:
        each = [(SPLIT_NAMES.get(file.stem.lower()), file) for file in files]
        for inner in sorted(folder.iterdir()):
            split = SPLIT_NAMES.get(inner.name.lower())
            facts = [inner / f"{METADATA}{ending}" for ending in READERS] if split else []
            each += [(split, file) for file in facts if file.is_file() and _names_files(file)]
    named: dict[str, Path] = {}
    for split, file in each:
        if split in named:
            both = f"{named[split].relative_to(folder)} and {file.relative_to(folder)}"
            raise UserError(f"data takes one {split} table; {folder} has two, {both}: keep one")
        named |= {} if split is None else {split: file}
    return named if alone or "train" in named or "test" in named else {}


def _names_files(file: Path) -> bool:
    """Whether a metadata file is about files; parquet has its columns' names at its end."""
    if file.suffix.lower() == ".parquet":
        return True
    with file.open("rb") as opened:
        return b"file_name" in opened.readline()


def place_of(path: Any, split: str) -> Path:
    """Where a split's table lies: the folder below which its cells name files, or the file."""
    root = user_path(str(path))
    if not root.is_dir() or _saved(root):
        return root
    file = _split_files(root).get(split)
    return root if file is None else file.parent if file.stem.lower() == METADATA else root


def _by_split(found: Any, path: Any, key: str) -> "dict[str, Dataset]":
    tables: dict[str, Dataset] = {}
    for name, table in found.items():
        split = SPLIT_NAMES.get(str(name).lower(), "")
        if split and split in tables:
            log.warning("%s: left out the split %s, another one of %s", path, name, split)
        tables.setdefault(split, table)
    unknown = listed(n for n in found if str(n).lower() not in SPLIT_NAMES)
    if "" in tables and "train" in tables:
        log.warning("%s: left out the splits %s", path, unknown)
    elif "" in tables:
        raise UserError(f"{key} takes the splits train, val, test; {path} has {unknown}")
    return {split: tables[split] for split in ("train", "val", "test") if split in tables}


@contextlib.contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Without progress bars and its own log, and as it was afterwards."""
    on, level = datasets.is_progress_bar_enabled(), datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # what it would say is said by us
    try:
        yield
    finally:
        datasets.logging.set_verbosity(level)
        if on:
            datasets.enable_progress_bars()
