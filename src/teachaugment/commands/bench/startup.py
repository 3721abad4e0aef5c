"""How long the command and the import take, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import teachaugment
from teachaugment.commands.bench.clock import spread

BEYOND_TORCH = """
import time, torch
began = time.perf_counter()
from teachaugment import TeachAugment
print(time.perf_counter() - began)
"""


def measure(repeats: int) -> dict[str, Any]:
    """Wall time of ``teachaugment --help``, and of importing the class where torch has been imported already."""
    helps, imports = [], []
    for i in range(repeats + 1):
        began = time.perf_counter()
        _python("-m", "teachaugment", "--help")
        told = time.perf_counter() - began
        imported = float(_python("-c", BEYOND_TORCH))
        if i:  # the first time the files come from the disk
            helps.append(told)
            imports.append(imported)
    return {"help_seconds": spread(helps), "import_seconds": spread(imports)}


def _python(*arguments: str) -> str:
    root = str(Path(teachaugment.__file__).resolve().parent.parent)  # this very package, installed or not
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=True)
    return done.stdout
