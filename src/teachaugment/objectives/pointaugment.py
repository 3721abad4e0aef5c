"""The objective of PointAugment, as the paper's appendix has it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from teachaugment.batch import IGNORE
from teachaugment.losses import main_head
from teachaugment.objectives.passes import Passes, Terms

EXPONENT = 30.0  # the largest: above it the first term alone pulls an image back, and nothing overflows


def point_augment(passes: Passes) -> Terms:
    """Minimise L(f_θ(a(x))) + |1 - exp(L(f_θ(a(x))) - ρ L(f_θ(x)))|.

    Image by image; ρ = exp(yᵀ f_θ(a(x))) has no gradient. L is the plain cross-entropy: the non-saturating loss and the
    smoothed labels are for a loss that is maximised, and ρ compares two losses of one kind. The teacher has no say.
    """
    output, unchanged = passes.plain()
    before, _ = each_image(main_head(output), unchanged)
    after, right = each_image(main_head(passes.target), passes.label)
    rho = right.detach().exp()
    exponent = (after - rho * before.detach()).clamp_max(EXPONENT)
    bound = (1 - exponent.exp()).abs()
    return Terms(-(after + bound).mean(), after.mean(), passes.loss(passes.teacher, passes.label))


def each_image(logits: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy and yᵀ f of every image; with a mask as the label, their means over its known pixels."""
    logs = F.log_softmax(logits, 1, dtype=torch.promote_types(logits.dtype, torch.float32))
    if label.is_floating_point():
        return -(label * logs).sum(1), (label * logs.exp()).sum(1)
    known = (label != IGNORE).long() if label.ndim > 1 else torch.ones_like(label)
    right = logs.gather(1, (label * known)[:, None]).flatten(1)  # [B, 1], or [B, pixels]
    weight = known.view(len(label), -1)
    weight = weight / weight.sum(1, keepdim=True).clamp_min(1)
    return -(right * weight).sum(1), (right.exp() * weight).sum(1)
