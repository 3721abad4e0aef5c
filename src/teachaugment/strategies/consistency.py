"""Consistency regularisation (the paper's appendix): min L(f_θ(x)) + D(f_θ(x), f_θ̂(x)), without learned augmentation.

x is what the target sees, after all fixed augmentation, and the teacher sees the same. D has the weight 1 and acts on
probabilities, which is what f is in the paper; no gradient reaches the teacher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.batch import Batch
from teachaugment.strategies.strategy import Setup, Strategy
from teachaugment.teachers import EMATeacher, FrozenTeacher, Teacher

Distance = Callable[[Tensor, Tensor], Tensor]  # (target's logits, teacher's logits) -> scalar


def kld(target: Tensor, teacher: Tensor) -> Tensor:
    """KL(f_θ̂ ‖ f_θ), the direction of distillation, averaged over the images."""
    return F.kl_div(
        target.float().log_softmax(1), teacher.float().log_softmax(1), reduction="batchmean", log_target=True
    )


def mse(target: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of the probabilities, over images and classes."""
    return F.mse_loss(target.float().softmax(1), teacher.float().softmax(1))


DISTANCES: dict[str, Distance] = {"consistency-kld": kld, "consistency-mse": mse}


def consistency(setup: Setup) -> Consistency:
    t = setup.config.teach
    teacher: Teacher = EMATeacher.of(setup.target, t)
    if t.teacher:
        teacher = FrozenTeacher(setup.pretrained(t.teacher))
    return Consistency(setup.target, teacher, DISTANCES[setup.name])


class Consistency(Strategy):
    """Images are left alone; the target's loss has a second term, for which there is a teacher."""

    key = "consistency"
    teacher: Teacher

    def __init__(self, target: nn.Module, teacher: Teacher, distance: Distance) -> None:
        self.target, self.teacher, self.distance = target, teacher, distance

    def loss(self, output: Tensor, seen: Batch) -> Tensor:
        """D of the target's output and the teacher's on the same images."""
        with torch.no_grad():
            expected = self.teacher.model(seen.image)
        return self.distance(output, expected)

    def step(self, batch: Batch) -> None:
        self.teacher.update(self.target)

    def state_dict(self) -> dict[str, Any]:
        return {"teacher": self.teacher.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.teacher.load_state_dict(state["teacher"])
