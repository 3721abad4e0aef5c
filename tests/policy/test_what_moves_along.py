"""Masks, boxes and key points of a sample move as its image does: one draw for all."""

from __future__ import annotations

import math

import pytest
import small
import torch
from strong_policy import SIZE, image, policy
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

from teachaugment.augment import create
from teachaugment.augment.functional import affine_warp, warp_points
from teachaugment.errors import UserError
from teachaugment.policy.policy import Policy


def overlap(a, b):
    return float((a & b).sum() / (a | b).sum())


@pytest.mark.parametrize("seed", range(4))
def test_image_mask_box_and_key_points_move_together(seed):
    box = torch.tensor([25.0, 20.0, 60.0, 42.0])
    mask = small.ellipse(box, SIZE) > 0
    turn = torch.linspace(0, 2 * math.pi, 100)
    rim = torch.stack([42.5 + 17.5 * turn.cos(), 31 + 11 * turn.sin()], 1)
    sample = {
        "image": tv_tensors.Image(mask.expand(3, -1, -1).float()),
        "mask": tv_tensors.Mask(mask),
        "boxes": tv_tensors.BoundingBoxes(box, format="XYXY", canvas_size=SIZE),
        "points": tv_tensors.KeyPoints(rim, canvas_size=SIZE),
        "name": "an ellipse",
    }
    module = policy()
    module.augmenter.log_odds[:, 0] = -100  # colours stay, so that the image can be compared
    torch.manual_seed(seed)
    made = module(sample)
    assert made["name"] == "an ellipse" and type(made["mask"]) is tv_tensors.Mask and made["mask"].dtype == torch.bool
    assert (made["boxes"][0] - box).abs().max() > 2  # it moved
    assert overlap(made["image"][0] > 0.5, made["mask"]) > 0.97
    y, x = made["mask"].nonzero().T
    around = torch.stack([x.min(), y.min(), x.max() + 1, y.max() + 1]).float()
    assert (made["boxes"][0] - around).abs().max() <= 1.5  # the box is the one around the mask
    inside = made["points"].as_subclass(torch.Tensor).clamp_min(0).clamp_max(torch.tensor([SIZE[1], SIZE[0]]))
    assert (torch.cat([inside.amin(0), inside.amax(0)]) - around).abs().max() <= 1.5  # and the key points are its rim


