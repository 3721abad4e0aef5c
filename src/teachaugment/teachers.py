"""Teachers: what must still recognise an augmented image."""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from teachaugment.errors import UserError


class Teacher(Protocol):
    model: nn.Module

    def update(self, target: nn.Module) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Averaging(Protocol):
    """How an average is taken: what ``Hyperparameters`` and a run's settings have in common about it."""

    @property
    def ema_decay(self) -> float: ...

    @property
    def ema_warmup(self) -> int: ...

    @property
    def teacher_statistics(self) -> str: ...


class EMATeacher:
    """θ̂ ← ξ θ̂ + (1-ξ) θ, an exponential moving average of the target (Sec. 5.2), in eval mode.

    Floating-point buffers (the running statistics of batch norm) are averaged like weights, so that weights and
    statistics are of the same age; other buffers are copied. The decay warms up as (1+t)/(warmup+t), so that the
    average forgets the random initial weights; with a warm-up of 2 it is at first the mean of all weights so far, and
    with 1 there is no warm-up. No tensor is read back to the host.

    batch_statistics: batch norm normalises by the images it is given, as the target's does in training.
    """

    def __init__(
        self, target: nn.Module, decay: float = 0.999, warmup: int = 10, batch_statistics: bool = False
    ) -> None:
        try:
            self.model = copy.deepcopy(target).eval().requires_grad_(False)
        except (RuntimeError, TypeError) as error:
            raise UserError(
                f"the target cannot be copied into an EMA teacher ({error}); pass teacher=<a module>"
            ) from None
        for module in self.model.modules():
            if isinstance(module, _BatchNorm):
                module.train(batch_statistics)
        self.decay, self.warmup = decay, warmup
        self.updates = 0

    @classmethod
    def of(cls, target: nn.Module, h: Averaging) -> EMATeacher:
        """The teacher of a target, as hyperparameters or settings say."""
        return cls(target, h.ema_decay, h.ema_warmup, h.teacher_statistics == "batch")

    def decay_now(self) -> float:
        return min(self.decay, (1 + self.updates) / (self.warmup + self.updates))

    @torch.no_grad()
    def update(self, target: nn.Module) -> None:
        own = [*self.model.parameters(), *self.model.buffers()]
        new = [*target.parameters(), *target.buffers()]
        averaged = [(a, b.detach()) for a, b in zip(own, new, strict=True) if a.is_floating_point()]
        torch._foreach_lerp_([a for a, _ in averaged], [b for _, b in averaged], 1 - self.decay_now())
        for a, b in zip(own, new, strict=True):
            if not a.is_floating_point():
                a.copy_(b)
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = int(state["updates"])


class FrozenTeacher:
    """A pretrained network that does not change: the same as the target, a stronger one, any module."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model.eval().requires_grad_(False)

    def update(self, target: nn.Module) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
