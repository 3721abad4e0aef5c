"""The policies that a run leaves: where they come from, and their files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teachaugment.engine import directory
from teachaugment.errors import UserError
from teachaugment.files import write_atomically
from teachaugment.policy.card import card
from teachaugment.policy.policy import Policy
from teachaugment.view import saved_views


def about(state: Mapping[str, Any], measured: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a policy is told about the run it comes from, by the run's state."""
    config, data = state["config"], state["data"]
    return {
        "classes": data["classes"],
        "normalization": {"mean": data["mean"], "std": data["std"]},
        "provenance": {
            "task": config["task"],
            "data": data["name"],
            "fingerprint": data["fingerprint"],
            "images": data["train_images"],
            "size": list(data["size"]),
            "model": config["model"]["name"],
            "epochs": state["epoch"],
            "seed": config["seed"],
            "measured": measured,
        },
    }


def in_checkpoint(
    state: Mapping[str, Any], measured: dict[str, Any] | None = None, snapshots: bool = False
) -> list[Policy]:
    """What a run had learned when its checkpoint was written: a policy for each view."""
    config = state["config"]
    try:
        if state["teach"] is None:
            raise UserError(f"this run learned no augmentation: its strategy was {config['augment']['strategy']}")
        views = saved_views(state["teach"], config["teach"]["replay_decay"])
        governor, arms = state["teach"].get("governor", {}), views[0].augmenter.arms
        known = {
            "found": governor.get("strength", 1.0),
            "shares": dict(zip(arms, governor.get("shares") or [1.0] * len(arms), strict=True)),
            **about(state, measured),
        }
        return [view.policy(snapshots, **known) for view in views]
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"the checkpoint has no augmenter that can be read: {reason}") from None


def measured_as(split: str, metric: str, results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What was measured with the target and the teacher on a split, for the policy's provenance."""
    return {"split": split, "metric": metric, **{name: float(result[metric]) for name, result in results.items()}}


def measured_in(path: Path, which: str, state: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same from a finished run's ``metrics.json``, if it is of this state."""
    try:
        metrics = json.loads((path / directory.METRICS).read_text(encoding="utf-8"))
        found = metrics["best"] if which == "best" else metrics
        if found["epoch"] == state["epoch"]:
            return measured_as("test", metrics.get("metric", "accuracy"), found["test"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def write(policies: Sequence[Policy], path: Path) -> list[tuple[Path, Path]]:
    """The policies, the second one as NAME-2 and so on, each with its model card beside it; returns all paths."""
    if path.suffix.lower() == ".md":
        raise UserError(f"{path} ends as the policy's card does, which would replace it; name it such as p.safetensors")
    written = []
    for number, policy in enumerate(policies, 1):
        file = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        beside, text = file.with_suffix(".md"), card(policy, file.name).encode()
        policy.save(file)
        write_atomically(beside, lambda opened, text=text: opened.write(text))  # type: ignore[misc]
        written.append((file, beside))
    return written
