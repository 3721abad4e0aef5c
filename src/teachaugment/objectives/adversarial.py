"""The objective of Adversarial AutoAugment, as the paper's ablation uses it."""

from __future__ import annotations

from teachaugment.objectives.passes import Sum

# L(f_θ(a(x))) alone. The teacher's loss is measured and has no say.
adversarial = Sum(target=1.0, teacher=0.0)
