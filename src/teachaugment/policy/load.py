"""Reading a policy's file: nothing in it is run, and what does not fit is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from teachaugment.augment import create
from teachaugment.augment.augmenter import Augmenter
from teachaugment.errors import UserError
from teachaugment.policy.digest import KEY, digest
from teachaugment.policy.policy import FORMAT, SCALES, VALUES, WITHOUT_CHECKSUM, Policy
from teachaugment.replay import Replay

DEEPEST = 20  # dictionaries and lists within each other that a policy may be told


def load_policy(
    path: str | Path,
    *,
    context: int | str | None = None,
    strength: float = 1.0,
    classes: Sequence[str] | None = None,
    snapshots: bool | None = None,
) -> Policy:
    """Read a policy: a file, or the one in a run directory. No code in it is run, and a damaged one is refused.

    context:    augment every image as this class, by name or number; None: as the class its label says, or, where there
                is no label, as one that is drawn for each image.
    strength:   0 leaves images as they are, 1 is the policy; in between, what is drawn is scaled towards no change,
                as often as learned.
    classes:    the names of the classes that your labels number, if they are not those it was learned on. A class it
                knows by name is augmented as that, for any other one is drawn.
    snapshots:  True: draw from the earlier augmenters too, which the file must have; None: if it has them.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "policy.safetensors"
    header, tensors = _read(path, snapshots is not False)
    try:
        policy = _restore(header, tensors)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (TypeError, KeyError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise UserError(f"{path}: header and weights do not fit ({_first_line(error)})") from None
    if snapshots and policy.replay is None:
        raise UserError(f"{path} has no snapshots; export it with: teachaugment export RUN --snapshots")
    return policy.adjust(context=context, strength=strength, classes=classes)


def _read(path: Path, snapshots: bool) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safe_open(str(path), framework="pt") as file:
            header = json.loads((file.metadata() or {})["teachaugment"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"there is no policy {path}") from None
    except (OSError, SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a policy that teachaugment wrote ({_first_line(error)})") from None
    if not isinstance(header, dict) or header.get("format") not in (FORMAT, WITHOUT_CHECKSUM):
        found = header.get("format") if isinstance(header, dict) else None
        raise UserError(f"{path} has policy format {str(found)[:20]}; this version reads format {FORMAT}")
    # Version 0.1 wrote none. A header that has one, or should have one, must have the right one.
    if (header["format"] == FORMAT or KEY in header) and not _agrees(header, tensors):
        raise UserError(f"{path} is damaged: its content does not agree with its checksum")
    if not snapshots:
        header["snapshots"] = None
        tensors = {name: value for name, value in tensors.items() if not name.startswith("replay.")}
    return header, tensors


def _agrees(header: dict[str, Any], tensors: dict[str, Tensor]) -> bool:
    try:
        return bool(header.get(KEY) == digest(header, tensors))
    except (RecursionError, ValueError):  # deeper than anything that was written
        return False


def _restore(header: dict[str, Any], tensors: dict[str, Tensor]) -> Policy:
    """The policy, after the file's tensors have been found to be those that its header announces."""
    kind, settings = header["kind"], header["augmenter"]
    if not isinstance(kind, str) or not isinstance(settings, dict):
        raise ValueError("the augmenter is no name with settings")
    with torch.device("meta"):  # a header cannot ask for memory
        expected = {name: (value.shape, value.dtype) for name, value in create(kind, **settings).state_dict().items()}
    weights = {name: value for name, value in tensors.items() if not name.startswith("replay.")}
    if {name: (value.shape, value.dtype) for name, value in weights.items()} != expected:
        raise ValueError("the weights have other names, shapes or types")
    if not all(bool(value.isfinite().all()) for value in tensors.values()):
        raise ValueError("a number is not finite")
    with torch.random.fork_rng(devices=[]):  # the initial weights are drawn, only to be replaced
        augmenter = create(kind, **settings)
    augmenter.load_state_dict(weights)
    return Policy(
        augmenter,
        found=header.get("strength", 1.0),  # version 0.1 knew no other
        shares=header.get("shares"),
        replay=_snapshots(augmenter, header["snapshots"], tensors),
        classes=_names(header["classes"]),
        normalization=_normalization(header["normalization"], augmenter.settings.channels),
        provenance=_provenance(header["provenance"]),
    )


def _snapshots(augmenter: Augmenter, about: dict[str, Any] | None, tensors: dict[str, Tensor]) -> Replay | None:
    if about is None:
        return None
    count, decay = int(about["count"]), float(about["decay"])
    parts = {
        start: {n.removeprefix(start): value for n, value in tensors.items() if n.startswith(start)}
        for start in (VALUES, SCALES)
    }
    replay = Replay(augmenter, decay)
    expected = replay.shapes(count)
    found = [{name: (value.shape, value.dtype) for name, value in part.items()} for part in parts.values()]
    if count < 1 or not (0 < decay <= 1) or found != list(expected):
        raise ValueError("the snapshots have other names, shapes or types")
    replay.load_state_dict({"values": parts[VALUES], "scales": parts[SCALES], "count": count})
    return replay


def _names(classes: Any) -> list[str] | None:
    if classes is not None and not (isinstance(classes, list) and all(isinstance(name, str) for name in classes)):
        raise ValueError("the class names are no list of texts")
    return classes


def _normalization(found: Any, channels: int) -> dict[str, list[float]] | None:
    """Mean and deviation of each channel, or None."""
    if found is None:
        return None
    values = [found[name] for name in ("mean", "std")] if isinstance(found, dict) and len(found) == 2 else []
    numbers = [number for part in values if isinstance(part, list) for number in part]
    if not values or len(numbers) != 2 * channels or len(values[0]) != channels or not all(map(_is_number, numbers)):
        raise ValueError("the normalisation is not a mean and a deviation for each channel")
    return dict(found)


def _provenance(found: Any) -> dict[str, Any]:
    """Where a policy comes from: plain data by name."""
    if not isinstance(found, dict) or not _is_plain(found, DEEPEST):
        raise ValueError("the provenance is no plain data by name")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, (dict, list)):
        parts = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(_is_plain(part, depth - 1) for part in parts)
    return value is None or isinstance(value, (str, bool)) or _is_number(value)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
