"""What the augmenter maximises, as plain functions of the two networks' outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from .losses import non_saturating

Loss = Callable[[Any, Any], Tensor]  # (output, label) -> scalar


class Terms(NamedTuple):
    """An objective and the two terms it is made of."""

    objective: Tensor
    target: Tensor
    teacher: Tensor


Objective = Callable[
    [Any, Any, Any, Loss, Loss], Terms
]  # (target's output, teacher's output, label, target_loss, loss)


def teach_augment(
    target_output: Any,
    teacher_output: Any,
    label: Any,
    target_loss: Loss = non_saturating,
    loss: Loss = F.cross_entropy,
) -> Terms:
    """Eq. 1: L(f_θ(a(x))) - L(f_θ̂(a(x))). Hard for the target, still recognised by the teacher."""
    target, teacher = target_loss(target_output, label), loss(teacher_output, label)
    return Terms(target - teacher, target, teacher)


def adversarial(
    target_output: Any,
    teacher_output: Any,
    label: Any,
    target_loss: Loss = non_saturating,
    loss: Loss = F.cross_entropy,
) -> Terms:
    """Adversarial AutoAugment: L(f_θ(a(x))) alone. The teacher's loss is measured and has no say."""
    terms = teach_augment(target_output, teacher_output, label, target_loss, loss)
    return terms._replace(objective=terms.target)
