"""Intersection over union and confusion of a segmenter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from teachaugment.batch import IGNORE, Batch
from teachaugment.losses import cross_entropy, highest, main_head


class SegmentationMeter:
    """One confusion matrix over all known pixels, from which everything follows, and the summed loss."""

    def __init__(self, num_classes: int, device: torch.device):
        self.num_classes = num_classes
        # One more cell than the matrix has, for the pixels that do not count.
        self.cells = torch.zeros(num_classes * num_classes + 1, dtype=torch.int64, device=device)
        self.total_loss = torch.zeros((), device=device)
        self.images = torch.zeros((), dtype=torch.int64, device=device)

    @torch.no_grad()
    def update(self, output: Any, batch: Batch, loss: Tensor | None = None) -> None:
        """``loss`` is the batch's mean loss, where it is known already."""
        logits, mask = main_head(output), masks(batch)
        if loss is None:
            loss = cross_entropy(logits, mask)
        cell = torch.where(mask == IGNORE, len(self.cells) - 1, mask * self.num_classes + highest(logits)).flatten()
        # scatter_add_ rather than bincount: bincount waits for the device.
        self.cells.scatter_add_(0, cell, torch.ones_like(cell))
        self.total_loss += loss.detach() * len(batch)
        self.images += len(batch)

    def compute(self) -> dict[str, Any]:
        """Shares in [0, 1]; rows of the confusion matrix are the true classes.

        The mean IoU is that of the classes that occur, be it in the masks or in the predictions.
        """
        confusion = self.cells[:-1].view(self.num_classes, self.num_classes).cpu()
        right = confusion.diag()
        union = confusion.sum(0) + confusion.sum(1) - right
        iou = [r / u if u else None for r, u in zip(right.tolist(), union.tolist(), strict=True)]
        known = [share for share in iou if share is not None]
        return {
            "loss": float(self.total_loss) / max(int(self.images), 1),
            "miou": sum(known) / max(len(known), 1),
            "pixel_accuracy": int(right.sum()) / max(int(confusion.sum()), 1),
            "images": int(self.images),
            "class_iou": iou,
            "confusion": confusion.tolist(),
        }


def masks(batch: Batch) -> Tensor:
    if batch.mask is None:
        raise ValueError("segmentation needs masks")
    return batch.mask
