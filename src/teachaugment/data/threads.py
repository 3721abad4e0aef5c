"""Many files at once: decoding by threads, since Pillow releases Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from teachaugment.data.decode import BadImage
from teachaugment.progress import progress

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(
    function: Callable[[Item], Result], items: Sequence[Item], doing: str, what: str
) -> Iterator[Result | BadImage]:
    """The function's results in order, or the BadImage it raised, with progress if it takes long."""

    def attempt(item: Item) -> Result | BadImage:
        try:
            return function(item)
        except BadImage as error:
            return error

    pool = ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1))
    try:
        yield from progress(pool.map(attempt, items), len(items), doing, what)
    finally:  # also after another error, or for somebody who does not want to wait
        pool.shutdown(wait=False, cancel_futures=True)
