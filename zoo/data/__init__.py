"""From folders to checked, decoded batches.

`Batches` brings Lightning with it and is imported when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from zoo.data.folder import class_folders, held_out_folder
from zoo.data.sources import held_out, splits
from zoo.data.splits import Rows, Splits

if TYPE_CHECKING:
    from zoo.data.loader import Batches

__all__ = ["Batches", "Rows", "Splits", "class_folders", "held_out", "held_out_folder", "splits"]


def __getattr__(name: str) -> Any:
    if name != "Batches":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from zoo.data.loader import Batches

    return Batches
