"""From folders to checked, decoded batches.

`ImageData` brings Lightning with it and is imported when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from zoo.data.folder import evaluation_folder, image_folder
from zoo.data.splits import Rows, Splits

if TYPE_CHECKING:
    from zoo.data.loader import ImageData

__all__ = ["ImageData", "Rows", "Splits", "evaluation_folder", "image_folder"]


def __getattr__(name: str) -> Any:
    if name != "ImageData":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from zoo.data.loader import ImageData

    return ImageData
