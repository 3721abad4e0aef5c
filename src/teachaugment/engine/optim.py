"""The target's optimiser, SGD or AdamW, and a learning rate that is a function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from teachaugment.config.sections import OptimConfig
from teachaugment.models.parts import heads, in_head, layers

POWER = 0.9  # of the schedule ``poly``


def optimizer(settings: OptimConfig, model: nn.Module, steady: Iterable[nn.Parameter] = ()) -> Optimizer:
    """The target's optimiser. Its groups say by which factor their learning rate differs (``scale``), and whether it
    stays at its peak (``steady``).

    Biases and normalisation layers (one-dimensional parameters) decay only with ``decay_norms``, as in the paper's
    appendix; with AdamW neither do those that a network of timm names, such as the positions of a transformer.
    """
    kept, scales = set(steady), rate_factors(settings, model)
    spared: set[str] = getattr(model, "no_weight_decay", set)() if settings.name == "adamw" else set()
    found: dict[tuple[bool, bool, float], list[nn.Parameter]] = {}
    for name, p in model.named_parameters():
        if p.requires_grad:
            found.setdefault((p in kept, p.ndim <= 1 or name in spared, -scales.get(name, 1.0)), []).append(p)
    decay = settings.weight_decay
    groups = [
        {"params": found[stays, one, scale], "weight_decay": 0.0 if one and not settings.decay_norms else decay,
         "steady": stays, "scale": -scale}
        for stays, one, scale in sorted(found)
    ]  # fmt: skip
    if settings.name == "adamw":
        return AdamW(groups, lr=settings.lr, betas=(settings.betas[0], settings.betas[1]))
    return SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.nesterov)


def rate_factors(settings: OptimConfig, model: nn.Module) -> dict[str, float]:
    """By which factors the learning rates of parameters differ: each layer's from the next, the backbone's from the
    head's."""
    if settings.layer_decay == settings.backbone_lr == 1:
        return {}
    number, head = layers(model), heads(model)
    last = max(number.values())
    return {
        name: settings.layer_decay ** (last - layer) * (1.0 if in_head(name, head) else settings.backbone_lr)
        for name, layer in number.items()
    }


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
