"""Boxes that follow their images: corners through the warp, cut at the border, dropped where little is left of them."""

from __future__ import annotations

import torch
from torch import Tensor

from teachaugment.augment.functional import warp_points
from teachaugment.batch import NO_BOX, Batch
from teachaugment.errors import UserError

LEAST_VISIBLE = 0.25  # of a box's area: one of which less is left in the image is dropped
LEAST_SIDE = 1.0  # pixels: a narrower rest is no box
CORNERS = (0, 1, 2, 1, 2, 3, 0, 3)  # of left, upper, right, lower: x and y of the four


def warp_boxes(boxes: Tensor, matrix: Tensor, size: tuple[int, int]) -> Tensor:
    """Where ``affine_warp`` with the same matrix [B, 2, 3] moves boxes [B, N, 5] of images of this height and width.

    A box becomes the box around its four corners. The matrix gets a gradient through what is kept.
    """
    corners = boxes[..., CORNERS].unflatten(-1, (4, 2)).flatten(1, 2)
    moved = torch.vmap(lambda points, own: warp_points(points, own, size))(corners, matrix).unflatten(1, (-1, 4))
    around = torch.cat([moved.amin(2), moved.amax(2), boxes[..., 4:]], -1)
    return inside(around.to(boxes.dtype), size)


def flip_boxes(boxes: Tensor, turned: Tensor, width: int) -> Tensor:
    """The boxes of the images that are ``turned`` [B], mirrored left to right."""
    left, upper, right, lower, kind = boxes.unbind(-1)
    mirrored = torch.stack([width - right, upper, width - left, lower, kind], -1)
    return torch.where((turned[:, None] & (kind != NO_BOX))[..., None], mirrored, boxes)


def shift_boxes(boxes: Tensor, right: Tensor, down: Tensor, size: tuple[int, int]) -> Tensor:
    """The boxes of images whose content moves by so many pixels, [B] each."""
    by = torch.stack([right, down, right, down, torch.zeros_like(down)], -1)
    return inside(boxes + by[:, None].to(boxes.dtype), size)


def inside(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """The parts of boxes that lie in an image of this height and width; where too little does, there is no box."""
    height, width = size
    limit = boxes.new_tensor([width, height, width, height])
    cut = torch.minimum(boxes[..., :4].clamp_min(0), limit)
    sides, whole = cut[..., 2:] - cut[..., :2], boxes[..., 2:4] - boxes[..., :2]
    visible = sides.prod(-1) >= LEAST_VISIBLE * whole.prod(-1)
    kept = visible & (sides >= LEAST_SIDE).all(-1) & (boxes[..., 4] != NO_BOX)
    return torch.where(kept[..., None], torch.cat([cut, boxes[..., 4:]], -1), NO_BOX)


def refuse_boxes(batch: Batch, name: str) -> None:
    """Complain about boxes that cannot follow an augmenter which bends images."""
    if batch.boxes is not None:
        raise UserError(f"boxes cannot follow an {name} augmenter, which bends images; choose another")
