"""What a run writes down while it goes on: one JSON object per line, and TensorBoard."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError
from teachaugment.files import write_atomically

if TYPE_CHECKING:
    from torch import Tensor


class Log:
    """One JSON object per line. Everything that depends on the clock is under the key ``time``."""

    def __init__(self, path: Path, epoch: int | None = None):
        """Open for appending. What a run wrote after epoch ``epoch`` goes: it will be written again. None: all.

        A line that cannot be read goes too, and is named; those after it stay.
        """
        try:
            lines = path.read_bytes().splitlines(keepends=True) if path.exists() and epoch is not None else []
            kept = _kept(lines, epoch or 0, path)
            size = sum(map(len, kept))
            if b"".join(lines[: len(kept)]) != b"".join(kept):
                write_atomically(path, lambda file: file.write(b"".join(kept)))
            self.file = path.open("ab", buffering=0)  # a line that cannot be written must not wait for the end
            self.file.truncate(size)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from None

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a line and put it on the disk: a checkpoint must never be ahead of its log."""
        line = json.dumps(record).encode() + b"\n"
        try:
            while line:
                line = line[self.file.write(line) :]
            os.fsync(self.file.fileno())
        except OSError as error:
            raise UserError(f"cannot write {self.file.name}: {error.strerror}") from None

    def close(self) -> None:
        self.file.close()


def _kept(lines: list[bytes], epoch: int, path: Path) -> list[bytes]:
    """The lines from no later than ``epoch``; the end of a run is always written anew."""
    kept, bad = [], []
    for number, line in enumerate(lines, 1):
        event, of = _about(line)
        if event is None:
            bad.append(number)
        elif of <= epoch and event != "end":
            kept.append(line)
    if bad and bad[-1] == len(lines) and not lines[-1].endswith(b"\n"):
        bad.pop()  # the process was killed while it wrote
    if bad:
        few = ", ".join(map(str, bad[:5])) + (", …" if len(bad) > 5 else "")
        warnings.warn(f"{path}: {len(bad)} line(s) cannot be read and are dropped (line {few})", stacklevel=2)
    return kept


def _about(line: bytes) -> tuple[str | None, int]:
    """What a line is about and of which epoch; None of a line that is not whole."""
    try:
        record = json.loads(line)
        event, epoch = record["event"], record.get("epoch", 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, 0
    whole = line.endswith(b"\n") and isinstance(event, str) and isinstance(epoch, int)
    return (event, epoch) if whole else (None, 0)


class Board:
    """TensorBoard, imported only when it is wanted.

    It writes in a thread of its own. What that cannot write is said by the next call, not by a traceback of the thread.
    """

    def __init__(self, path: Path, step: int = 0):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError("TensorBoard is not installed; install it, or set train.tensorboard to false") from None
        self.path, self.excepthook = path, threading.excepthook
        threading.excepthook = self.leave_to_the_next_call
        with self.writing():
            self.writer = SummaryWriter(str(path), purge_step=step + 1 if step else None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}") from None

    def scalars(self, tree: Mapping[str, Any], step: int, prefix: str = "") -> None:
        """All numbers of a nested record, named by their path."""
        for name, value in tree.items():
            if isinstance(value, Mapping):
                self.scalars(value, step, f"{prefix}{name}/")
            elif isinstance(value, (int, float)):
                with self.writing():
                    self.writer.add_scalar(prefix + name, value, step)

    def picture(self, name: str, image: Tensor, step: int) -> None:
        with self.writing():
            self.writer.add_image(name, image, step)

    def leave_to_the_next_call(self, raised: threading.ExceptHookArgs) -> None:
        its_own = type(raised.thread).__module__.startswith("tensorboard.")
        if not (its_own and isinstance(raised.exc_value, OSError)):
            self.excepthook(raised)

    def close(self) -> None:
        try:
            with self.writing():
                self.writer.close()
        finally:
            threading.excepthook = self.excepthook


class Silent:
    """In place of the log, the board and the display of a process that leaves writing to another one."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None
