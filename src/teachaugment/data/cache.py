"""Where data and measurements that can be made again are kept: ``~/.cache/teachaugment``, or as XDG_CACHE_HOME says."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

Statistics = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation of each channel


def home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "teachaugment"


def fingerprint(root: Path, paths: list[str], *parts: object) -> str:
    """Of files and of how they are read: their names, lengths and times, and ``parts``."""
    digest = hashlib.blake2b(repr((str(root.resolve()), *parts)).encode(), digest_size=16)
    for path in paths:
        about = (root / path).stat()
        digest.update(repr((path, about.st_size, about.st_mtime_ns)).encode())
    return digest.hexdigest()


def remembered(key: str, measure: Callable[[], Statistics]) -> Statistics:
    """Mean and standard deviation measured once. A cache that cannot be read or written is as good as none."""
    path = home() / "statistics" / f"{key}.json"
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        mean, std = (tuple(float(x) for x in saved[name]) for name in ("mean", "std"))
        return mean, std
    except (OSError, ValueError, KeyError, TypeError):
        pass
    mean, std = measure()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"mean": mean, "std": std}), encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        pass
    return mean, std
