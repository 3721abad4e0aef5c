"""The paper's objective, Eq. 1."""

from __future__ import annotations

from teachaugment.objectives.passes import Sum

# L(f_θ(a(x))) - L(f_θ̂(a(x))): hard for the target, still recognised by the teacher.
teach_augment = Sum(target=1.0, teacher=-1.0)
