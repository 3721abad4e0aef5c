"""How far it is, for whoever waits: a bar on a terminal, plain lines elsewhere. The one module that says so."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, TypeVar

Item = TypeVar("Item")
PATIENCE, SPOKEN_EVERY = 2, 10  # seconds


def say(line: str) -> None:
    """A line on standard error, by the first of several processes; torchrun numbers them in RANK."""
    if os.environ.get("RANK", "0") == "0":
        print(line, file=sys.stderr, flush=True)


def progress(items: Iterable[Item], total: int, doing: str, what: str) -> Iterator[Item]:
    """The items, saying on stderr how many there have been; nothing is said within the first two seconds."""
    if sys.stderr.isatty():
        from tqdm import tqdm

        yield from tqdm(items, total=total, desc=doing, unit=f" {what}", delay=PATIENCE, leave=False, file=sys.stderr)
        return
    say_at = time.monotonic() + PATIENCE
    for done, item in enumerate(items):
        if time.monotonic() >= say_at:
            print(f"{doing}: {done:,} of {total:,} {what}", file=sys.stderr, flush=True)
            say_at = time.monotonic() + SPOKEN_EVERY
        yield item


class Display:
    """Something that takes long: its bar, where there is a terminal, and the lines that are said meanwhile."""

    def __init__(self, total: int, done: int, layout: str, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.bar = bar(self.stream, total, done, layout)
        self.spoken = time.monotonic()
        self.advised: set[str] = set()

    def silent_for(self, seconds: float) -> bool:
        """Whether nothing has been said for so long."""
        return time.monotonic() - self.spoken > seconds

    def say(self, line: str) -> None:
        self.spoken = time.monotonic()
        if self.bar is not None:
            self.bar.write(line, file=self.stream)
        else:
            print(line, file=self.stream, flush=True)

    def once(self, topic: str, line: str) -> None:
        """Say something that one mention is enough for."""
        if topic not in self.advised:
            self.advised.add(topic)
            self.say(line)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def bar(stream: TextIO, total: int, done: int, layout: str) -> Any:
    """tqdm's bar on a terminal, otherwise None."""
    if not stream.isatty():
        return None
    from tqdm import tqdm

    width: dict[str, Any] = {"dynamic_ncols": True} if _columns(stream) else {"ncols": 80}
    return tqdm(total=total, initial=done, file=stream, bar_format=layout, leave=False, **width)


def _columns(stream: TextIO) -> int:
    """The terminal's width; some terminals do not know it and say 0."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
