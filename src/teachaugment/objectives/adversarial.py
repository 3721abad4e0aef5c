"""The objective of Adversarial AutoAugment, as the paper's ablation uses it."""

from __future__ import annotations

from teachaugment.objectives.passes import Passes, Terms
from teachaugment.objectives.teachaugment import teach_augment


def adversarial(passes: Passes) -> Terms:
    """L(f_θ(a(x))) alone. The teacher's loss is measured and has no say."""
    terms = teach_augment(passes)
    return terms._replace(objective=terms.target)
