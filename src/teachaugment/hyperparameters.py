"""The numbers that TeachAugment is set by. The defaults are the paper's where it gives one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from teachaugment.errors import UserError, nearest


@dataclass(frozen=True)
class Hyperparameters:
    """Every field can also be passed to ``TeachAugment`` by its name.

    Four of them switch a technique of Sec. 3.3 off: ``non_saturating=False``, ``smoothing=0``, ``color_weight=0`` and
    ``n_buffer=0`` (no replay).
    """

    augmenter: str = "neural"  # the paper's, or one it is compared with: "dda" or "online"
    group: int = 8  # images that share a snapshot from the replay
    lr: float = 1e-3  # of the augmenter
    weight_decay: float = 1e-2  # of the augmenter

    n_inner: int = 5  # updates of the target for each one of the augmenter
    fraction: float = 1.0  # share of a batch on which the augmenter is updated: less is cheaper
    at_once: int | None = None  # most images of one pass in its update: a larger batch goes in parts, gradients add up

    non_saturating: bool = True  # the target's term is the non-saturating loss instead of the cross-entropy
    smoothing: float = 0.1  # ε, of the labels in the target's term
    color_weight: float = 10.0  # λ, of the colour distance

    n_buffer: int = 10  # epochs between two snapshots for the replay; 0: no replay
    replay_decay: float = 0.99  # γ: priority of a snapshot against the next newer one

    ema_decay: float = 0.999  # ξ, of the EMA teacher
    ema_warmup: int = 10  # of the EMA teacher: its decay rises as (1 + t) / (warmup + t); smaller is slower to follow

    seed: int = 0  # all randomness of the augmentation follows from it

    def changed(self, changes: Mapping[str, Any]) -> Hyperparameters:
        """The same with other values; a name that is none of the fields is refused."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise UserError(f"TeachAugment has no argument {name!r}{nearest(name, known)}")
        return replace(self, **changes)
