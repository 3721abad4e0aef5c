"""Tables as text for the terminal and as Markdown for a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: bool = False  # in Markdown: all columns to the left


def text(tables: Sequence[Table]) -> str:
    return "\n\n".join(_text(table) for table in tables)


def markdown(tables: Sequence[Table]) -> str:
    return "\n\n".join(_markdown(table) for table in tables)


def _text(table: Table) -> str:
    """The first column to the left, numbers to the right."""
    lines = [list(table.header), *map(list, table.rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.header))]
    shown = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([table.title, "", shown[0], rule, *shown[1:], *([table.note] if table.note else [])])


def _markdown(table: Table) -> str:
    lines = [table.header, ["---", *["---" if table.words else "---:"] * (len(table.header) - 1)], *table.rows]
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([f"### {table.title}", "", *body, *(["", table.note] if table.note else [])])
