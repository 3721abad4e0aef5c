"""From images in [0, 1] to what the networks take."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Normalize:
    """(x - mean) / std for each channel; the constants follow the images to their device."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]):
        self.mean, self.std = (torch.tensor(list(values)).view(-1, 1, 1) for values in (mean, std))

    def __call__(self, image: Tensor) -> Tensor:
        if self.mean.device != image.device:
            self.mean, self.std = self.mean.to(image.device), self.std.to(image.device)
        return (image - self.mean.to(image.dtype)) / self.std.to(image.dtype)
