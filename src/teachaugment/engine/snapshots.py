"""The snapshots of a replay, which never change: each is written once, beside the checkpoints, which name them.

A file is called by the SHA-256 of its content, so that damage shows and what is there need not be written again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from teachaugment.errors import UserError
from teachaugment.files import write_atomically

FOLDER = "snapshots"
PARTS = ("values", "scales")  # of a replay's state, with its count
NAMES = "files"  # what stands in their place


class Missing(UserError):
    """A snapshot that is not there, or not as it was written."""


def put_aside(state: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The state with the names of its snapshots, which are then in the folder."""

    def named(replay: Mapping[str, Any]) -> dict[str, Any]:
        return {"count": replay["count"], NAMES: [_written(replay, i, folder) for i in range(replay["count"])]}

    return _replaced(state, lambda part: part.keys() == {*PARTS, "count"}, named)


def fetched(state: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The state with its snapshots. Raises Missing."""
    return _replaced(state, lambda part: NAMES in part and "count" in part, lambda replay: _stacked(replay, folder))


def remove_damaged(folder: Path) -> None:
    """A file that is not what its name says would never be written again."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if hashlib.sha256(path.read_bytes()).hexdigest() != path.name:
            path.unlink()


def _replaced(
    tree: Mapping[str, Any], wanted: Callable[[Mapping[str, Any]], bool], made: Callable[[Mapping[str, Any]], Any]
) -> dict[str, Any]:
    """The same dictionaries, with others in the place of the wanted ones."""
    return {
        key: part
        if not isinstance(part, dict)
        else made(part)
        if wanted(part)
        else _replaced(part, wanted, made)
        if any(isinstance(inner, dict) for inner in part.values())
        else part
        for key, part in tree.items()
    }


def _written(replay: Mapping[str, Any], number: int, folder: Path) -> str:
    """Write snapshot ``number`` unless it is there; its name."""
    tensors = {
        f"{part}.{name}": stack[number].detach().cpu().contiguous()
        for part in PARTS
        for name, stack in replay[part].items()
    }
    content = save(tensors)
    name = hashlib.sha256(content).hexdigest()
    path = folder / name
    if not path.exists():
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write {folder}: {error.strerror}") from None
        write_atomically(path, lambda file: file.write(content))
    return name


def _stacked(replay: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The replay's state, from the files of its snapshots."""
    found = [_read(folder, name) for name in replay[NAMES]]
    if len(found) != replay["count"]:
        raise Missing(f"{folder} has {len(found)} snapshots, and there are {replay['count']}")
    made: dict[str, Any] = {part: {} for part in PARTS}
    for key in sorted(found[0]) if found else ():  # safetensors has no order of its own
        part, _, name = key.partition(".")
        try:
            made[part][name] = torch.stack([snapshot[key] for snapshot in found])
        except (KeyError, RuntimeError):
            raise Missing(f"the snapshots in {folder} do not fit together") from None
    return {**made, "count": replay["count"]}


def _read(folder: Path, name: Any) -> dict[str, Tensor]:
    path = folder / Path(str(name)).name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Missing(f"cannot read the snapshot {path}: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != name:
        raise Missing(f"the snapshot {path} is damaged: its content does not agree with its checksum")
    try:
        return load(content)
    except SafetensorError:
        raise Missing(f"{path} is not a snapshot") from None
