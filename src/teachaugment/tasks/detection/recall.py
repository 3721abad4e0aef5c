"""How many of the true boxes a detector finds: what it masters, class by class."""

from __future__ import annotations

import torch
from torch import Tensor

from teachaugment.batch import NO_BOX
from teachaugment.models.detection import overlaps

OVERLAP = 0.5  # intersection over union from which on a true box is found
SURE = 0.3  # the score from which on a detection counts


def found_boxes(found: Tensor, boxes: Tensor) -> Tensor:
    """Which of the true boxes [B, N, 5] one of the detections [B, D, 6] has found: one of its class, sure enough and
    overlapping enough. [B, N] bool; rows that are no box are not found."""
    over = overlaps(boxes[..., :4], found[..., :4]) >= OVERLAP  # [B, N, D]
    same = boxes[..., 4][:, :, None] == found[..., 5][:, None, :]
    sure = (found[..., 4] >= SURE)[:, None, :]
    return (over & same & sure).any(2) & (boxes[..., 4] != NO_BOX)


def recall_of_boxes(found: Tensor, boxes: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """How many true boxes of each class are found, and how many there are, [classes] int64 each."""
    kind = boxes[..., 4].long()
    there = kind != NO_BOX
    # One more cell than there are classes, for the rows that are no box.
    cell = torch.where(there, kind, classes).flatten()
    counts = [torch.zeros(classes + 1, dtype=torch.int64, device=boxes.device) for _ in range(2)]
    for count, rows in zip(counts, (found_boxes(found, boxes), there), strict=True):
        count.scatter_add_(0, cell, rows.flatten().long())
    return counts[0][:-1], counts[1][:-1]
