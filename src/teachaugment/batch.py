"""What flows through one step: a batch of images and what is known about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from .errors import UserError

IGNORE = 255  # mask value of a pixel about which nothing is known


@dataclass(frozen=True)
class Batch:
    """Images in [0, 1], on one device, with whatever goes with them."""

    image: Tensor  # [B, C, H, W], float
    label: Tensor | None = None  # [B] int64, or [B, K] float for soft and multi-label targets
    mask: Tensor | None = None  # [B, H, W] int64, IGNORE where nothing is known
    index: Tensor | None = None  # [B] int64, position in the split

    def __len__(self) -> int:
        return len(self.image)

    def replace(self, **changes: Any) -> Batch:
        return replace(self, **changes)

    def to(self, device: torch.device | str) -> Batch:
        return self._map(lambda t: t.to(device, non_blocking=True))

    def __getitem__(self, rows: slice | Tensor) -> Batch:
        """The same fields for some of the images."""
        return self._map(lambda t: t[rows])

    def split(self, size: int) -> list[Batch]:
        """Parts of at most ``size`` images."""
        return [self] if len(self) <= size else [self[i : i + size] for i in range(0, len(self), size)]

    def _map(self, function: Callable[[Tensor], Tensor]) -> Batch:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return self.replace(**{name: function(value) for name, value in values.items() if value is not None})


def check(batch: Batch, channels: int, classes: int | None) -> None:
    """Refuse what would go wrong silently later. Reads numbers back from the device: for a first batch only."""
    image, label = batch.image, batch.label
    if image.ndim != 4 or image.shape[1] != channels:
        raise UserError(f"images must be [batch, {channels}, height, width], not {list(image.shape)}; see channels=")
    if not image.is_floating_point():
        raise UserError(f"images must be float in [0, 1], not {image.dtype}; divide by 255 first")
    low, high = (float(value) for value in image.detach().aminmax())
    if not (low >= 0 and high <= 1):
        raise UserError(
            f"images must lie in [0, 1], these reach from {low:.3g} to {high:.3g}; "
            "augment before normalising, and pass the normalisation as normalize="
        )
    if classes is not None and label is not None and not label.is_floating_point():
        low, high = (float(value) for value in label.aminmax())
        if not (low >= 0 and high < classes):
            raise UserError(
                f"labels must lie in 0 … {classes - 1}, these reach from {low:g} to {high:g}; see num_classes="
            )
