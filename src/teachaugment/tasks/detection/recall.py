"""How many of the true boxes a detector finds: what it masters, class by class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from teachaugment.batch import NO_BOX
from teachaugment.mastery import counted
from teachaugment.models.boxes import CLOSE, SURE, overlaps


def found_boxes(found: Tensor, boxes: Tensor) -> Tensor:
    """Which of the true boxes [B, N, 5] one of the detections [B, D, 6] has found: one of its class, sure enough and
    overlapping enough. [B, N] bool; rows that are no box are not found."""
    over = overlaps(boxes[..., :4], found[..., :4]) >= CLOSE  # [B, N, D]
    same = boxes[..., 4][:, :, None] == found[..., 5][:, None, :]
    sure = (found[..., 4] >= SURE)[:, None, :]
    return (over & same & sure).any(2) & (boxes[..., 4] != NO_BOX)


def recall_of_boxes(found: Tensor, boxes: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """How many true boxes of each class are found, and how many there are, [classes] int64 each."""
    each = torch.zeros(len(boxes), dtype=torch.int64, device=boxes.device)
    right, seen = box_counts(found_boxes(found, boxes), boxes, classes, each, 1)[0].long()
    return right, seen


def box_counts(found: Tensor, boxes: Tensor, classes: int, group: Tensor, groups: int) -> Tensor:
    """Of true boxes [B, N, 5] those found [B, N] and all there are, in each group of images and each class."""
    kind = boxes[..., 4].long()
    there = kind != NO_BOX
    what = torch.stack([found & there, there]).flatten(1)
    return counted(what, kind.clamp_min(0).flatten(), classes, group.repeat_interleave(boxes.shape[1]), groups)


class BoxRecall:
    """Mastery of boxes: asked, by what a detector finds; in its own updates, if it says then which boxes it finds."""

    def __init__(self, classes: int) -> None:
        self.classes = classes

    def __call__(self, found: Tensor, boxes: Tensor) -> Tensor:
        return torch.stack(recall_of_boxes(found, boxes, self.classes)).float()

    def apart(self, losses: Any, boxes: Tensor, arm: Tensor, arms: int) -> Tensor | None:
        if losses.found is None:
            return None
        return box_counts(losses.found, boxes, self.classes, arm, arms + 1)
