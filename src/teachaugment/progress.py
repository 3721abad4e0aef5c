"""How far it is, for whoever waits: a bar on a terminal, plain lines elsewhere. The one module that says so."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, TypeVar

from teachaugment.terminal import escaped, is_terminal, say, say_here

__all__ = ["Display", "duration", "progress", "say"]

Item = TypeVar("Item")
PATIENCE, SPOKEN_EVERY = 2, 10  # seconds


def progress(items: Iterable[Item], total: int, doing: str, what: str) -> Iterator[Item]:
    """The items, saying on stderr how many there have been; nothing is said within the first two seconds."""
    if is_terminal(sys.stderr):
        from tqdm import tqdm

        how: dict[str, Any] = {"desc": doing, "unit": f" {what}", "delay": PATIENCE, "leave": False}
        shown = Bar(tqdm(total=total, file=sys.stderr, **how))
        try:
            for item in items:
                yield item
                shown.update()
        finally:
            shown.close()
        return
    say_at = time.monotonic() + PATIENCE
    for done, item in enumerate(items):
        if time.monotonic() >= say_at:
            say_here(f"{doing}: {done:,} of {total:,} {what}")
            say_at = time.monotonic() + SPOKEN_EVERY
        yield item


class Bar:
    """tqdm's bar, which is let go when its terminal has gone."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def change(self, **values: Any) -> None:
        """Set attributes of the bar, such as ``n`` and ``unit``; they show when it is drawn next."""
        for name, value in values.items() if self.shown is not None else ():
            setattr(self.shown, name, value)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> None:
            if self.shown is not None:
                try:
                    getattr(self.shown, name)(*arguments, **keywords)
                except (OSError, ValueError):
                    self.shown.disable = True  # so that nothing more is drawn, at its end either
                    self.shown = None

        return call


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
            self.bar.write(escaped(line), file=self.stream)
        else:
            say_here(line, self.stream)

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
    if not is_terminal(stream):
        return None
    from tqdm import tqdm

    width: dict[str, Any] = {"dynamic_ncols": True} if _columns(stream) else {"ncols": 80}
    return Bar(tqdm(total=total, initial=done, file=stream, bar_format=layout, leave=False, **width))


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
