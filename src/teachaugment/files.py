"""Files that are either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from teachaugment.errors import UserError


def write_atomically(path: Path, write: Callable[[BinaryIO], Any], keep: Path | None = None) -> None:
    """Replace ``path`` by what ``write`` puts into a file; a crash leaves the old content or the new, never a mix.

    Written beside it, flushed to the disk and renamed. ``keep`` is the name the old file gets; killed between the two
    renames, a process leaves only that one.
    """
    temporary = path.with_name(f".{path.name}.tmp")  # one name: what a killed process left is overwritten
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a rename last through a power cut. Not every system can open a directory; then there is nothing to do."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
