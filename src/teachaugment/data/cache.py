"""Where data and measurements that can be made again are kept: ``~/.cache/teachaugment``, or as XDG_CACHE_HOME says."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from teachaugment.errors import UserError

T = TypeVar("T")
Statistics = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation of each channel


def home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "teachaugment"
    except RuntimeError:  # neither HOME nor an entry for the user
        raise UserError("there is no home directory to keep data in; name one in XDG_CACHE_HOME") from None


def fingerprint(root: Path, paths: list[str], *parts: object) -> str:
    """A name for files and for how they are read, made from their names, lengths and times and from ``parts``."""
    digest = hashlib.blake2b(repr((str(root.resolve()), *parts)).encode(), digest_size=16)
    for path in paths:
        about = (root / path).stat()
        digest.update(repr((path, about.st_size, about.st_mtime_ns)).encode())
    return digest.hexdigest()


def measured_once(key: str, measure: Callable[[], Statistics]) -> Statistics:
    """Mean and standard deviation measured once. A cache that cannot be read or written is as good as none."""

    def read(saved: Any) -> Statistics:
        mean, std = (tuple(float(x) for x in saved[name]) for name in ("mean", "std"))
        return mean, std

    return made_once("statistics", key, lambda: dict(zip(("mean", "std"), measure(), strict=True)), read)


def made_once(folder: str, key: str, make: Callable[[], Any], read: Callable[[Any], T]) -> T:
    """``read`` of what ``make`` makes, which is plain data and is made once."""
    try:
        path = home() / folder / f"{key}.json"
    except UserError:
        return read(make())
    try:
        return read(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    made = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(made), encoding="utf-8")
        os.replace(temporary, path)
    except OSError:
        pass
    return read(made)
