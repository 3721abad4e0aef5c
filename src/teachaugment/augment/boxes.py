"""Boxes that follow their images: through the warp, cut at the border, dropped where little is left of them."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from teachaugment.augment.functional import warp_points
from teachaugment.batch import NO_BOX, Batch
from teachaugment.errors import UserError

LEAST_VISIBLE = 0.25  # of a box's area: one of which less is left in the image is dropped
LEAST_SIDE = 1.0  # pixels: a narrower rest is no box


def warp_boxes(boxes: Tensor, matrix: Tensor, size: tuple[int, int]) -> Tensor:
    """Where ``affine_warp`` with the same matrix [B, 2, 3] moves boxes [B, N, 5] of images of this height and width.

    The matrix gets a gradient through what is kept.
    """
    moved = torch.vmap(partial(around_ellipse, size=size))(boxes[..., :4], matrix)
    return inside(torch.cat([moved.to(boxes.dtype), boxes[..., 4:]], -1), size)


def around_ellipse(boxes: Tensor, matrix: Tensor, size: tuple[int, int]) -> Tensor:
    """The boxes around where a warp [2, 3] moves the ellipses that just fit into boxes [N, 4].

    Around where it moves their corners they would be too large for what does not reach into its corners: a round thing
    that is turned by 30° would have a box 1.37 times as wide and as high as itself.
    """
    left, upper, right, lower = boxes.unbind(-1)
    x, y = (left + right) / 2, (upper + lower) / 2
    points = torch.stack([x, y, right, y, x, lower], -1).unflatten(-1, (3, 2))
    middle, beside, below = warp_points(points, matrix, size).unbind(-2)
    half = ((beside - middle).square() + (below - middle).square()).clamp_min(1e-6).sqrt()
    return torch.cat([middle - half, middle + half], -1)


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
