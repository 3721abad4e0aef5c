"""Checkpoints that are whole or not there, that know when they are damaged, and that cannot run code when read.

A file is what ``torch.save`` writes, and behind it a line with the SHA-256 of all before it: one file, so that content
and checksum can never be of two ages. ``torch.load(weights_only=True)`` reads it, and only once the checksum is right:
it holds tensors, numbers, texts, lists and dictionaries only.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from teachaugment.errors import UserError
from teachaugment.files import write_atomically

FORMAT = 2
LAST, PREVIOUS, BEST, DAMAGED = "last.pt", "previous.pt", "best.pt", "damaged.pt"
MARK = b"\nsha256 "  # then 64 hexadecimal digits and a newline, and the file ends
TRAILER = len(MARK) + 64 + 1
CHUNK = 2**20


class Damaged(UserError):
    """A checkpoint that is not what was written."""


class _Hashed:
    """A file that sums up what is written to it."""

    def __init__(self, file: BinaryIO):
        self.file, self.digest = file, hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        self.digest.update(data)
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self.file.flush()


def save(path: Path, state: dict[str, Any], keep: Path | None = None) -> None:
    """Write a state of plain containers, numbers and tensors; ``keep`` is the name that the file before it gets."""

    def write(file: BinaryIO) -> None:
        hashed = _Hashed(file)
        try:
            torch.save({"format": FORMAT, **state}, cast(BinaryIO, hashed))
        except RuntimeError:  # torch's writer has its own words for what the file said
            raise hashed.error or OSError("torch.save failed") from None
        file.write(MARK + hashed.digest.hexdigest().encode() + b"\n")

    write_atomically(path, write, keep)


def load(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a checkpoint; a damaged or foreign file is refused, and nothing in it is executed."""
    try:
        with open(path, "rb") as file:
            _check(file, path)
            state = torch.load(file, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise UserError(f"there is no checkpoint {path}") from None
    except pickle.UnpicklingError:
        raise UserError(f"{path} is not a checkpoint of teachaugment: it holds more than tensors and numbers") from None
    except (RuntimeError, ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise Damaged(f"cannot read the checkpoint {path}: it is damaged ({_reason(error)})") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(f"{path} is not a checkpoint of this version of teachaugment (format {FORMAT})")
    return state


def newest(run: Path, device: torch.device | str = "cpu") -> tuple[dict[str, Any], Path]:
    """The last checkpoint of a run and its file, or those before it, with a word about it, if the last is damaged."""
    last, previous = run / LAST, run / PREVIOUS
    if not last.exists() and previous.exists():  # killed between two renames
        return load(previous, device), previous
    try:
        return load(last, device), last
    except Damaged as damage:
        if not previous.exists():
            raise
        try:
            state = load(previous, device)
        except Damaged as another:
            raise Damaged(f"{damage}, and {another}") from None
        warnings.warn(f"{damage}; taking {previous}, of step {state.get('step')}", stacklevel=2)
        return state, previous


def chosen(run: Path, which: str | None, device: torch.device | str = "cpu") -> tuple[dict[str, Any], Path]:
    """The checkpoint ``last`` or ``best`` of a run and its file; None: the best one where there is one."""
    if which not in (None, "last", "best"):
        raise UserError(f"checkpoint is {which!r}; it must be last or best")
    best = run / BEST
    if which == "best" and not best.exists():
        raise UserError(f"{run} has no {BEST}: without a validation split no epoch is chosen; take the checkpoint last")
    return (load(best, device), best) if which != "last" and best.exists() else newest(run, device)


def exists(run: Path) -> bool:
    return (run / LAST).exists() or (run / PREVIOUS).exists()


def set_aside(run: Path) -> None:
    """Rename a damaged last checkpoint, so that the next one does not push the good one out."""
    if (run / LAST).exists():
        os.replace(run / LAST, run / DAMAGED)


def _check(file: BinaryIO, path: Path) -> None:
    """Compare content and checksum, and go back to the beginning of the file."""
    size = file.seek(0, os.SEEK_END) - TRAILER
    file.seek(max(size, 0))
    trailer = file.read()
    if size < 0 or not trailer.startswith(MARK) or not trailer.endswith(b"\n"):
        raise Damaged(f"{path} is damaged or not a checkpoint of teachaugment: it does not end with a checksum")
    file.seek(0)
    digest = hashlib.sha256()
    while size:
        chunk = file.read(min(CHUNK, size))
        if not chunk:
            break
        digest.update(chunk)
        size -= len(chunk)
    if trailer[len(MARK) : -1] != digest.hexdigest().encode():
        raise Damaged(f"{path} is damaged: its content does not agree with its checksum")
    file.seek(0)


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:100]
