"""The metrics of a run in words: a line for each model, and the classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

SHOWN = 20  # classes at most; of more than that, the worst ones
WORST = 5


def result_lines(results: Mapping[str, Mapping[str, Any]], describe: Callable[[Mapping[str, Any]], str]) -> list[str]:
    """The metrics of each model, one line each, as the task describes them."""
    return [f"{name:<8} {describe(result)}" for name, result in results.items()]


def class_lines(classes: Sequence[str], shares: Sequence[float | None], what: str) -> list[str]:
    """``what`` was measured of each class, or of the worst ones where there are many; nothing where none is known."""
    known = [(share, name) for share, name in zip(shares, classes, strict=False) if share is not None]
    if not known:
        return []
    few = len(known) <= SHOWN
    rows = known if few else sorted(known)[:WORST]
    title = f"{what} of each class" if few else f"the {len(rows)} of {len(known)} classes with the lowest {what}"
    width = max(len(name) for _, name in rows)
    return [f"{title} (target):", *(f"  {name:<{width}} {100 * share:5.1f} %" for share, name in rows)]
