"""What the augmenter maximises, as plain functions of the two networks' outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from teachaugment.batch import IGNORE
from teachaugment.losses import cross_entropy, main_head, non_saturating

Loss = Callable[[Any, Any], Tensor]  # (output, label) -> scalar
Plain = Callable[[], tuple[Any, Any]]  # f_θ(x) and y of the images as they were; computed when called


class Terms(NamedTuple):
    """An objective and the two terms it is made of."""

    objective: Tensor
    target: Tensor
    teacher: Tensor


# (target's output, teacher's output, label, target_loss, loss, plain)
Objective = Callable[[Any, Any, Any, Loss, Loss, Plain], Terms]


def teach_augment(
    target_output: Any,
    teacher_output: Any,
    label: Any,
    target_loss: Loss = non_saturating,
    loss: Loss = cross_entropy,
    plain: Plain | None = None,
) -> Terms:
    """Eq. 1: L(f_θ(a(x))) - L(f_θ̂(a(x))). Hard for the target, still recognised by the teacher."""
    target, teacher = target_loss(target_output, label), loss(teacher_output, label)
    return Terms(target - teacher, target, teacher)


def adversarial(
    target_output: Any,
    teacher_output: Any,
    label: Any,
    target_loss: Loss = non_saturating,
    loss: Loss = cross_entropy,
    plain: Plain | None = None,
) -> Terms:
    """Adversarial AutoAugment: L(f_θ(a(x))) alone. The teacher's loss is measured and has no say."""
    terms = teach_augment(target_output, teacher_output, label, target_loss, loss)
    return terms._replace(objective=terms.target)


EXPONENT = 30.0  # the largest in PointAugment: above it the first term alone pulls an image back, and nothing overflows


def point_augment(
    target_output: Any,
    teacher_output: Any,
    label: Tensor,
    target_loss: Loss = non_saturating,
    loss: Loss = cross_entropy,
    plain: Plain | None = None,
) -> Terms:
    """PointAugment, as the appendix has it: minimise L(f_θ(a(x))) + |1 - exp(L(f_θ(a(x))) - ρ L(f_θ(x)))|.

    Image by image; ρ = exp(yᵀ f_θ(a(x))) has no gradient. L is the plain cross-entropy: the non-saturating loss and the
    smoothed labels are for a loss that is maximised, and ρ compares two losses of one kind. The teacher has no say.
    """
    if plain is None:
        raise ValueError("PointAugment compares with the images as they were: pass plain")
    output, unchanged = plain()
    before, _ = each_image(main_head(output), unchanged)
    after, right = each_image(main_head(target_output), label)
    rho = right.detach().exp()
    exponent = (after - rho * before.detach()).clamp_max(EXPONENT)
    bound = (1 - exponent.exp()).abs()
    return Terms(-(after + bound).mean(), after.mean(), loss(teacher_output, label))


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
