"""Defaults that depend on other settings: on the task, the data, the optimiser, and on weights to begin with.

Each is a line of a table: those of a task are in the table of tasks, those of an optimiser here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teachaugment import data, tasks
from teachaugment.config.sections import DataConfig
from teachaugment.tasks import TASKS, TaskEntry

# From new weights, where the defaults of SGD are the section's own or the task's; and in fine-tuning.
NEW_WEIGHTS: Mapping[str, Mapping[str, Any]] = {"adamw": {"optim.lr": 1e-3, "optim.weight_decay": 0.05}}
FINE_TUNING: Mapping[str, Mapping[str, Any]] = {
    "adamw": {"optim.lr": 5e-4, "optim.weight_decay": 0.05},
    "sgd": {"optim.lr": 0.01, "optim.weight_decay": 1e-4},
}


def other_defaults(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Where what was chosen gives other settings defaults of their own."""
    entry, path = task_of(chosen), str(chosen.get("data.path", DataConfig.path))
    found = {**entry.defaults, **entry.data_defaults.get(path, {})}
    if entry.large_images and data.large(path, chosen.get("data.size"), chosen.get("data.root") is not None):
        found.update(entry.large_images)
    fine_tuned = begins_trained(chosen)
    if fine_tuned:
        found.update(entry.fine_tuning)
    optimizer = chosen.get("optim.name", found.get("optim.name", "sgd"))
    found.update((FINE_TUNING if fine_tuned else NEW_WEIGHTS).get(optimizer, {}))
    names_splits = "{split}" in str(chosen.get("data.images"))  # the pattern says which images are for validation
    if entry.held_out and not names_splits and data.lacks_validation(path, chosen.get("data.root") is not None):
        found["data.val_fraction"] = entry.held_out
    return found


def begins_trained(chosen: Mapping[str, Any]) -> bool:
    """Whether the whole network has weights to begin with: it is fine-tuned."""
    return any(chosen.get(key) for key in task_of(chosen).beginnings)


def task_of(chosen: Mapping[str, Any]) -> TaskEntry:
    name = str(chosen.get("task", tasks.DEFAULT))
    return TASKS[name if name in TASKS else tasks.DEFAULT]
