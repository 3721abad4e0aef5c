"""The one exception a user should ever see, and the hint that goes with a misspelt name."""

from __future__ import annotations

import difflib
import tempfile
import traceback
from collections.abc import Iterable
from contextlib import suppress


class UserError(Exception):
    """Something the user can put right. Its message is one line: what is wrong, where, and what would be right."""


def nearest(word: str, known: Iterable[str]) -> str:
    """The tail of an "unknown name" message: the likely spelling if there is one, otherwise all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}"


def unforeseen(error: BaseException, doing: str) -> str:
    """One line about a mistake that nobody has foreseen: what was being done, and where the traceback is."""
    said = " ".join(str(error).split())[:300]
    if isinstance(error, MemoryError) or any(words in said.lower() for words in ("out of memory", "t allocate memory")):
        return f"{doing}: out of memory; smaller batches (--batch-size, with --accumulate) or smaller images need less"
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{doing}: cannot use {str(error.filename)[:200]}: {error.strerror}"
    return f"{doing}: {type(error).__name__}{f': {said}' if said else ''}{_kept_traceback(error)}"


def _kept_traceback(error: BaseException) -> str:
    with suppress(Exception):  # no place for it is no reason to say less
        text = "".join(traceback.format_exception(error))
        descriptor, name = tempfile.mkstemp(".txt", "teachaugment-error-")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return f"; a mistake of the program, please report it with {name}"
    return "; a mistake of the program, please report it"
