"""Half precision for both updates: autocast around the networks' passes and nothing else, and scaled gradients in fp16.

The augmentation, the losses and all weights stay in 32 bits. The gradients of fp16 are small enough to vanish, so the
target's loss is scaled by a GradScaler, and the frozen passes of the augmenter's update (``LowPrecision``) scale what
comes in at the output and unscale what leaves at the image.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment.errors import UserError

DTYPES = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}
SCALE = 4096.0  # of the gradients in the augmenter's frozen passes; constant, so that no step waits for the device


class _ScaledGradient(torch.autograd.Function):
    """The identity forward; backward a factor, and zero for a gradient that overflowed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        scaled = gradients[0] * ctx.factor
        return torch.where(scaled.isfinite(), scaled, 0), None


class LowPrecision(nn.Module):
    """A network that computes in half precision; images and outputs, one or several, are in 32 bits."""

    def __init__(self, network: nn.Module, dtype: torch.dtype):
        super().__init__()
        self.network, self.dtype = network, dtype
        self.scale = SCALE if dtype == torch.float16 else 1.0

    def forward(self, image: Tensor, *more: Tensor) -> Any:
        if self.scale != 1:
            image, more = self._enter(image), tuple(map(self._enter, more))
        with torch.autocast(image.device.type, self.dtype):
            output = self.network(image, *more)
        if not isinstance(output, tuple):
            return self._leave(output)
        parts = map(self._leave, output)
        return type(output)(*parts) if hasattr(output, "_fields") else tuple(parts)

    def _enter(self, given: Tensor) -> Tensor:
        return _ScaledGradient.apply(given, 1 / self.scale)

    def _leave(self, output: Tensor) -> Tensor:
        output = output.float()
        return output if self.scale == 1 else _ScaledGradient.apply(output, self.scale)


class Precision:
    """The target's update in the precision ``name``: off, bf16 or fp16."""

    def __init__(self, name: str, device: torch.device):
        self.dtype, self.device = DTYPES[name], device
        self.scaler = torch.amp.GradScaler(device.type, enabled=name == "fp16")
        if self.dtype is not None:
            try:
                with self.autocast():
                    torch.ones(1, 1, device=device) @ torch.ones(1, 1, device=device)
            except (RuntimeError, ValueError) as error:
                reason = str(error).strip().splitlines()[0]
                raise UserError(f"--amp {name} cannot be used on {device}: {reason}") from None

    def autocast(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.dtype is None else torch.autocast(self.device.type, self.dtype)

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network as the augmenter's update calls it. Weights are shared, and autocast is inside."""
        return network if self.dtype is None else LowPrecision(network, self.dtype)

    def call(self, network: Callable[..., Any]) -> Callable[..., Any]:
        """The network as the target's update and the evaluation call it."""
        if self.dtype is None:
            return network

        def forward(*inputs: Any) -> Any:
            with self.autocast():
                return network(*inputs)

        return forward

    @property
    def scales(self) -> bool:
        """Whether gradients are scaled, and one that overflows is the scaler's business."""
        return self.scaler.is_enabled()

    def backward(self, loss: Tensor) -> None:
        self.scaler.scale(loss).backward()

    def step(self, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], clip: float) -> None:
        """One step of the optimiser; in fp16 it is left out when a gradient overflowed, and the scale goes down."""
        if clip:
            self.scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(parameters, clip)
        self.scaler.step(optimizer)
        self.scaler.update()

    def state_dict(self) -> dict[str, Any]:
        return self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:  # empty where nothing was scaled
            self.scaler.load_state_dict(state)
