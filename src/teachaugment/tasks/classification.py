"""One class per image: cross-entropy, top-1 accuracy, and the fixed augmentation of the paper's baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from teachaugment.augment import fixed
from teachaugment.batch import Batch
from teachaugment.tasks import Augment


class Classification:
    """Flip, then the strategy, then crop, normalise and Cutout.

    The crop comes after the strategy, so that its black padding never passes through the colour augmentation and
    needs no guess about which black pixels are padding.
    """

    metric = "accuracy"

    def __init__(
        self,
        classes: Sequence[str],
        mean: Sequence[float],
        std: Sequence[float],
        *,
        flip: bool = True,
        crop: int = 4,
        cutout: int = 0,
    ):
        self.classes = list(classes)
        self.mean = torch.tensor(list(mean)).view(-1, 1, 1)
        self.std = torch.tensor(list(std)).view(-1, 1, 1)
        self.flip, self.crop, self.cutout = flip, crop, cutout

    def normalize(self, image: Tensor) -> Tensor:
        if self.mean.device != image.device:
            self.mean, self.std = self.mean.to(image.device), self.std.to(image.device)
        return (image - self.mean.to(image.dtype)) / self.std.to(image.dtype)

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        batch = batch.replace(mask=None)  # the class is all that is learned here
        return fixed.flip(batch, generator) if self.flip else batch

    def after(self, batch: Batch, generator: torch.Generator) -> Batch:
        if self.crop:
            batch = fixed.crop(batch, self.crop, generator)
        image = self.normalize(batch.image)
        if self.cutout:  # zero after normalising: the mean colour
            image = fixed.cutout(image, self.cutout, generator)
        return batch.replace(image=image)

    def forward(
        self, model: nn.Module, batch: Batch, augment: Augment, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Batch]:
        seen = self.after(augment(batch), generator)
        output = model(seen.image)
        return self.loss(output, seen), output, seen

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(output.float(), _labels(batch))

    def meter(self, device: torch.device) -> ClassificationMeter:
        return ClassificationMeter(len(self.classes), device)


class ClassificationMeter:
    """Confusion matrix and summed loss; everything else follows from them."""

    def __init__(self, num_classes: int, device: torch.device):
        self.num_classes = num_classes
        self.confusion = torch.zeros(num_classes * num_classes, dtype=torch.int64, device=device)
        self.total_loss = torch.zeros((), device=device)

    def update(self, output: Tensor, batch: Batch, loss: Tensor | None = None) -> None:
        """``loss`` is the batch's mean loss, where it is known already."""
        output, label = output.detach(), _labels(batch)
        if loss is None:
            loss = F.cross_entropy(output.float(), label)
        cell = label * self.num_classes + output.argmax(1)
        # scatter_add_ rather than bincount: bincount waits for the device.
        self.confusion.scatter_add_(0, cell, torch.ones_like(cell))
        self.total_loss += loss.detach() * len(label)

    def compute(self) -> dict[str, Any]:
        """Accuracy in [0, 1]; rows of the confusion matrix are the true classes."""
        confusion = self.confusion.view(self.num_classes, self.num_classes).cpu()
        images, right, per_class = int(confusion.sum()), confusion.diag(), confusion.sum(1)
        return {
            "loss": float(self.total_loss) / max(images, 1),
            "accuracy": int(right.sum()) / max(images, 1),
            "images": images,
            "class_accuracy": [r / n if n else None for r, n in zip(right.tolist(), per_class.tolist(), strict=True)],
            "confusion": confusion.tolist(),
        }


def _labels(batch: Batch) -> Tensor:
    if batch.label is None:
        raise ValueError("classification needs labels")
    return batch.label
