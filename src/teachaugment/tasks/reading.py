"""How a task's data are read, from the settings."""

from __future__ import annotations

from typing import Any

from teachaugment.config.sections import Config
from teachaugment.data.decode import BICUBIC
from teachaugment.data.reading import Reading


def reading(config: Config, **own: Any) -> Reading:
    """What all tasks read alike, and what is the task's own."""
    names = ("root", "size", "centre", "per_class", "val_fraction", "in_memory", "bad_images", "fit", "split_seed")
    how = {name: getattr(config.data, name) for name in names}
    return Reading(seed=config.seed, interpolation=config.data.interpolation or BICUBIC, **how, **own)
