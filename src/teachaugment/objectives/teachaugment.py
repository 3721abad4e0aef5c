"""The paper's objective, Eq. 1."""

from __future__ import annotations

from teachaugment.objectives.passes import Passes, Terms


def teach_augment(passes: Passes) -> Terms:
    """L(f_θ(a(x))) - L(f_θ̂(a(x))): hard for the target, still recognised by the teacher."""
    target = passes.target_loss(passes.target, passes.label)
    teacher = passes.loss(passes.teacher, passes.label)
    return Terms(target - teacher, target, teacher)
