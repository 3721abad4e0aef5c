"""One class per image: cross-entropy, accuracy and calibration, and the fixed augmentation of the paper's baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from teachaugment.augment import fixed
from teachaugment.augment.mixing import mix
from teachaugment.batch import Batch
from teachaugment.tasks import Augment, Stateless
from teachaugment.tasks.normalize import Normalize

BINS = 15  # of confidence, for the calibration error


class Classification(Stateless):
    """Resized crop, flip, colours; then the strategy; then padded crop, normalise and Cutout; then Mixup or CutMix.

    The padded crop comes after the strategy, so that its black padding never passes through the colour augmentation and
    needs no guess about which black pixels are padding.
    """

    metric = "accuracy"
    shown: tuple[str, ...] = ("loss", "accuracy")
    reference = False

    def __init__(
        self,
        classes: Sequence[str],
        mean: Sequence[float],
        std: Sequence[float],
        *,
        flip: bool = True,
        area: float = 1.0,
        crop: int = 4,
        cutout: int = 0,
        jitter: float = 0.0,
        lighting: float = 0.0,
        mix: str = "none",
        mix_alpha: float = 1.0,
    ):
        self.classes = list(classes)
        self.contexts: int | None = len(self.classes)
        self.normalize = Normalize(mean, std)
        self.flip, self.area, self.crop, self.cutout = flip, area, crop, cutout
        self.jitter, self.lighting = jitter, lighting
        self.mix, self.mix_alpha = mix, mix_alpha

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        batch = batch.replace(mask=None)  # the class is all that is learned here
        if self.area < 1:
            batch = batch.replace(image=fixed.resized_crop(batch.image, self.area, generator))
        if self.flip:
            batch = fixed.flip(batch, generator)
        if self.jitter:
            batch = batch.replace(image=fixed.color_jitter(batch.image, self.jitter, generator))
        if self.lighting:
            batch = batch.replace(image=fixed.lighting(batch.image, self.lighting, generator))
        return batch

    def after(self, batch: Batch, generator: torch.Generator) -> Batch:
        if self.crop:
            batch = fixed.crop(batch, self.crop, generator)
        image = self.normalize(batch.image)
        if self.cutout:  # zero after normalising: the mean colour
            image = fixed.cutout(image, self.cutout, generator)
        return batch.replace(image=image)

    def forward(
        self, model: Callable[[Tensor], Any], batch: Batch, augment: Augment, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Batch]:
        seen = self.after(augment(batch), generator)
        if self.mix != "none":
            seen = mix(self.mix, seen, len(self.classes), self.mix_alpha, generator)
        output = model(seen.image)
        return self.loss(output, seen), output, seen

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(output.float(), _labels(batch))

    def predict(self, model: Callable[[Tensor], Any], image: Tensor) -> Any:
        return model(image)

    def meter(self, device: torch.device) -> ClassificationMeter:
        return ClassificationMeter(len(self.classes), device)


class ClassificationMeter:
    """Confusion matrix, top-5 hits, confidence by bins and summed loss; everything else follows from them."""

    def __init__(self, num_classes: int, device: torch.device):
        self.num_classes = num_classes
        self.confusion = torch.zeros(num_classes * num_classes, dtype=torch.int64, device=device)
        self.total_loss = torch.zeros((), device=device)
        self.top5 = torch.zeros((), dtype=torch.int64, device=device)
        # Hits minus confidence, summed in each bin; in double precision where the device has it.
        self.gap = torch.zeros(BINS, dtype=torch.float64 if device.type != "mps" else torch.float32, device=device)

    def update(self, output: Tensor, batch: Batch, loss: Tensor | None = None) -> None:
        """``loss`` is the batch's mean loss, where it is known already. A mixed image counts as its larger part."""
        output, label = output.detach().float(), _labels(batch)
        if loss is None:
            loss = F.cross_entropy(output, label)
        if label.is_floating_point():
            label = label.argmax(1)
        best = output.topk(min(5, self.num_classes), dim=1).indices
        choice = output.argmax(1)
        cell = label * self.num_classes + choice
        # scatter_add_ rather than bincount: bincount waits for the device.
        self.confusion.scatter_add_(0, cell, torch.ones_like(cell))
        self.total_loss += loss.detach() * len(label)
        self.top5 += (best == label[:, None]).sum()
        confidence = output.softmax(1).amax(1)
        bin = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
        self.gap.scatter_add_(0, bin, (choice == label).to(self.gap.dtype) - confidence.to(self.gap.dtype))

    def compute(self) -> dict[str, Any]:
        """Shares in [0, 1]; rows of the confusion matrix are the true classes.

        The expected calibration error is the mean distance of accuracy from confidence in bins of equal width.
        """
        confusion = self.confusion.view(self.num_classes, self.num_classes).cpu()
        images, right, per_class = int(confusion.sum()), confusion.diag(), confusion.sum(1)
        return {
            "loss": float(self.total_loss) / max(images, 1),
            "accuracy": int(right.sum()) / max(images, 1),
            "top5": int(self.top5) / max(images, 1),
            "calibration_error": float(self.gap.abs().sum()) / max(images, 1),
            "images": images,
            "class_accuracy": [r / n if n else None for r, n in zip(right.tolist(), per_class.tolist(), strict=True)],
            "confusion": confusion.tolist(),
        }


def _labels(batch: Batch) -> Tensor:
    if batch.label is None:
        raise ValueError("classification needs labels")
    return batch.label
