"""The numbers that TeachAugment is set by. Those of learning are the paper's where it gives one."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from teachaugment.errors import UserError, nearest

CHOICES = {
    "context": ("hidden", "input", "none"),
    "normalizer": ("none", "noise", "all"),
    "color_space": ("normalized", "image"),
    "teacher_statistics": ("averaged", "batch"),
}
# The least and the most of each number. With "above" and "below", the limit itself is not allowed.
LIMITS: dict[str, dict[str, float]] = {
    "group": {"low": 1}, "scale_width": {"low": 0}, "shift_width": {"low": 0}, "affine_width": {"low": 0},
    "noise": {"low": 1}, "dropout": {"low": 0, "below": 1}, "temperature": {"above": 0}, "lr": {"low": 0},
    "weight_decay": {"low": 0}, "n_inner": {"low": 1}, "fraction": {"above": 0, "high": 1}, "at_once": {"low": 1},
    "smoothing": {"low": 0, "below": 1}, "color_weight": {"low": 0}, "n_buffer": {"low": 0},
    "replay_decay": {"above": 0, "high": 1}, "ema_decay": {"low": 0, "high": 1}, "ema_warmup": {"low": 1},
    "seed": {},
}  # fmt: skip
WHOLE = ("group", "noise", "n_inner", "at_once", "n_buffer", "ema_warmup", "seed")
# What version 0.1 did where its runs and files say nothing.
VERSION_0_1 = {"context": "input", "color_space": "image"}
# Settings of the neural augmenter alone, beside the context.
OF_NEURAL = ("scale_width", "shift_width", "affine_width", "noise", "dropout", "temperature", "normalizer")
# Fields that mean something for every augmenter, also for one that learns nothing by gradient.
OF_ALL = ("augmenter", "governed", "ema_decay", "ema_warmup", "teacher_statistics", "seed")

SNAPSHOTS = 20  # that a training keeps for its replay, unless n_buffer says otherwise


def epochs_between_snapshots(epochs: int) -> int:
    """n_buffer by the length of a training: 10 in one of 200 epochs, as in the paper, and 1 in the shortest."""
    return max(1, round(epochs / SNAPSHOTS))


@dataclass(frozen=True)
class Hyperparameters:
    """Every field can also be passed to ``TeachAugment`` by its name.

    The default augments with one operation per image, as strongly as the target can bear (``governed``), and learns
    nothing by gradient. ``augmenter="neural"`` is the paper's algorithm, ``governed=True`` besides bounds its strength.
    Four of the others switch a technique of Sec. 3.3 off: ``non_saturating=False``, ``smoothing=0``,
    ``color_weight=0`` and ``n_buffer=0`` (no replay).
    """

    augmenter: str = "operations"  # or "neural", the paper's, or one that it is compared with: "dda" or "online"
    governed: bool | None = None  # the strength follows what the target masters; None: that of "operations" does
    group: int = 8  # images that share a snapshot from the replay and the units of the noise networks
    context: str = "hidden"  # where a class enters the RGB network: "hidden" or "input"; "none": no context at all

    scale_width: float = 0.8  # λ_c of α: its values lie in 1 ± half of this
    shift_width: float = 1.0  # λ_c of β: in ± half of this; the paper's text has 1.0 and its appendix 0.8
    affine_width: float = 0.5  # λ_g of A: in ± half of this
    noise: int = 128  # numbers in z
    dropout: float = 0.8  # share of the hidden units that a draw leaves out
    temperature: float = 0.05  # τ of the relaxed draws of whether colour and geometry act
    normalizer: str = "noise"  # the networks whose hidden layers are normalised: "none", "noise" or "all"

    lr: float = 1e-3  # of the augmenter
    weight_decay: float = 1e-2  # of the augmenter

    n_inner: int = 5  # updates of the target for each one of the augmenter
    fraction: float = 1.0  # share of a batch on which the augmenter is updated: less is cheaper
    at_once: int | None = None  # most images of one pass in its update: a larger batch goes in parts, gradients add up

    non_saturating: bool = True  # the target's term is the non-saturating loss instead of the cross-entropy
    smoothing: float = 0.1  # ε, of the labels in the target's term
    color_weight: float = 10.0  # λ, of the colour distance
    color_space: str = "normalized"  # the colours it compares: "normalized", as the network sees them, or the "image"'s

    n_buffer: int = 10  # epochs between two snapshots for the replay, a twentieth of the training; 0: no replay
    replay_decay: float = 0.99  # γ: priority of a snapshot against the next newer one

    ema_decay: float = 0.999  # ξ, of the EMA teacher
    ema_warmup: int = 10  # of the EMA teacher: its decay rises as (1 + t) / (warmup + t); 1: no warm-up
    teacher_statistics: str = "averaged"  # of the EMA teacher's batch norm: "averaged" or those of the "batch"

    seed: int = 0  # all randomness of the augmentation follows from it

    def __post_init__(self) -> None:
        for name, values in CHOICES.items():
            if getattr(self, name) not in values:
                raise UserError(f"{name} must be one of {', '.join(values)}, not {getattr(self, name)!r}")
        for name, limits in LIMITS.items():
            if not (name == "at_once" and self.at_once is None):
                check_number(name, getattr(self, name), limits, name in WHOLE)

    @property
    def governs(self) -> bool:
        return self.augmenter == "operations" if self.governed is None else self.governed

    def of_augmenter(self, channels: int, classes: int | None) -> dict[str, Any]:
        """What an augmenter of this kind is made with."""
        common = {"channels": channels, "classes": None if self.context == "none" else classes, "group": self.group}
        if self.augmenter != "neural":
            return common
        own = {name: getattr(self, name) for name in OF_NEURAL}
        return {**common, **own, "context": "hidden" if self.context == "none" else self.context}

    def changed(self, changes: Mapping[str, Any]) -> Hyperparameters:
        """The same with other values; a name that is none of the fields is refused."""
        known = [field.name for field in fields(self)]
        for name in changes:
            if name not in known:
                raise UserError(f"TeachAugment has no argument {name!r}{nearest(name, known)}")
        made = replace(self, **changes)
        if made.augmenter == "operations" and (idle := [name for name in changes if name not in OF_ALL]):
            raise UserError(f'{idle[0]} is a number of the paper\'s algorithm; for that, add augmenter="neural"')
        return made


def check_number(name: str, value: Any, limits: Mapping[str, float], whole: bool) -> None:
    """Refuse a number that the algorithm cannot work with."""
    kind = numbers.Integral if whole else numbers.Real
    fits = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
    low, above, high, below = (limits.get(limit) for limit in ("low", "above", "high", "below"))
    if (
        not fits
        or (low is not None and value < low)
        or (above is not None and value <= above)
        or (high is not None and value > high)
        or (below is not None and value >= below)
    ):
        words = {"low": "of at least", "above": "above", "high": "of at most", "below": "below"}
        must = " and ".join(f"{words[limit]} {bound:g}" for limit, bound in limits.items())
        raise UserError(f"{name} must be a {'whole ' if whole else ''}number {must}".rstrip() + f", not {value!r}")


def check_arguments(channels: int, views: int, classes: int | None) -> None:
    """The same of what TeachAugment is told besides."""
    for name, value in {"channels": channels, "views": views, "num_classes": 1 if classes is None else classes}.items():
        check_number(name, value, {"low": 1}, whole=True)
