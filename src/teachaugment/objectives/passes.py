"""What an objective is given and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from teachaugment.losses import Loss


@dataclass(frozen=True)
class Passes:
    """The augmented images as both networks see them, and the losses to judge that by.

    target, teacher:  f_θ(a(x)) and f_θ̂(a(x)).
    label:            what the losses compare an output with.
    target_loss:      the target's term of Eq. 1.
    loss:             the teacher's term.
    plain:            f_θ(x) and y of the images as they were: a third pass, made when it is called.
    """

    target: Any
    teacher: Any
    label: Any
    target_loss: Loss
    loss: Loss
    plain: Callable[[], tuple[Any, Any]]


class Terms(NamedTuple):
    """An objective, to be maximised, and the two terms it is made of."""

    objective: Tensor
    target: Tensor
    teacher: Tensor


Objective = Callable[[Passes], Terms]


@dataclass(frozen=True)
class Sum:
    """An objective that judges each network for itself: so many times the target's term, so many times the teacher's.

    The networks' passes then need not be alive together (``judging.py``). An objective that looks at both outputs at
    once is a function of ``Passes``.
    """

    target: float
    teacher: float

    def __call__(self, passes: Passes) -> Terms:
        target = passes.target_loss(passes.target, passes.label)
        return self.terms(target, passes.loss(passes.teacher, passes.label))

    def terms(self, target: Tensor, teacher: Tensor) -> Terms:
        """A term without a share is measured and has no say."""
        said = [share * term for share, term in ((self.target, target), (self.teacher, teacher)) if share]
        return Terms(torch.stack(said).sum(), target, teacher)
