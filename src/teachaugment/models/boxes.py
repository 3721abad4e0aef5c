"""Boxes [..., 4], left, upper, right and lower in pixels: how far two overlap, and which of many to keep.

What a detector finds has six columns: a box, its score and its class, or NO_BOX for a row that is none.
"""

from __future__ import annotations

import torch
from torch import Tensor

from teachaugment.batch import NO_BOX

FOUND = 100  # boxes that a detector says about an image, at most
OVERLAP = 0.55  # intersection over union from which on two boxes of one class are one
LEAST_SCORE = 0.01
SURE, CLOSE = 0.3, 0.5  # score, and overlap with a true box, from which on that box is found
ROUNDS = 12  # of choosing among overlapping boxes: exact unless more than so many overlap in a row


def overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of all boxes [..., N, 4] with all boxes [..., M, 4]: [..., N, M]."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp_min(0)
    shared = sides.prod(-1)
    areas = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1)
    return shared / (areas - shared).clamp_min(1e-6)


def best_of_overlapping(found: Tensor, count: int = FOUND) -> Tensor:
    """Of boxes [B, N, 6], the highest score first, those that no better one of their class covers, at most ``count``.

    The greedy choice that is usual, for all images at once and without a shape that depends on the boxes: a box falls
    if a better one that stands covers it, and which stand is settled round by round.
    """
    kind = found[..., 5]
    covers = (overlaps(found[..., :4], found[..., :4]) > OVERLAP) & (kind[:, :, None] == kind[:, None, :])
    covers = covers & torch.ones_like(covers).triu(1)  # [better, worse]
    stands = torch.ones_like(kind, dtype=torch.bool)
    for _ in range(ROUNDS):
        stands = ~(covers & stands[:, :, None]).any(1)
    stands = stands & (found[..., 4] >= LEAST_SCORE)
    score, place = torch.where(stands, found[..., 4], -1.0).topk(min(count, found.shape[1]), dim=1)
    chosen = found.gather(1, place[..., None].expand(-1, -1, 6))
    return torch.where((score >= 0)[..., None], chosen, no_boxes(chosen))


def no_boxes(like: Tensor) -> Tensor:
    """Rows that are no box: without a place and a score."""
    return like.new_tensor([0.0, 0.0, 0.0, 0.0, 0.0, NO_BOX]).expand_as(like)


def generalized_iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of pairs of boxes [..., 4], minus the share of the box around both that neither fills."""
    shared = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp_min(0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - shared
    around = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    return shared / union.clamp_min(1e-6) - (around - union) / around.clamp_min(1e-6)
