"""The one map from a class's name to its number, made from the training data.

A name is written in Unicode's composed form (NFC), without blanks around it and without characters
that nobody sees (byte order marks, zero-width spaces), and each of its blanks is a plain one, so
that two names that look alike are one class; inner blanks and capitals count. Names that are
numbers come first, by value (2, 10, 100); all others follow in the order of their characters' code
points.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal

from zoo.errors import UserError, suggest
from zoo.inputs.names import listed

_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_UNSEEN = dict.fromkeys(map(ord, "\u200b\u2060\ufeff\u00ad"))
_BLANKS = dict.fromkeys(map(ord, "\u00a0\u2007\u202f"), " ")  # those that break no line
_LISTED = 10  # more than elsewhere: the right name is likely to be among them


def clean_label(name: str) -> str:
    """A class's name as it is stored: composed, without blanks around it or unseen characters."""
    return unicodedata.normalize("NFC", name.translate(_UNSEEN | _BLANKS)).strip()


def order_labels(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct names in the order of their numbers: class 0 first."""
    return tuple(sorted({clean_label(name) for name in names}, key=_key))


def label_index(name: str, labels: Sequence[str], where: str) -> int:
    """The number of a class. UserError that names it, and where it is, if `labels` lacks it."""
    clean = clean_label(name)
    if clean in labels:
        return labels.index(clean)
    known, hint = listed(labels, _LISTED), suggest(clean, labels)
    raise UserError(
        f"{where} takes the {len(labels)} classes of the training data ({known}); "
        f"got {clean!r}, which is none of them: rename it, leave it out or add it to train{hint}"
    )


def _key(name: str) -> tuple[bool, Decimal, str]:
    number = _NUMBER.fullmatch(name)
    return (number is None, Decimal(name if number else 0), name)
