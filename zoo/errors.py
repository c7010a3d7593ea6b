"""What a user did wrong, in one sentence: what takes it, what it wants, what it got, where, what to
do."""

import difflib
import re
import unicodedata
from collections.abc import Iterable

SHOWN, CUT = 8, 200  # so many names at most stand in a sentence, and so much of each
DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class UserError(ValueError):
    """Bad input. The message is one sentence for the user; commands print it without a
    traceback."""


class ShapeError(UserError):
    """A tensor of another shape than the part takes."""


class OptionError(UserError):
    """An unknown or impossible option. `key` is the option's dotted name, so callers can add where
    it was written."""

    def __init__(self, message: str, key: str = ""):
        super().__init__(message)
        self.key = key


class SampleError(UserError):
    """A sample that cannot be read; `reason` says why, without naming it."""

    def __init__(self, message: str, reason: str = ""):
        super().__init__(message)
        self.reason = reason or message


def require(ok: object, sentence: str, key: str = "") -> None:
    """OptionError with that sentence unless `ok`.

    For parts as they are built: in a forward pass, whose sizes a compiler must not write out, an
    `if` stands in front of the `raise`.
    """
    if not ok:
        raise OptionError(sentence, key)


def suggest(word: str, choices: Iterable[str]) -> str:
    """The closest choice as the end of a sentence, `; did you mean 'x'?`, or nothing where none is
    close. It is never the word itself, which was refused; one that only looks like it is spelled in
    escapes."""
    others = [choice for choice in choices if choice != word]
    close = difflib.get_close_matches(word, others, n=1, cutoff=0.5)
    alike = close and len({unicodedata.normalize("NFKC", w) for w in (word, *close)}) == 1
    return f"; did you mean {ascii(close[0]) if alike else repr(close[0])}?" if close else ""


def one_of(owner: str, option: str, value: object, choices: Iterable[str]) -> str:
    """`value`, if it is one of the choices; else an OptionError that lists them."""
    known = list(choices)
    if value not in known:
        hint = suggest(str(value), known)
        raise OptionError(
            f"{owner} takes the {option} {', '.join(known)}; got {cut(repr(value))}{hint}", option
        )
    return str(value)


def some(names: Iterable[object], most: int = SHOWN, between: str = ", ") -> str:
    """ "a, b, c", or "a, b and 7 more", as names stand in a sentence."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return between.join(cut(name) for name in every[:most]) + more


def cut(text: object) -> str:
    """A text; without its middle where it is longer than CUT."""
    text = str(text)
    return text if len(text) <= CUT else f"{text[: CUT // 2]}...{text[-CUT // 2 :]}"


def too_large(error: BaseException) -> str:
    """What to do where memory did not suffice, in a sentence; "" for any other error."""
    words = str(error)
    asked = re.search(r"allocate (\d+) bytes|llocate ([\d.]+ [KMGTP]?i?B)", words)
    if asked is None and not re.search("(calculation|multiplication) overflow", words):
        return ""
    size = "a part" if asked is None else asked[2] or f"{int(asked[1]) / 1e9:.3g} GB"
    return f"memory does not hold {size} at once: make the model, its samples or batches smaller"


def seen(text: object) -> str:
    """Text in which what would steer the terminal (control characters, line ends, marks that turn
    the direction of writing) is escaped."""
    return "".join(
        c.encode("unicode_escape").decode()
        if unicodedata.category(c) in ("Cc", "Zl", "Zp") or c in DIRECTIONS
        else c
        for c in str(text)
    )
