"""Evaluation of large images in overlapping windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from teachaugment.losses import main_head

STRIDE = 2 / 3  # of a sliding window, as a share of its side, as in PSPNet


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
