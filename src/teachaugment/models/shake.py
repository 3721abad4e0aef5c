"""Random coefficients whose backward pass does not follow the forward one: Shake-Shake and ShakeDrop.

In training every sample has one forward and, independently of it, one backward coefficient. In evaluation the forward
coefficient is its expectation and the gradient is the true one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class _Mixed(torch.autograd.Function):
    """alpha·a + (1-alpha)·b forward, beta and 1-beta backward."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(beta)
        return alpha * a + (1 - alpha) * b

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (beta,) = ctx.saved_tensors
        return beta * gradients[0], (1 - beta) * gradients[0], None, None


class _Scaled(torch.autograd.Function):
    """alpha·x forward, beta backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(beta)
        return alpha * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (beta,) = ctx.saved_tensors
        return beta * gradients[0], None, None


def per_sample(x: Tensor) -> Tensor:
    """A number in [0, 1) for each sample of ``x``, in its dtype, shaped to be multiplied with it."""
    return torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device, dtype=x.dtype)


def shake_shake(a: Tensor, b: Tensor, training: bool) -> Tensor:
    """Two branches mixed at random (Gastaldi, 2017, "Shake-Shake-Image"); their mean in evaluation."""
    if not training:
        return (a + b) / 2
    return _Mixed.apply(a, b, per_sample(a), per_sample(a))


class ShakeDrop(nn.Module):
    """A branch that is kept with probability 1 - ``drop`` and otherwise scaled at random (Yamada et al., 2018).

    A dropped sample is multiplied by α in [-1, 1) forward and its gradient by β in [0, 1) backward, so the expectation
    of the forward coefficient is 1 - ``drop``.
    """

    def __init__(self, drop: float):
        super().__init__()
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return (1 - self.drop) * x
        dropped = per_sample(x) < self.drop
        one = x.new_ones(())
        alpha = torch.where(dropped, 2 * per_sample(x) - 1, one)
        return _Scaled.apply(x, alpha, torch.where(dropped, per_sample(x), one))

    def extra_repr(self) -> str:
        return f"drop={self.drop:.3f}"
