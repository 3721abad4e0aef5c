"""Experiments by name: a closed table of presets, each only what differs from the defaults, with its price on it.

Nothing here imports torch. The settings are those of the paper's appendix (Tab. 8) and of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from teachaugment.config.resolve import Layer, default
from teachaugment.errors import UserError, nearest
from teachaugment.presets import classification, detection, segmentation, self_supervised


@dataclass(frozen=True)
class Preset:
    """One experiment."""

    name: str
    title: str  # what is trained on what
    settings: Mapping[str, Any]  # "optim.lr" -> value
    images: int  # in the training split
    paper: str | None = None  # the paper's number, and where it stands
    gpus: int = 1  # that the paper used; batch size and learning rate are those of one
    note: str = ""

    @property
    def command(self) -> str:
        return f"teachaugment train {self.name}"

    def value(self, key: str) -> Any:
        return self.settings.get(key, default(key, self.settings))

    @property
    def cost(self) -> str:
        """In passes, which is all that can be said without a device: time is that of a step times their number."""
        epochs, batch = self.value("train.epochs"), self.value("train.batch_size")
        steps = epochs * (self.images // (batch * self.value("train.accumulate")))
        return f"{epochs:,} epochs of {self.images:,} images, {steps:,} steps"

    @property
    def description(self) -> str:
        lines = [self.title, self.command, f"Paper: {self.paper}" if self.paper else "Not in the paper", self.cost]
        if self.gpus > 1:
            lr, size = self.value("optim.lr"), self.value("train.batch_size")
            lines.append(
                f"Learning rate and batch size are per GPU; the paper used {self.gpus}: torchrun --nproc-per-node "
                f"{self.gpus} -m {self.command} --lr {self.gpus * lr:g} (batch {self.gpus * size}), or on one device "
                f"--accumulate {self.gpus} --lr {self.gpus * lr:g}"
            )
        return ". ".join([*lines, *([self.note] if self.note else [])]) + "."


STRATEGY = {"augment.strategy": "teachaugment"}  # the paper's, which is not the default
PRESETS: dict[str, Preset] = {
    name: Preset(name, **{**about, "settings": {**STRATEGY, **about["settings"]}})
    for room in (classification, segmentation, detection, self_supervised)
    for name, about in room.PRESETS.items()
}


def layer(name: str) -> Layer:
    """The preset's settings, weaker than a file's and than flags."""
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}{nearest(name, PRESETS)}")
    values = PRESETS[name].settings
    return Layer(values, {key: f"preset {name}: {key}" for key in values})
