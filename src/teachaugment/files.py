"""Files that are either whole or not there."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from teachaugment.errors import UserError

UNFINISHED = ".unfinished-"  # how the name of a file begins while it is written


def unfinished(path: Path) -> Path:
    """A name beside ``path`` that no other process has."""
    return path.with_name(f"{UNFINISHED}{secrets.token_hex(8)}")


def remove_unfinished(folder: Path) -> None:
    """What killed processes have left of files; nobody else may be writing in the folder."""
    for pattern in (f"{UNFINISHED}*", ".*.tmp"):  # the second one is version 0.1's
        for path in folder.glob(pattern):
            with suppress(OSError):
                path.unlink()


def write_atomically(path: Path, write: Callable[[BinaryIO], Any], keep: Path | None = None) -> None:
    """Replace ``path`` by what ``write`` puts into a file; a crash leaves the old content or the new, never a mix.

    Written beside it, flushed to the disk and renamed. ``keep`` is the name the old file gets; killed between the two
    renames, a process leaves only that one.
    """
    temporary = unfinished(path)
    try:
        _write(temporary, write)
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(temporary, path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def create_whole(path: Path, content: bytes) -> None:
    """Make a file that is not there yet, all of it at once. Raises OSError, FileExistsError if it is there."""
    temporary = unfinished(path)
    try:
        _write(temporary, lambda file: file.write(content))
        try:
            os.link(temporary, path)  # unlike a rename it never replaces
        except FileExistsError:
            raise
        except OSError:  # a file system without such links
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def _write(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    with open(path, "xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


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
