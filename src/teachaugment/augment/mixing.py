"""Mixup and CutMix: two images of a batch and their labels in one, on top of any strategy.

Every image is mixed with the one before it, in one proportion for the whole batch, as is usual. Everything stays on the
device.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from teachaugment.batch import Batch


def mixup(batch: Batch, classes: int, share: Tensor, generator: torch.Generator | None = None) -> Batch:
    """λ x + (1-λ) x′ (Zhang et al., 2018)."""
    kept = share.to(batch.image.dtype)
    image = kept * batch.image + (1 - kept) * batch.image.roll(1, 0)
    return batch.replace(image=image, label=mixed_labels(batch, classes, share))


def cutmix(batch: Batch, classes: int, share: Tensor, generator: torch.Generator | None = None) -> Batch:
    """A box of x′ in x, with 1-λ of its area where the border does not clip it (Yun et al., 2019).

    λ of the labels is what is left of x.
    """
    height, width = batch.image.shape[-2:]
    half = (1 - share).clamp_min(0).sqrt() / 2

    def inside(length: int) -> Tensor:
        centre = torch.randint(length, (), device=share.device, generator=generator)
        reach = (half * length).floor()
        position = torch.arange(length, device=share.device)
        return (position >= centre - reach) & (position < centre + reach)

    rows, columns = inside(height), inside(width)
    image = torch.where(rows[:, None] & columns, batch.image.roll(1, 0), batch.image)
    kept = 1 - rows.sum() * columns.sum() / (height * width)
    return batch.replace(image=image, label=mixed_labels(batch, classes, kept))


def mixed_labels(batch: Batch, classes: int, share: Tensor) -> Tensor:
    """[B, K], the shares of the classes."""
    if batch.label is None:
        raise ValueError("mixing needs labels")
    label = batch.label if batch.label.is_floating_point() else F.one_hot(batch.label, classes)
    return share.float() * label + (1 - share.float()) * label.roll(1, 0)


MIXES: dict[str, Callable[..., Batch]] = {"mixup": mixup, "cutmix": cutmix}


def mix_images(name: str, batch: Batch, classes: int, alpha: float, generator: torch.Generator | None = None) -> Batch:
    """The batch mixed in a proportion λ drawn from Beta(α, α)."""
    two = torch.full((2,), alpha, device=batch.image.device)
    share = torch._sample_dirichlet(two, generator=generator)[0]  # torch.distributions.Beta takes no generator
    return MIXES[name](batch, classes, share, generator)
