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

from teachaugment.teachers import Teacher

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


class Consistency:
    """The second term of the target's loss, and the teacher that it needs."""

    def __init__(self, target: nn.Module, teacher: Teacher, distance: Distance) -> None:
        self.target, self.teacher, self.distance = target, teacher, distance

    def loss(self, output: Tensor, image: Tensor) -> Tensor:
        """D of the target's output and the teacher's on the same images."""
        with torch.no_grad():
            expected = self.teacher.model(image)
        return self.distance(output, expected)

    def step(self) -> None:
        """To be called after each update of the target."""
        self.teacher.update(self.target)

    def state_dict(self) -> dict[str, Any]:
        return {"teacher": self.teacher.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.teacher.load_state_dict(state["teacher"])
