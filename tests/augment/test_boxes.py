"""Ellipses are painted into images, moved with their boxes, and the boxes are found again around the paint."""

from __future__ import annotations

import pytest
import small
import torch

from teachaugment.augment import create, fixed
from teachaugment.augment.boxes import inside, warp_boxes
from teachaugment.augment.functional import affine_warp
from teachaugment.batch import IGNORE, NO_BOX, Batch
from teachaugment.errors import UserError
from teachaugment.strategies.published import GEOMETRIC, PerImage, matrix_of, published, with_mask

HEIGHT, WIDTH = 80, 120
NOTHING = [NO_BOX] * 5


def painted(count: int = 8) -> Batch:
    """Black images, each with one white ellipse near the middle, and a row that is no box."""
    generator = torch.Generator().manual_seed(3)
    image, boxes = torch.zeros(count, 3, HEIGHT, WIDTH), torch.full((count, 2, 5), float(NO_BOX))
    for i in range(count):
        left, top = (int(torch.randint(low, high, (), generator=generator)) for low, high in ((45, 60), (28, 36)))
        wide, high = (int(torch.randint(8, 20, (), generator=generator)) for _ in range(2))
        image[i] = small.ellipse((left, top, left + wide, top + high), (HEIGHT, WIDTH))
        boxes[i, 1] = torch.tensor([left, top, left + wide, top + high, i % 3])
    return Batch(image, boxes=boxes, index=torch.arange(count))


def around_paint(image: torch.Tensor) -> torch.Tensor:
    rows, columns = (image[0] > 0.3).nonzero(as_tuple=True)
    return torch.stack([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]).float()


def assert_boxes_are_where_the_paint_is(batch: Batch, within: float = 1.0) -> None:
    assert batch.boxes is not None
    for i, image in enumerate(batch.image):
        assert (batch.boxes[i, 1, :4] - around_paint(image)).abs().max() <= within
        assert batch.boxes[i, 1, 4] == i % 3
        assert batch.boxes[i, 0].tolist() == NOTHING


def moderate_matrices(count: int) -> torch.Tensor:
    change = 0.3 * (torch.rand(count, 2, 3, generator=torch.Generator().manual_seed(1)) - 0.5)
    return torch.eye(2, 3) + change


def test_boxes_follow_an_affine_warp_within_a_pixel():
    batch, matrix = painted(), moderate_matrices(8)
    image, boxes = affine_warp(batch.image, matrix), warp_boxes(batch.boxes, matrix, (HEIGHT, WIDTH))
    assert_boxes_are_where_the_paint_is(batch.replace(image=image, boxes=boxes))
    assert not torch.equal(boxes, batch.boxes)


@pytest.mark.parametrize("augmenter", ["neural", "dda"])
def test_boxes_follow_an_augmenter(augmenter):
    torch.manual_seed(5)
    made, batch = create(augmenter), painted(24)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        draw = made.weakened(made.sample(24, None, torch.Generator().manual_seed(0)), 0.5)
        moved = made.warp(batch.replace(mask=batch.image[:, 0].long()), draw)
    compared = 0
    for mask, box in zip(moved.mask, moved.boxes[:, 1], strict=True):
        left, top, right, bottom = box[:4].long().tolist()
        covered = (mask[top:bottom, left:right] == IGNORE).any()  # by DDA's Cutout, or from outside
        if box[4] == NO_BOX or covered or min(left, top, WIDTH - right, HEIGHT - bottom) < 2:
            continue
        assert (box[:4] - around_paint((mask == 1)[None].float())).abs().max() <= 1.5
        compared += 1
    assert compared >= 8
    assert (moved.boxes != batch.boxes).any(2).sum() >= 4


def test_boxes_follow_flip_shift_and_zoom():
    generator = torch.Generator().manual_seed(0)
    batch = painted()
    flipped = fixed.flip(batch, generator)
    assert_boxes_are_where_the_paint_is(flipped, within=0)
    assert not torch.equal(flipped.boxes, batch.boxes)
    assert_boxes_are_where_the_paint_is(fixed.crop(batch, 6, generator), within=0)
    zoomed = fixed.zoom(batch, 0.8, generator)
    assert_boxes_are_where_the_paint_is(zoomed)
    assert not torch.equal(zoomed.boxes, batch.boxes)


@pytest.mark.parametrize("operation", sorted(GEOMETRIC))
@pytest.mark.parametrize("sign", [1, -1])
def test_boxes_follow_torchvisions_operations(operation, sign):
    from torchvision.transforms import v2

    magnitude = sign * {"ShearX": 0.2, "ShearY": 0.2, "TranslateX": 9.7, "TranslateY": 9.7, "Rotate": 20.0}[operation]
    batch, strategy = painted(), with_mask(v2.TrivialAugmentWide)()
    made = strategy._apply_image_or_video_transform
    image = torch.stack([made(x, operation, magnitude, v2.InterpolationMode.BILINEAR, {}) for x in batch.image])
    matrix = matrix_of(operation, magnitude, (HEIGHT, WIDTH)).expand(8, 2, 3)
    boxes = warp_boxes(batch.boxes, matrix, (HEIGHT, WIDTH))
    assert_boxes_are_where_the_paint_is(batch.replace(image=image, boxes=boxes), within=1.25)


def test_boxes_follow_trivialaugment():
    torch.manual_seed(0)
    batch = painted()
    augment = PerImage(published("trivialaugment"))
    moved = [augment(batch) for _ in range(4)]
    assert any(not torch.equal(made.boxes, batch.boxes) for made in moved)
    assert augment.transform.boxes is None and augment.transform.mask is None


def test_a_round_thing_has_a_box_of_the_same_size_however_it_is_turned():
    turn = torch.tensor([0.3, 0.8, 1.5, 3.0])
    across = torch.stack([turn.cos(), turn.sin(), -turn.sin(), turn.cos()], -1).view(4, 2, 2)
    matrix = torch.cat([across, torch.zeros(4, 2, 1)], -1)
    boxes = torch.tensor([[[40.0, 40.0, 60.0, 60.0, 1.0]]]).expand(4, 1, 5)
    assert torch.allclose(warp_boxes(boxes, matrix, (100, 100)), boxes, atol=1e-4)


def test_boxes_are_cut_at_the_border_and_dropped_below_a_share():
    size = (100, 100)
    boxes = torch.tensor(
        [[[90, 10, 110, 20, 1], [96, 10, 116, 20, 1], [-30, -30, -10, -10, 2], [5, 5, 5.5, 50, 0], NOTHING]]
    ).float()
    found = inside(boxes, size)[0]
    assert found[0].tolist() == [90, 10, 100, 20, 1]  # half of it
    assert [row.tolist() for row in found[1:]] == [NOTHING] * 4  # a fifth of it, nothing, too narrow, no box


def test_what_is_kept_has_a_gradient():
    batch, matrix = painted(), moderate_matrices(8).requires_grad_()
    boxes = warp_boxes(batch.boxes, matrix, (HEIGHT, WIDTH))
    boxes[:, 1, :4].sum().backward()
    assert matrix.grad is not None and matrix.grad.abs().sum() > 0 and matrix.grad.isfinite().all()


def test_an_augmenter_that_bends_refuses_boxes():
    with pytest.raises(UserError, match="bends"):
        create("online")(painted())


def test_a_batch_is_split_and_joined_with_its_boxes():
    batch = painted(5)
    parts = batch.split(2)
    assert [len(part.boxes) for part in parts] == [2, 2, 1]
    assert torch.equal(batch.join(parts).boxes, batch.boxes)
    assert batch.truth is batch.boxes
