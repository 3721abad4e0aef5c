"""Flip, crop and cutout: per image, the same for image and mask, repeatable, and nothing changed in place."""

from __future__ import annotations

import pytest
import torch

from teachaugment.augment.fixed import crop, cutout, flip
from teachaugment.batch import IGNORE, Batch


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def batch():
    """Masks equal to the first channel, so that image and mask can be compared after any move."""
    mask = torch.randint(1, 200, (64, 9, 7), generator=generator())
    return Batch(mask[:, None].repeat(1, 3, 1, 1) / 255, torch.arange(64) % 4, mask, torch.arange(64))


OPERATIONS = {"flip": flip, "crop": lambda b, g: crop(b, 2, g)}


@pytest.mark.parametrize("name", OPERATIONS)
def test_image_and_mask_move_together_and_the_rest_stays(batch, name):
    out = OPERATIONS[name](batch, generator())
    known = out.mask != IGNORE
    assert torch.equal(out.image[:, 0][known], (out.mask / 255)[known])
    assert out.image[:, 0][~known].eq(0).all()
    assert out.image.shape == batch.image.shape and out.image.dtype == batch.image.dtype
    assert out.mask.shape == batch.mask.shape and out.mask.dtype == torch.int64
    assert out.label is batch.label and out.index is batch.index


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_generator_decides_and_inputs_are_left_alone(batch, name):
    image, mask = batch.image.clone(), batch.mask.clone()
    one, two = OPERATIONS[name](batch, generator(1)), OPERATIONS[name](batch, generator(1))
    assert torch.equal(one.image, two.image)
    assert not torch.equal(one.image, OPERATIONS[name](batch, generator(2)).image)
    assert torch.equal(batch.image, image) and torch.equal(batch.mask, mask)


@pytest.mark.parametrize("name", OPERATIONS)
def test_batches_without_masks_and_of_one_image_work(batch, name):
    out = OPERATIONS[name](Batch(batch.image[:1]), generator())
    assert out.mask is None and out.image.shape == (1, 3, 9, 7)


def test_flip_mirrors_about_half_of_the_images_and_leaves_the_others(batch):
    out = flip(batch, generator()).image
    mirrored = (out == batch.image.flip(-1)).flatten(1).all(1)
    kept = (out == batch.image).flatten(1).all(1)
    assert (mirrored ^ kept).all() and 20 < mirrored.sum() < 44


def test_crop_takes_every_offset_and_each_image_its_own():
    """One lit pixel in the middle shows where the window was."""
    image = torch.zeros(2000, 1, 9, 9)
    image[:, 0, 4, 4] = 1
    out = crop(Batch(image), 3, generator()).image
    assert out.sum((1, 2, 3)).eq(1).all()
    positions = out.flatten(1).argmax(1)
    assert sorted({(int(p) // 9, int(p) % 9) for p in positions}) == [(y, x) for y in range(1, 8) for x in range(1, 8)]


def test_crop_without_padding_is_the_identity(batch):
    out = crop(batch, 0, generator())
    assert torch.equal(out.image, batch.image) and torch.equal(out.mask, batch.mask)


def test_cutout_erases_a_square_about_a_pixel_that_may_lie_at_the_border():
    out = cutout(torch.ones(3000, 3, 12, 10), 4, generator())
    gone = out == 0
    assert torch.equal(gone[:, 0], gone[:, 1]) and torch.equal(gone[:, 0], gone[:, 2])
    rows, columns = gone[:, 0].any(2).sum(1), gone[:, 0].any(1).sum(1)
    assert torch.equal(gone[:, 0].sum((1, 2)), rows * columns)  # a rectangle
    assert rows.max() == columns.max() == 4 and rows.min() == columns.min() == 2  # clipped to a half at the border
    # The centre is uniform over the pixels, so 9 of 12 rows and 7 of 10 columns see the whole side.
    assert (rows == 4).float().mean().item() == pytest.approx(9 / 12, abs=0.04)
    assert (columns == 4).float().mean().item() == pytest.approx(7 / 10, abs=0.04)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_cutout_of_odd_size_erases_the_whole_side(size):
    assert (cutout(torch.ones(200, 1, 9, 9), size, generator()) == 0).sum((1, 2, 3)).max() == size * size


def test_cutout_of_size_zero_is_the_identity_and_inputs_are_left_alone(batch):
    assert torch.equal(cutout(batch.image, 0, generator()), batch.image)
    before = batch.image.clone()
    assert torch.equal(cutout(batch.image, 4, generator(1)), cutout(batch.image, 4, generator(1)))
    assert torch.equal(batch.image, before)


def test_gradients_pass_through():
    image = torch.rand(4, 1, 6, 6, requires_grad=True)
    cutout(crop(flip(Batch(image), generator()), 1, generator()).image, 2, generator()).sum().backward()
    assert image.grad is not None and image.grad.isfinite().all() and image.grad.abs().sum() > 0
