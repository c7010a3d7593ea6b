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
    check_columns(config, kind)
    if kind == "scene":
        return mask_splits(config, seed)
    if kind == "boxes":
        return box_splits(config, seed)
    if kind == "unlabelled":
        return unlabelled_splits(config, seed)
    if kind == "text" or is_table(config.train):
        return table_splits(config, seed, kind)
    return class_folders(config, seed, kind)


def check_columns(config: Any, kind: str) -> None:
    """UserError for what is asked about the columns of a table where there is none: to divide in
    another way would be to leak, to read another label to answer something else."""
    if getattr(config, "group", None) is not None and config.time is not None:
        raise UserError("data takes a column of groups or of dates, not both: drop --data.group "
                        "or --data.time")  # fmt: skip
    sources = (config.train, config.val, config.test)
    if kind == "text" or any(is_table(str(source)) for source in sources if source is not None):
        return
    for key in ("group", "time", "input", "label", "split"):
        if getattr(config, key, None) not in (None, "auto", "none"):
            refuse_column(key, config.train)
    if getattr(config, "task", None) not in (None, "label"):
        wants = f"data.task {config.task} takes a table with a column of {config.task}"
        raise UserError(f"{wants}; {config.train} is a folder, where each has one label: drop it")


def refuse_column(key: str, folder: Any) -> None:
    """The error about a column of what is no table."""
    wants = f"data.{key} takes a column of a table, such as metadata.csv"
    raise UserError(f"{wants}; {folder} is a folder: drop it")


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
