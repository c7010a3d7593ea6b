"""Tables on the screen."""

import sys
from typing import Any


def write_table(columns: list[str], rows: list[list[Any]]) -> None:
    """A table on a terminal, else aligned text."""
    if not sys.stdout.isatty():
        print(align([columns, *rows]), end="")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*map(Text, columns), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(str(cell), overflow="fold") for cell in row))
    Console().print(table)


def align(rows: list[list[Any]]) -> str:
    """Columns padded to their widest cell, two spaces between, one line per row."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in texts)
    return "".join(f"{line}\n" for line in lines)