def test_a_point_goes_where_its_pixel_goes():
    height, width = 40, 60
    matrix = torch.tensor([[0.9, 0.2, 0.1], [-0.15, 1.1, -0.2]])
    plain = torch.zeros(1, 1, height, width)
    plain[0, 0, 21, 33] = 1
    bright = affine_warp(plain, matrix[None])[0, 0].flatten().argmax()
    x, y = warp_points(torch.tensor([33.5, 21.5]), matrix, (height, width)).tolist()
    assert abs(x - (float(bright % width) + 0.5)) <= 1 and abs(y - (float(bright // width) + 0.5)) <= 1


def test_uncovered_pixels_of_a_mask_are_ignored():
    module = policy()
    torch.manual_seed(0)
    made = module(image(), tv_tensors.Mask(torch.full(SIZE, 7, dtype=torch.int64)))[1]
    assert set(made.unique().tolist()) == {7, 255} and made.dtype == torch.int64
    torch.manual_seed(0)
    other = module.transform(mask_fill=0)(image(), tv_tensors.Mask(torch.full((2, *SIZE), 7, dtype=torch.uint8)))[1]
    assert other.shape == (2, *SIZE) and torch.equal(other[0] == 0, made == 255) and torch.equal(other[0], other[1])
    assert module(image(), tv_tensors.Mask(torch.zeros(0, *SIZE, dtype=torch.bool)))[1].shape == (0, *SIZE)


@pytest.mark.parametrize("format", ["XYXY", "XYWH", "CXCYWH"])
def test_boxes_of_every_format_become_the_same_box(format):
    module = policy()
    box = tv_tensors.BoundingBoxes([[10.0, 12, 50, 44], [60, 5, 79, 30]], format="XYXY", canvas_size=SIZE)
    made = []
    for kind in ("XYXY", format):
        torch.manual_seed(3)
        item = module(image(), F.convert_bounding_box_format(box, new_format=tv_tensors.BoundingBoxFormat[kind]))[1]
        assert item.format.value == kind and item.canvas_size == SIZE
        made.append(F.convert_bounding_box_format(item, new_format=tv_tensors.BoundingBoxFormat.XYXY))
    assert torch.allclose(*made, atol=1e-3)
    assert (made[0] >= 0).all() and (made[0][:, 2] <= SIZE[1]).all() and (made[0][:, 3] <= SIZE[0]).all()


@pytest.mark.parametrize("format", ["XYWHR", "CXCYWHR", "XYXYXYXY"])
def test_rotated_boxes_hold_their_corners(format):
    kind, corner_kind = tv_tensors.BoundingBoxFormat[format], tv_tensors.BoundingBoxFormat.XYXYXYXY
    box = tv_tensors.BoundingBoxes([[40.0, 30, 20, 10, 25]], format="CXCYWHR", canvas_size=SIZE, clamping_mode=None)
    corners = F.convert_bounding_box_format(box, new_format=corner_kind).as_subclass(torch.Tensor).view(4, 2)
    torch.manual_seed(4)
    _, made, points = policy()(
        image(),
        F.convert_bounding_box_format(box, new_format=kind),
        tv_tensors.KeyPoints(corners, canvas_size=SIZE),
    )
    assert made.format is kind
    hull = F.convert_bounding_box_format(made, new_format=corner_kind).as_subclass(torch.Tensor).view(4, 2)
    points, side, down = points.as_subclass(torch.Tensor), hull[1] - hull[0], hull[3] - hull[0]
    assert abs(float(side @ down)) < 1e-2 * float(side.norm() * down.norm())  # a rectangle
    for axis in (side, down):
        place = (points - hull[0]) @ axis / (axis @ axis)
        assert place.min() > -0.01 and place.max() < 1.01  # which holds all corners
        assert math.isclose(float(place.max() - place.min()), 1, abs_tol=0.02)  # and no more than that


def test_boxes_are_clamped_as_torchvision_clamps_them():
    """The same warp through torchvision's own affine transform: smaller by a fifth, and moved."""
    module = policy()
    matrix = torch.tensor([[1.25, 0.0, 0.5], [0.0, 1.25, 0.25]])
    module.augmenter.matrix = lambda drawn, size: matrix[None]
    box = tv_tensors.BoundingBoxes([[0.0, 0, 30, 20], [45, 40, 60, 60]], format="XYXY", canvas_size=(60, 60))
    made = module(image((60, 60)), box)[1]
    expected = F.affine(box, angle=0, translate=[-12, -6], scale=0.8, shear=[0, 0])
    assert torch.allclose(made, expected, atol=1e-3)


def test_whole_numbers_stay_whole_numbers():
    boxes = tv_tensors.BoundingBoxes(torch.tensor([[3, 4, 20, 20]]), format="XYXY", canvas_size=SIZE)
    points = tv_tensors.KeyPoints(torch.tensor([[3, 4]]), canvas_size=SIZE)
    _, made, moved = policy()(image(), boxes, points)
    assert made.dtype == moved.dtype == torch.int64


def test_no_boxes_are_fine():
    boxes = tv_tensors.BoundingBoxes(torch.zeros(0, 4), format="XYWH", canvas_size=SIZE)
    assert policy()(image(), boxes)[1].shape == (0, 4)


@pytest.mark.parametrize("seed", range(3))
def test_boxes_follow_the_stages_of_dda(seed):
    torch.manual_seed(seed)
    module = Policy.of(create("dda"))
    mask = small.ellipse([25.0, 20.0, 60.0, 42.0], SIZE)
    boxes = tv_tensors.BoundingBoxes([[25.0, 20.0, 60.0, 42.0]], format="XYXY", canvas_size=SIZE)
    moved = 0
    for _ in range(20):
        _, made, box = module(image(), tv_tensors.Mask(mask.long()), boxes)
        y, x = (made == 1).nonzero().T
        around = torch.stack([x.min(), y.min(), x.max() + 1, y.max() + 1]).float()
        moved += int((around - boxes[0]).abs().max() >= 1)
        if (made == 255).sum() == 0 or not (made == 255)[1:-1, 1:-1].any():  # cutout may paint over its corners
            assert (box[0] - around).abs().max() <= 2
    assert moved > 3


def test_what_bends_the_image_takes_no_boxes_along():
    module = Policy.of(create("online"))
    assert module(image()).shape == (3, *SIZE)
    with pytest.raises(UserError, match="Mask cannot follow an online augmenter"):
        module(image(), tv_tensors.Mask(torch.zeros(SIZE)))
