"""What a task must say so that one training loop serves them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

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


class Task(Protocol):
    """Fixed augmentation, loss and metrics of one kind of learning."""

    metric: str  # the name in a meter's result that says how good a model is; higher is better
    contexts: int | None  # classes of the labels that condition the augmenter; None: nothing does

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

    def loss(self, output: Any, batch: Batch) -> Tensor:
        """Mean loss over a batch."""
        ...

    def predict(self, model: Callable[[Tensor], Any], image: Tensor) -> Any:
        """The model's output for normalised images in an evaluation."""
        ...

    def meter(self, device: torch.device) -> Meter:
        """Fresh metrics."""
        ...
