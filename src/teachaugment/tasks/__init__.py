"""What a task must say so that one training loop serves them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from teachaugment.batch import Batch

Augment = Callable[[Batch], Batch]  # the strategy: images in [0, 1] to images in [0, 1]


@runtime_checkable
class Scheduled(Protocol):
    """A strategy that changes in the course of a training."""

    def at(self, progress: float) -> None:
        """The share of the training that is done, told at the beginning of each epoch."""
        ...


class Meter(Protocol):
    """Metrics that grow batch by batch on the device; only ``compute`` waits for it.

    Its tensors are sums over the images: those of several processes are added up to the metrics of all images.
    """

    def update(self, output: Any, batch: Batch, loss: Tensor | None = None) -> None: ...

    def compute(self) -> dict[str, Any]: ...


class ReferringMeter(Meter, Protocol):
    """Metrics that compare with images it was shown before."""

    def refer(self, output: Any, batch: Batch) -> None: ...


class Task(Protocol):
    """Fixed augmentation, loss and metrics of one kind of learning."""

    metric: str  # the name in a meter's result that says how good a model is; higher is better
    contexts: int | None  # classes of the labels that condition the augmenter; None: nothing does
    shown: tuple[str, ...]  # the numbers of a training epoch that a person wants to see
    reference: bool  # its metrics compare with the training split, whose outputs a meter is to ``refer`` to first

    @property
    def normalize(self) -> Callable[[Tensor], Tensor]:
        """Images in [0, 1] to what the networks take."""
        ...

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Fixed augmentation ahead of the strategy. The augmenter's own step sees its result too."""
        ...

    def forward(
        self, model: Callable[[Tensor], Any], batch: Batch, augment: Augment, generator: torch.Generator
    ) -> tuple[Tensor, Any, Batch]:
        """Loss, output and what the model saw, for one training step on the result of ``before``.

        The task calls ``augment``, because one task needs one view of a batch and another needs two.
        """
        ...

    def predict(self, model: Callable[[Tensor], Any], image: Tensor) -> Any:
        """The model's output for normalised images in an evaluation."""
        ...

    def meter(self, device: torch.device) -> Meter:
        """Fresh metrics."""
        ...

    def warning(self, metrics: dict[str, float]) -> str | None:
        """One line to say, once, when the numbers of a training epoch show that something is wrong."""
        ...

    def begin(self, target: nn.Module) -> None:
        """Called once, before the first step."""
        ...

    def update(self, target: nn.Module) -> None:
        """Called after each step of the target."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What the task itself has learned, for an exact resume."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Stateless:
    """A task that keeps nothing between two steps."""

    def warning(self, metrics: dict[str, float]) -> str | None:
        return None

    def begin(self, target: nn.Module) -> None:
        pass

    def update(self, target: nn.Module) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass
