"""Tables as text for the terminal and as Markdown for a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


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
    lines = [table.header, ["---", *["---:"] * (len(table.header) - 1)], *table.rows]
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([f"### {table.title}", "", *body, *(["", table.note] if table.note else [])])


def time(spread: dict[str, Any] | None) -> str:
    """Median and, in brackets, the quartiles: ``12.3 ms (12.1–12.9)``."""
    if spread is None:
        return "–"
    unit, factor = ("s", 1.0) if spread["median"] >= 1 else ("ms", 1e3) if spread["median"] >= 1e-3 else ("µs", 1e6)
    low, middle, high = (number(factor * spread[name]) for name in ("q1", "median", "q3"))
    return f"{middle} {unit} ({low}–{high})"


def times(spread: dict[str, Any]) -> str:
    """A ratio with its quartiles: ``1.31 (1.30–1.33)``."""
    low, middle, high = (number(spread[name]) for name in ("q1", "median", "q3"))
    return f"{middle} ({low}–{high})"


def number(value: float) -> str:
    """Three digits that count, no exponents."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    decimals = 2 if abs(value) >= 0.1 else 4
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.{decimals}f}"


def size(count: float) -> str:
    """Bytes as people read them: ``12.3 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{number(count / scale)} {unit}"
    return f"{count:.0f} B"
