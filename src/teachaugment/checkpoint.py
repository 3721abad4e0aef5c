"""Checkpoints that are either whole or not there, and that cannot run code when they are read.

Written to a temporary file in the same directory, flushed to the disk and renamed. Read with
``torch.load(weights_only=True)`` and never otherwise: they hold tensors, numbers, texts, lists and dictionaries only.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch

from teachaugment.errors import UserError

FORMAT = 1
LAST, BEST = "last.pt", "best.pt"


def write_atomically(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Replace ``path`` by what ``write`` puts into a file; a crash leaves the old content or the new, never a mix."""
    temporary = path.with_name(f".{path.name}.tmp")  # one name: what a killed process left is overwritten
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
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


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a state of plain containers, numbers and tensors."""
    write_atomically(path, lambda file: torch.save({"format": FORMAT, **state}, file))


def load(path: Path, device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a checkpoint; a damaged or foreign file is refused, and nothing in it is executed."""
    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise UserError(f"there is no checkpoint {path}") from None
    except pickle.UnpicklingError:
        raise UserError(f"{path} is not a checkpoint of teachaugment: it holds more than tensors and numbers") from None
    except (RuntimeError, ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise UserError(f"cannot read the checkpoint {path}: it is damaged ({_first_line(error)})") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise UserError(f"{path} is not a checkpoint of this version of teachaugment (format {FORMAT})")
    return state


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:100]
