"""Names of files and classes as they stand in sentences, and paths as users write them."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from zoo.errors import UserError, cut, seen, some

LISTED = 5  # so many names at most stand in a sentence


def listed(names: Iterable[object], most: int = LISTED) -> str:
    """ "a, b, c", or "a, b and 7 more", each printable."""
    return some(map(printable, names), most)


def is_text(name: object) -> bool:
    """Whether a name can be stored and printed.

    A file's name is bytes on disk. Those that are no UTF-8 reach Python as lone surrogates, on
    which every later print, JSON file and encoding would fail.
    """
    return encodable(name) == str(name)


def is_endless(path: str | Path) -> bool:
    """Whether a path is a pipe or a device, which would be waited for or read for ever.

    OSError where there is nothing.
    """
    mode = os.stat(path).st_mode
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def encodable(name: object) -> str:
    """A name as text, with escapes (\\udce9) for what is none: see `is_text`."""
    return str(name).encode("utf-8", "backslashreplace").decode()


def printable(name: object) -> str:
    """A name as it may stand in a sentence: text, in one line, that steers no terminal."""
    return seen(encodable(name))


def user_path(path: str | os.PathLike[str]) -> Path:
    """A path as users write it, ~ for a home. UserError for the home of a user whom there is not:
    a folder of that name would be made here."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        wants = "a path takes ~ for your home, or ~NAME for that of a user"
        raise UserError(f"{wants}; got {cut(ascii(str(path)))}, whom there is not") from error
