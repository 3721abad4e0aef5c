"""The memory of one step serves the next, instead of going back to the system in between.

glibc gives large blocks back as soon as they are freed, and gets them again page by page, each filled with zeros. In a
training on a CPU, whose every step needs the same blocks, that is up to an eighth of the time (docs/performance.md).
"""

from __future__ import annotations

import ctypes
import os
import sys

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # the numbers that malloc.h has for them
LARGEST, KEPT = 2**30, 2**31 - 1  # bytes: of one block, and of all that is free at the end of the heap
CHOSEN = ("MALLOC_", "GLIBC_TUNABLES")  # variables by which somebody has decided otherwise


def keep_freed_memory() -> bool:
    """Whether this process does so from now on: with glibc, unless the environment says how memory is managed."""
    if sys.platform != "linux" or any(name.startswith(CHOSEN) for name in os.environ):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all([mallopt(MMAP_THRESHOLD, LARGEST), mallopt(TRIM_THRESHOLD, KEPT)])
