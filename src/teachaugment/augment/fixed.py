"""The augmentations that are not learned: flip, crop and cutout, drawn for each image and applied to all at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from teachaugment.batch import IGNORE, Batch


def flip(batch: Batch, generator: torch.Generator | None = None) -> Batch:
    """Mirror each image left to right with probability 1/2, its mask with it."""
    image, mask = batch.image, batch.mask
    turn = torch.rand(len(image), device=image.device, generator=generator) < 0.5
    if mask is not None:
        mask = torch.where(turn[:, None, None], mask.flip(-1), mask)
    return batch.replace(image=torch.where(turn[:, None, None, None], image.flip(-1), image), mask=mask)


def crop(batch: Batch, padding: int, generator: torch.Generator | None = None) -> Batch:
    """Shift each image by up to ``padding`` pixels. Black comes in at the border, IGNORE in the mask."""
    image, mask = batch.image, batch.mask
    offset = torch.randint(2 * padding + 1, (2, len(image)), device=image.device, generator=generator)
    if mask is not None:
        mask = _windows(mask[:, None], padding, offset, IGNORE)[:, 0]
    return batch.replace(image=_windows(image, padding, offset, 0), mask=mask)


def _windows(image: Tensor, padding: int, offset: Tensor, fill: int) -> Tensor:
    """From each padded image the window of the original size at its offset: one gather over a view of all windows."""
    height, width = image.shape[-2:]
    windows = F.pad(image, (padding,) * 4, value=fill).unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(len(image), device=image.device), :, offset[0], offset[1]]


def cutout(image: Tensor, size: int, generator: torch.Generator | None = None) -> Tensor:
    """Set a square of side ``size`` to zero in each image. Its centre is any pixel, so the border may clip it.

    DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout" (2017). There, as
    here, images are normalised before, so zero is the mean colour.
    """
    n, _, height, width = image.shape
    top = torch.randint(height, (n, 1), device=image.device, generator=generator) - size // 2
    left = torch.randint(width, (n, 1), device=image.device, generator=generator) - size // 2
    y, x = torch.arange(height, device=image.device), torch.arange(width, device=image.device)
    rows, columns = (y >= top) & (y < top + size), (x >= left) & (x < left + size)
    return image.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0)
