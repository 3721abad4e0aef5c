"""Measures of mastery, for the governor: how much of what it is shown the target gets right.

Each takes an output and what is true, as a loss does, and returns counts [right or seen, classes].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment.batch import IGNORE
from teachaugment.losses import Loss, main_head, smoothing_of

Mastery = Callable[[Any, Any], Tensor]


def recall(output: Any, truth: Tensor) -> Tensor:
    """Of class scores: how many images, or pixels of masks, are recognised in each class."""
    scores = main_head(output)
    found, label = scores.argmax(1).flatten(), (truth.argmax(1) if truth.is_floating_point() else truth).flatten()
    known = label != IGNORE if truth.ndim > 2 else torch.ones_like(label, dtype=torch.bool)
    label = label.masked_fill(~known, 0)
    counted = torch.stack([(found == label) & known, known]).to(torch.float32)
    return counted.new_zeros(2, scores.shape[1]).scatter_add(1, label.expand(2, -1), counted)


def likelihood(loss: Loss) -> Mastery:
    """Of any other loss: e to the power of minus it, which is 1 where there is nothing left to lose."""

    def measure(output: Any, truth: Any) -> Tensor:
        right = torch.exp(-loss(output, truth).detach().float().mean()).clamp_max(1)
        return torch.stack([right, torch.ones_like(right)])[:, None]

    return measure


def default_mastery(loss: Loss) -> Mastery:
    """The recall of each class for cross-entropy, also with weights or summed up, which says nothing about what is
    right; any other loss says itself how much is left to lose."""
    of_classes = smoothing_of(loss) is not None or (isinstance(loss, nn.CrossEntropyLoss) and loss.ignore_index < 0)
    return recall if of_classes else likelihood(loss)
