"""What a step has freed is there for the next one, and whoever manages memory by the environment is left alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from teachaugment.commands.freed_memory import keep_freed_memory
kept = keep_freed_memory()

def step():
    blocks = [torch.ones(4 << 20) for _ in range(3)]  # 16 MB each
    return sum(block[-1] for block in blocks)

for _ in range(6):  # until the heap has found its shape
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def kept_and_faults(**variables: str) -> tuple[bool, int]:
    """Whether memory is kept, and how many pages are fetched in five steps."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    environment = {**inherited, "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    kept, faults = map(int, done.stdout.split())
    return bool(kept), faults


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_pages_are_fetched_once_and_the_environment_has_the_last_word():
    kept, few = kept_and_faults()
    if not kept:
        pytest.skip("another C library")
    told, many = kept_and_faults(MALLOC_MMAP_THRESHOLD_="131072")
    assert not told and 5 * few < many
