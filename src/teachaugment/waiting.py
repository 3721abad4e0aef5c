"""Whoever waits for more than two seconds is told how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
PATIENCE, SPOKEN_EVERY = 2, 10  # seconds


def progress(items: Iterable[Item], total: int, doing: str, what: str) -> Iterator[Item]:
    """The items, saying on stderr how many there have been: a bar on a terminal, otherwise plain lines."""
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
