"""Augmenters by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from teachaugment.tables import Entry, Table

if TYPE_CHECKING:
    from teachaugment.augment.augmenter import Augmenter

AUGMENTERS = Table(
    "augmenter",
    __name__,
    {
        "operations": Entry("one_operation:OneOperation", "one operation of RandAugment for each image"),
        "neural": Entry("neural:NeuralAugmenter", "the paper's networks: colour, then geometry"),
        "dda": Entry("rivals.dda:DDAAugmenter", "Faster AutoAugment's differentiable operations"),
        "online": Entry("rivals.online:OnlineAugmenter", "OnlineAugment's networks"),
    },
)


def create(name: str, **settings: Any) -> Augmenter:
    """An untrained augmenter: its kind by name, and what its ``Settings`` take."""
    return AUGMENTERS.load(name)(**settings)
