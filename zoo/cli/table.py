"""Tables: ruled by rich on a terminal, aligned text elsewhere."""

import sys
from typing import Any

from zoo.errors import seen


def write_table(columns: list[str], rows: list[list[Any]]) -> None:
    """Print cells under their columns' names."""
    if not sys.stdout.isatty():
        say(align([columns, *rows]))
        return
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    heads = [Column(name, overflow="fold") for name in columns]
    table = Table(*heads, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(seen(cell)) for cell in row))
    Console().print(table)


def say(text: str) -> None:
    """Write to stdout; what its encoding lacks (stray bytes of a file's name) is escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def align(rows: list[list[Any]]) -> str:
    """Columns as wide as their widest cell, two spaces between them, one line per row."""
    texts = [[seen(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in texts)
    return "".join(f"{line}\n" for line in lines)
