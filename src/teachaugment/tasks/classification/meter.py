"""Accuracy, calibration and confusion of a classifier."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from teachaugment.batch import Batch

BINS = 15  # of confidence, for the calibration error


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
        output, label = output.detach().float(), labels(batch)
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


def labels(batch: Batch) -> Tensor:
    if batch.label is None:
        raise ValueError("classification needs labels")
    return batch.label
