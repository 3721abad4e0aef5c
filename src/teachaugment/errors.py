"""The one exception a user should ever see, and the hint that goes with a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can put right. Its message is one line: what is wrong, where, and what would be right."""


def nearest(word: str, known: Iterable[str]) -> str:
    """The tail of an "unknown name" message: the likely spelling if there is one, otherwise all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}"
