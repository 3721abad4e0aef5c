"""Augmenters by name: a closed table."""

from __future__ import annotations

from typing import Any

from ..errors import UserError, nearest
from .augmenter import Augmenter
from .dda import DDAAugmenter
from .neural import NeuralAugmenter
from .online import OnlineAugmenter

AUGMENTERS: dict[str, type[Augmenter]] = {kind.name: kind for kind in (NeuralAugmenter, DDAAugmenter, OnlineAugmenter)}


def create(name: str, **settings: Any) -> Augmenter:
    """An untrained augmenter: its kind by name, and what its ``Settings`` take."""
    if name not in AUGMENTERS:
        raise UserError(f"unknown augmenter {name!r}{nearest(name, AUGMENTERS)}")
    return AUGMENTERS[name](**settings)
