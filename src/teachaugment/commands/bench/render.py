"""Numbers as people read them, for the tables."""

from __future__ import annotations

from typing import Any


def time(spread: dict[str, Any] | None) -> str:
    """Median and, in brackets, the quartiles: ``12.3 ms (12.1–12.9)``."""
    if spread is None:
        return "–"
    unit, factor = ("s", 1.0) if spread["median"] >= 1 else ("ms", 1e3) if spread["median"] >= 1e-3 else ("µs", 1e6)
    low, middle, high = _quartiles(spread, factor)
    return f"{middle} {unit} ({low}–{high})"


def times(spread: dict[str, Any]) -> str:
    """A ratio with its quartiles: ``1.31 (1.30–1.33)``."""
    low, middle, high = _quartiles(spread)
    return f"{middle} ({low}–{high})"


def _quartiles(spread: dict[str, Any], factor: float = 1.0) -> list[str]:
    return [number(factor * spread[name]) for name in ("q1", "median", "q3")]


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
