"""What a run writes down while it goes on: one JSON object per line, and TensorBoard."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


class Log:
    """One JSON object per line. Everything that depends on the clock is under the key ``time``."""

    def __init__(self, path: Path, epoch: int | None = None):
        """Open for appending. What a run wrote after epoch ``epoch`` goes: it will be written again. None: all."""
        size = 0
        if path.exists() and epoch is not None:
            for line in path.read_bytes().splitlines(keepends=True):
                if not _belongs(line, epoch):
                    break
                size += len(line)
        try:
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


def _belongs(line: bytes, epoch: int) -> bool:
    """Whether a line is whole and from no later than ``epoch``; the end of a run is always written anew."""
    try:
        record = json.loads(line)
        return line.endswith(b"\n") and record.get("epoch", 0) <= epoch and record["event"] != "end"
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


class Board:
    """TensorBoard, imported only when it is wanted."""

    def __init__(self, path: Path, step: int = 0):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError("TensorBoard is not installed; install it, or set train.tensorboard to false") from None
        self.writer = SummaryWriter(str(path), purge_step=step + 1 if step else None)

    def scalars(self, tree: Mapping[str, Any], step: int, prefix: str = "") -> None:
        """All numbers of a nested record, named by their path."""
        for name, value in tree.items():
            if isinstance(value, Mapping):
                self.scalars(value, step, f"{prefix}{name}/")
            elif isinstance(value, (int, float)):
                self.writer.add_scalar(prefix + name, value, step)

    def picture(self, name: str, image: Tensor, step: int) -> None:
        self.writer.add_image(name, image, step)

    def close(self) -> None:
        self.writer.close()


class Silent:
    """In place of the log, the board and the display of a process that leaves writing to another one."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None
