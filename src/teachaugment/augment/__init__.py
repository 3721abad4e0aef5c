"""Augmenters by name: a closed table."""

from __future__ import annotations

from typing import Any

from teachaugment.augment.augmenter import Augmenter
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.augment.rivals.dda import DDAAugmenter
from teachaugment.augment.rivals.online import OnlineAugmenter
from teachaugment.errors import UserError, nearest

AUGMENTERS: dict[str, type[Augmenter]] = {kind.name: kind for kind in (NeuralAugmenter, DDAAugmenter, OnlineAugmenter)}


def create(name: str, **settings: Any) -> Augmenter:
    """An untrained augmenter: its kind by name, and what its ``Settings`` take."""
    if name not in AUGMENTERS:
        raise UserError(f"unknown augmenter {name!r}{nearest(name, AUGMENTERS)}")
    return AUGMENTERS[name](**settings)
