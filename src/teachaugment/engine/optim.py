"""The target's optimiser: SGD, and a learning rate that is a function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.optim import SGD

POWER = 0.9  # of the schedule ``poly``


def sgd(
    model: nn.Module,
    lr: float,
    momentum: float,
    nesterov: bool,
    weight_decay: float,
    steady: Iterable[nn.Parameter] = (),
    decay_norms: bool = False,
) -> SGD:
    """SGD as in the paper's appendix; biases and normalisation layers (one-dimensional parameters) decay only with
    ``decay_norms``.

    The learning rate of the parameters in ``steady`` stays at its peak: their groups say so.
    """
    kept = set(steady)
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if (p.ndim > 1) is decays and (p in kept) is stays], "weight_decay": rate,
         "steady": stays}
        for stays in (False, True)
        for decays, rate in ((True, weight_decay), (False, weight_decay if decay_norms else 0.0))
    ]  # fmt: skip
    groups = [group for group in groups if group["params"]]
    return SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov)


@torch.no_grad()
def lars(parameters: Iterable[nn.Parameter], trust: float = 1e-3) -> None:
    """Scale each gradient to ``trust`` times the length of its parameter (You et al., 2017), ahead of a step of SGD.

    A parameter that is zero, such as a new bias, keeps its gradient.
    """
    for parameter in parameters:
        if parameter.grad is not None:
            length, slope = parameter.norm(), parameter.grad.norm()
            known = (length > 0) & (slope > 0)
            parameter.grad.mul_(torch.where(known, trust * length / slope.clamp_min(1e-12), 1.0))


def learning_rate(
    step: int,
    total: int,
    *,
    peak: float,
    warmup: int = 0,
    schedule: str = "cosine",
    milestones: Sequence[int] = (),
) -> float:
    """The learning rate of step ``step`` of ``total`` (counted from 0); warm-up and milestones are in steps.

    The warm-up rises linearly and takes at most half of the training, so that a short training still has a descent.
    The cosine is exactly zero in the last step, however many there are (unless there is only one); ``poly`` is
    (1 - step/total)^0.9 as in the paper's appendix, and not quite zero.
    """
    warmup = min(warmup, total // 2)
    if step < warmup:
        return peak * ((step + 1) / warmup)
    if schedule == "constant" or total == 1:
        return peak
    if schedule == "step":
        return peak * 0.1 ** sum(step >= milestone for milestone in milestones)
    if schedule == "poly":
        return peak * (1 - (step - warmup) / (total - warmup)) ** POWER
    return peak * 0.5 * (1 + math.cos(math.pi * (step + 1 - warmup) / (total - warmup)))


def default_milestones(epochs: int) -> list[float]:
    """Epochs at which ``step`` decays when none are given: 90, 180 and 240 of 270, as in the paper's appendix."""
    return [epochs * 90 / 270, epochs * 180 / 270, epochs * 240 / 270]
