"""What reaches the terminal: one function for each of its streams. No name and no file can command it.

Training goes on without it."""

from __future__ import annotations

import os
import sys
import unicodedata
from contextlib import suppress
from typing import TextIO

from teachaugment.errors import UserError


class NobodyReads(Exception):
    """Whoever read what was printed has left, such as ``head``."""


def escaped(text: object) -> str:
    """Text in which every character but a new line shows: control characters are written out, as ``\\x1b``."""
    return "".join(c if _shows(c) else c.encode("unicode_escape").decode() for c in str(text))


def _shows(character: str) -> bool:
    return character == "\n" or character.isprintable() or unicodedata.category(character) == "Zs"


def print_text(text: object, needed: bool = True) -> None:
    """Lines on standard output. Where they cannot be written, that is an error, unless they are not ``needed``."""
    try:
        print(escaped(text), flush=True)
    except BrokenPipeError:
        _silence(sys.stdout)
        if needed:
            raise NobodyReads from None
    except (OSError, ValueError) as error:
        _silence(sys.stdout)
        if needed:
            raise UserError(f"cannot write to standard output: {getattr(error, 'strerror', None) or error}") from None


def say(line: object) -> None:
    """A line on standard error, by the first of several processes; torchrun numbers them in RANK."""
    if os.environ.get("RANK", "0") == "0":
        say_here(line)


def say_to_people(line: object) -> None:
    """The same where people look at it: a sign of life, which a log can do without."""
    if is_terminal(sys.stderr):
        say(line)


def say_here(line: object, stream: TextIO | None = None) -> None:
    """The same by any process, and to another stream. One that is gone or full is no reason to stop."""
    with suppress(OSError, ValueError, AttributeError):
        print(escaped(line), file=stream or sys.stderr or _nowhere(), flush=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether people look at it while it is written."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def open_streams() -> None:
    """Standard streams that were closed lead nowhere: otherwise the next file gets their number, and what is said."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _silence(stream: TextIO) -> None:
    """What is left in a stream's buffer goes nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _nowhere() -> TextIO:
    return open(os.devnull, "w")
