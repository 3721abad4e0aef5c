"""One process at a time writes into a run's directory.

The lock is the system's, on a file in the directory: it goes when its process ends, however that ends, and processes
that were forked to read images do not have it. Of several processes that train together the main one takes it.
"""

from __future__ import annotations

import errno
import os
import socket
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from teachaugment.errors import UserError

NAME = ".lock"
HELD_BY_ANOTHER = (errno.EACCES, errno.EAGAIN)
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)  # some network file systems have none
# What this process holds: (its number, directory) -> how often.
_held: dict[tuple[int, Path], int] = {}


@contextmanager
def held(path: Path) -> Iterator[None]:
    """The right to write into a directory, which must be there; once more in the same process is the same lock."""
    key = os.getpid(), path.resolve()
    if key in _held:
        _held[key] += 1
        try:
            yield
        finally:
            _held[key] -= 1
        return
    file = _taken(path)
    _held[key] = 1
    try:
        yield
    finally:
        del _held[key]
        if file is not None and os.getpid() == key[0]:
            with suppress(OSError):  # first the name, then the lock: whoever waits for the file finds that it has gone
                (path / NAME).unlink()
            file.close()


def _taken(path: Path) -> BinaryIO | None:
    """The locked file, which must stay open; None where there are no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    name = path / NAME
    while True:
        try:
            file = open(name, "a+b")  # noqa: SIM115 (it stays open as long as the lock is held)
        except OSError as error:
            raise UserError(f"cannot write {name}: {error.strerror}") from None
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(file)
            file.close()
            if error.errno in HELD_BY_ANOTHER:
                raise UserError(f"{path} is being written by {holder}; wait for it, or end it") from None
            if error.errno not in NO_LOCKS:
                raise UserError(f"cannot lock {name}: {error.strerror}") from None
            warnings.warn(f"{path} cannot be locked ({error.strerror}); see that nobody else writes it", stacklevel=2)
            return None
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(name)):
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()} since {time.ctime()}".encode())
                file.flush()
                return file
        file.close()  # its holder has just left, and the file with it


def _holder(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(200).decode("utf-8", "replace").strip() or "another process"
