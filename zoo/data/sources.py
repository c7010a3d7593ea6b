"""Whatever holds samples -> Splits: class folders of files, or a table."""

from collections.abc import Sequence
from typing import Any

from zoo.data.boxes import box_held_out, box_splits
from zoo.data.folder import class_folders, held_out_folder
from zoo.data.from_table import table_held_out, table_splits
from zoo.data.masks import mask_held_out, mask_splits
from zoo.data.series import series_held_out, series_splits
from zoo.data.splits import Splits
from zoo.data.table import is_table
from zoo.data.unlabelled import unlabelled_held_out, unlabelled_splits
from zoo.errors import UserError


def splits(config: Any, seed: int, kind: str) -> Splits:
    """The data section of a config, for "picture", "sound", "text", "series", "scene",
    "boxes" or "unlabelled" -> Splits.

    `config.train` is a folder of class folders (of pictures or sounds) or a table; see
    `class_folders`, `table_splits`, `series_splits`, `mask_splits` and `box_splits`. UserError for
    whatever cannot be trained on.
    """
    if kind == "series":
        return series_splits(config)
    if kind == "scene":
        return mask_splits(config, seed)
    if kind == "boxes":
        return box_splits(config, seed)
    if kind == "unlabelled":
        return unlabelled_splits(config, seed)
    if kind == "text" or is_table(config.train):
        return table_splits(config, seed, kind)
    for key in ("group", "time"):
        if getattr(config, key) is not None:  # to divide in another way would be to leak
            wants = f"data.{key} takes a column of a table, such as metadata.csv"
            raise UserError(f"{wants}; {config.train} is a folder of class folders: drop it")
    return class_folders(config, seed, kind)


def held_out(config: Any, labels: Sequence[str], kind: str) -> Splits:
    """What `config.test` holds alone, under the labels of a model -> Splits with `test`."""
    if kind == "series":
        return series_held_out(config, labels)
    if kind == "scene":
        return mask_held_out(config, labels)
    if kind == "boxes":
        return box_held_out(config, labels)
    if kind == "unlabelled":
        return unlabelled_held_out(config)
    if kind == "text" or is_table(config.test):
        return table_held_out(config, labels, kind)
    return held_out_folder(config.test, labels, config.on_bad, kind)
