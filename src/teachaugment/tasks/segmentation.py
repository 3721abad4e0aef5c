"""One class per pixel: cross-entropy and intersection over union, pixels of unknown class left out of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from teachaugment.augment import fixed
from teachaugment.batch import IGNORE, Batch
from teachaugment.losses import cross_entropy, main_head
from teachaugment.tasks import Augment, Stateless
from teachaugment.tasks.normalize import Normalize

AUXILIARY = 0.4  # weight of an auxiliary head's loss, as in PSPNet
STRIDE = 2 / 3  # of a sliding window, as a share of its side, as in PSPNet


class Segmentation(Stateless):
    """Flip, then the strategy, then shift and normalise; random scales and crops are made where images are read.

    The augmenter has no context. Its update looks at the main head alone: the auxiliary one serves the training of the
    target's early layers and is thrown away after it, and the teacher, which is in eval mode, has none.
    """

    metric = "miou"
    shown: tuple[str, ...] = ("loss", "miou")
    reference = False
    contexts: int | None = None

    def __init__(
        self,
        classes: Sequence[str],
        mean: Sequence[float],
        std: Sequence[float],
        *,
        flip: bool = True,
        crop: int = 0,
        window: int | None = None,
    ):
        self.classes = list(classes)
        self.normalize = Normalize(mean, std)
        self.flip, self.crop, self.window = flip, crop, window

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        batch = batch.replace(label=None)  # the mask is all that is learned here
        return fixed.flip(batch, generator) if self.flip else batch

    def forward(
        self, model: Callable[[Tensor], Any], batch: Batch, augment: Augment, generator: torch.Generator
    ) -> tuple[Tensor, Any, Batch]:
        seen = augment(batch)
        if self.crop:
            seen = fixed.crop(seen, self.crop, generator)
        seen = seen.replace(image=self.normalize(seen.image))
        output = model(seen.image)
        return self.loss(output, seen), output, seen

    def loss(self, output: Any, batch: Batch) -> Tensor:
        loss = cross_entropy(output, _masks(batch))
        if isinstance(output, tuple):
            loss = loss + AUXILIARY * cross_entropy(output[1], _masks(batch))
        return loss

    def predict(self, model: Callable[[Tensor], Any], image: Tensor) -> Any:
        return model(image) if self.window is None else sliding(model, image, self.window)

    def meter(self, device: torch.device) -> SegmentationMeter:
        return SegmentationMeter(len(self.classes), device)


def sliding(model: Callable[[Tensor], Any], image: Tensor, window: int) -> Tensor:
    """The model's mean probabilities over overlapping windows of side ``window``, as logarithms.

    The last window of a row or column ends at the border. A side that is shorter than the window is seen whole.
    """
    height, width = image.shape[-2:]
    total = count = None
    for top in _starts(height, window):
        for left in _starts(width, window):
            part = (..., slice(top, top + window), slice(left, left + window))
            seen = main_head(model(image[part])).float().softmax(1)
            if total is None or count is None:
                total = seen.new_zeros(len(image), seen.shape[1], height, width)
                count = seen.new_zeros(height, width)
            total[part] += seen
            count[part] += 1
    assert total is not None and count is not None
    return (total / count).clamp_min(torch.finfo(total.dtype).tiny).log()


def _starts(length: int, window: int) -> list[int]:
    """Where windows begin along one side."""
    stride = max(1, int(STRIDE * window))
    return [*range(0, max(0, length - window), stride), max(0, length - window)]


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
        logits, mask = main_head(output), _masks(batch)
        if loss is None:
            loss = cross_entropy(logits, mask)
        cell = torch.where(mask == IGNORE, len(self.cells) - 1, mask * self.num_classes + logits.argmax(1)).flatten()
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


def _masks(batch: Batch) -> Tensor:
    if batch.mask is None:
        raise ValueError("segmentation needs masks")
    return batch.mask
