"""The metrics of a run in words: a line for each model, and the classes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from teachaugment.governor import LEAST_SHARE, SHARE

SHOWN = 20  # classes at most; of more than that, the worst ones
WORST = 5


def result_lines(results: Mapping[str, Mapping[str, Any]], describe: Callable[[Mapping[str, Any]], str]) -> list[str]:
    """The metrics of each model, one line each, as the task describes them."""
    return [f"{name:<8} {describe(result)}" for name, result in results.items()]


def strength_lines(found: Mapping[str, float]) -> list[str]:
    """How strong the augmentation was at the end and why, and the operations that got less of it."""
    if "strength" not in found:
        return []
    plain, augmented = (100 * found[f"{name}_mastery"] for name in ("plain", "augmented"))
    said = (
        f"{found['strength']:.2f} of 1: the network masters {plain:.0f} % of its training images as they are, "
        f"{augmented:.0f} % augmented"
    )
    less = sorted((share, name) for name, share in found.items() if name.startswith(SHARE) and share < LEAST_SHARE)
    if less:
        named = (f"{name.removeprefix(SHARE).replace('_', ' ')} {100 * share:.0f} %" for share, name in less)
        said += f"; of it for {', '.join(named)}"
    return textwrap.wrap(said, 110, initial_indent="strength  ", subsequent_indent=" " * 10)


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
