"""Checkpoints that are whole or not there, that know when they are damaged, and that cannot run code when read.

A file is what ``torch.save`` writes, and behind it a line with the SHA-256 of all before it: one file, so that content
and checksum can never be of two ages. ``torch.load(weights_only=True)`` reads it, and only once the checksum is right:
it holds tensors, numbers, texts, lists and dictionaries only. The snapshots of a replay are in files of their own.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch

from teachaugment.engine import snapshots
from teachaugment.errors import UserError
from teachaugment.files import write_atomically

FORMAT = 3
WITH_SNAPSHOTS = 2  # the format of version 0.1, whose checkpoints hold their snapshots
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

    content = snapshots.put_aside({"format": FORMAT, **state}, path.parent / snapshots.FOLDER)

    def write(file: BinaryIO) -> None:
        hashed = _Hashed(file)
        try:
            torch.save(content, cast(BinaryIO, hashed))
        except RuntimeError:  # torch's writer has its own words for what the file said
            raise hashed.error or OSError("torch.save failed") from None
        file.write(MARK + hashed.digest.hexdigest().encode() + b"\n")

    write_atomically(path, write, keep)


def load(path: Path, device: torch.device | str = "cpu", replay: bool = True) -> dict[str, Any]:
    """Read a checkpoint; a damaged or foreign file is refused, and nothing in it is executed.

    Without ``replay`` the snapshots are left where they are: the file may have been taken away from them.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a checkpoint: it is not a regular file")
    try:
        with open(path, "rb") as file:
            _check(file, path)
            state = torch.load(file, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise UserError(f"there is no checkpoint {path}") from None
    except pickle.UnpicklingError:
        raise UserError(f"{path} is not a checkpoint of teachaugment: it holds more than tensors and numbers") from None
    except MemoryError:
        raise UserError(f"cannot read the checkpoint {path}: it does not fit into memory") from None
    except Damaged:
        raise
    except Exception as error:  # torch has many words for what is no checkpoint
        raise Damaged(f"cannot read the checkpoint {path}: it is damaged ({_reason(error)})") from None
    if not isinstance(state, dict) or state.get("format") not in (FORMAT, WITH_SNAPSHOTS):
        raise UserError(f"{path} is not a checkpoint of this version of teachaugment (format {FORMAT})")
    state["format"] = FORMAT
    if not replay:
        return state
    try:
        return snapshots.fetched(state, path.parent / snapshots.FOLDER)
    except snapshots.Missing as error:
        raise Damaged(f"cannot read the checkpoint {path}: {error}") from None


def of_run(state: dict[str, Any], path: Path) -> dict[str, Any]:
    """The same state, if it is one of a run: whole, and everything that a program relies on of its type."""
    about = state.get("data")
    wrong = [key for key, kind in CONTENT.items() if not isinstance(state.get(key), kind)]
    wrong += [f"data.{key}" for key, fits in DATA.items() if not (isinstance(about, dict) and fits(about.get(key)))]
    if wrong:
        raise UserError(f"{path} is not a checkpoint of a run: {wrong[0]} is missing or something else")
    return state


def _all(*kinds: type) -> Callable[[Any], bool]:
    return lambda found: isinstance(found, list) and all(type(one) in kinds for one in found)


CONTENT = {"config": dict, "data": dict, "epoch": int, "step": int, "steps_per_epoch": int, "target": dict}
DATA: dict[str, Callable[[Any], bool]] = {
    "name": lambda found: isinstance(found, str),
    "classes": _all(str),
    "channels": lambda found: type(found) is int and 1 <= found <= 1000,
    "size": lambda found: _all(int)(found) and len(found) == 2 and min(found) >= 1 and max(found) <= 2**16,
    "mean": _all(int, float),
    "std": _all(int, float),
    "train_images": lambda found: type(found) is int,
}


def newest(run: Path, device: torch.device | str = "cpu", replay: bool = True) -> tuple[dict[str, Any], Path]:
    """The last checkpoint of a run and its file, or those before it, with a word about it, if the last is damaged."""
    last, previous = run / LAST, run / PREVIOUS
    if not last.exists() and previous.exists():  # killed between two renames
        return load(previous, device, replay), previous
    try:
        return load(last, device, replay), last
    except Damaged as damage:
        if not previous.exists():
            raise
        try:
            state = load(previous, device, replay)
        except Damaged as another:
            raise Damaged(f"{damage}, and {another}") from None
        warnings.warn(f"{damage}; taking {previous}, of step {state.get('step')}", stacklevel=2)
        return state, previous


def chosen(
    run: Path, which: str | None, device: torch.device | str = "cpu", replay: bool = True
) -> tuple[dict[str, Any], Path]:
    """The checkpoint ``last`` or ``best`` of a run and its file; None: the best one where there is one."""
    if which not in (None, "last", "best"):
        raise UserError(f"checkpoint is {which!r}; it must be last or best")
    best = run / BEST
    if which == "best" and not best.exists():
        raise UserError(f"{run} has no {BEST}: without a validation split no epoch is chosen; take the checkpoint last")
    return (load(best, device, replay), best) if which != "last" and best.exists() else newest(run, device, replay)


def exists(run: Path) -> bool:
    return (run / LAST).exists() or (run / PREVIOUS).exists()


def set_aside(run: Path) -> None:
    """Rename a damaged last checkpoint, so that the next one does not push the good one out."""
    if (run / LAST).exists():
        os.replace(run / LAST, run / DAMAGED)
    snapshots.remove_damaged(run / snapshots.FOLDER)


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
