"""Fixed augmentation: per image, the same for image and mask, repeatable, and nothing changed in place."""

from __future__ import annotations

import pytest
import torch

from teachaugment.augment.fixed import (
    blur,
    color_jitter,
    crop,
    cutout,
    flip,
    grey,
    lighting,
    resized_crop,
    shift_hue,
    sometimes,
)
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


def test_colour_jitter_is_that_of_torchvision():
    """Each image with factors of its own, in an order of its own, against torchvision's functions one by one."""
    from torchvision.transforms.v2 import functional as reference

    image = torch.rand(60, 3, 6, 6)
    made = color_jitter(image, 0.4, torch.Generator().manual_seed(0))
    again = torch.Generator().manual_seed(0)
    orders = torch.rand(60, 3, generator=again).argsort(1)
    factors = 1 + 0.4 * (2 * torch.rand(60, 3, generator=again) - 1)
    steps = [reference.adjust_brightness, reference.adjust_contrast, reference.adjust_saturation]
    for i in range(60):
        wanted = image[i]
        for turn in range(3):
            wanted = steps[orders[i, turn]](wanted, factors[i, turn].item())
        torch.testing.assert_close(made[i], wanted, atol=2e-3, rtol=0)  # torchvision rounds the weights of grey
    assert len({tuple(order) for order in orders.tolist()}) == 6
    assert factors.min() >= 0.6 and factors.max() <= 1.4


def test_no_strength_changes_nothing_and_all_channel_counts_work():
    image = torch.rand(4, 3, 5, 5)
    torch.testing.assert_close(color_jitter(image, 0.0), image)
    torch.testing.assert_close(lighting(image, 0.0), image)
    for channels in (1, 4):
        made = color_jitter(torch.rand(3, channels, 5, 5), 0.4)
        assert made.shape == (3, channels, 5, 5) and made.min() >= 0 and made.max() <= 1


def test_lighting_shifts_whole_images_along_the_principal_colours():
    image = torch.full((2000, 3, 2, 2), 0.5)
    shift = lighting(image, 0.1) - image
    assert torch.equal(shift, shift[:, :, :1, :1].expand_as(shift))
    wanted = torch.tensor([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
    scaled = wanted @ torch.diag(0.1 * torch.tensor([0.2175, 0.0188, 0.0045]))
    torch.testing.assert_close(shift[:, :, 0, 0].T.cov(), scaled @ scaled.T, atol=3e-5, rtol=0.1)


def test_lighting_stays_in_range_and_needs_three_channels():
    made = lighting(torch.rand(50, 3, 4, 4), 5.0)
    assert made.min() >= 0 and made.max() <= 1
    with pytest.raises(ValueError, match="3 channels, not 1"):
        lighting(torch.rand(1, 1, 4, 4), 0.1)


@pytest.mark.parametrize("function", [color_jitter, lighting])
def test_colour_changes_nothing_in_place_and_follows_the_generator(function):
    image = torch.rand(4, 3, 5, 5)
    before = image.clone()
    made = [function(image, 0.3, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(image, before)
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])


def ramp(n: int, size: int) -> torch.Tensor:
    """Images whose two channels are the coordinates of their pixels, in [0, 1]."""
    line = (torch.arange(size) + 0.5) / size
    return torch.stack([line.expand(size, size), line[:, None].expand(size, size)]).expand(n, 2, size, size)


def test_a_resized_crop_is_a_box_of_the_drawn_area_inside_the_image():
    size, n = 32, 256
    out = resized_crop(ramp(n, size), 0.2, generator())
    inner = out[:, :, 1:-1, 1:-1]  # at the border pixels repeat
    step_x = (inner[:, 0, :, 1:] - inner[:, 0, :, :-1]).median(-1).values
    step_y = (inner[:, 1, 1:] - inner[:, 1, :-1]).median(-2).values
    assert torch.allclose(step_x, step_x[:, :1].expand_as(step_x), atol=1e-5)  # no shear, no turn
    width, height = step_x[:, 0] * size, step_y[:, 0] * size
    area = width * height
    assert area.min() > 0.19 and area.max() < 1.01 and area.max() - area.min() > 0.5
    ratio = width / height
    assert ratio.min() > 0.74 and ratio.max() < 1.34 and (ratio > 1).float().mean().sub(0.5).abs() < 0.1
    assert out.min() >= 0 and out.max() <= 1
    low, high = out[:, 0].flatten(1).amin(1), out[:, 0].flatten(1).amax(1)
    assert low.min() < 0.05 and high.max() > 0.95  # crops reach all sides


def test_a_crop_of_everything_is_the_image():
    image = torch.rand(4, 3, 9, 7, generator=generator())
    out = resized_crop(image, 1.0, generator())
    assert out.shape == image.shape
    # The aspect ratio still varies, and what sticks out is cut: each image is the whole in one direction at least.
    same_rows = torch.isclose(out.mean((1, 3)), image.mean((1, 3)), atol=0.2)
    assert same_rows.any()


@pytest.mark.parametrize("turn", [-0.1, 0.05, 0.3])
def test_the_hue_turns_as_in_torchvision(turn):
    from torchvision.transforms.v2.functional import adjust_hue

    image = torch.rand(2, 3, 8, 8, generator=generator())
    image[0, :, 0, 0] = 0.4  # grey has no hue
    assert torch.allclose(shift_hue(image, torch.full((2,), turn)), adjust_hue(image, turn), atol=1e-5)


def test_each_image_has_its_own_hue():
    image = torch.rand(1, 3, 4, 4, generator=generator()).expand(3, -1, -1, -1)
    out = shift_hue(image, torch.tensor([0.0, 0.2, 1.0]))
    assert torch.allclose(out[0], image[0], atol=1e-5) and torch.allclose(out[2], image[0], atol=1e-5)
    assert not torch.allclose(out[1], image[0], atol=1e-2)


def test_jitter_with_hue_stays_in_range_and_leaves_other_channel_counts():
    assert color_jitter(torch.rand(16, 3, 4, 4), 0.4, generator(), hue=0.1).min() >= 0
    image = torch.rand(4, 2, 4, 4)
    assert torch.equal(color_jitter(image, 0.4, generator(), hue=0.1), color_jitter(image, 0.4, generator()))


def test_sometimes_takes_whole_images_as_often_as_asked():
    out = sometimes(torch.ones(2000, 1, 2, 2), torch.zeros(2000, 1, 2, 2), 0.2, generator())
    assert out.flatten(1).std(1).max() == 0 and 0.17 < out.mean() < 0.23


def test_grey_is_luminance():
    assert torch.allclose(grey(torch.tensor([1.0, 0.5, 0.0]).view(1, 3, 1, 1)), torch.tensor(0.299 + 0.587 / 2))
    assert torch.allclose(grey(torch.tensor([1.0, 0.5]).view(1, 2, 1, 1)), torch.tensor(0.75))


def test_blur_is_a_gaussian_of_each_images_own_width():
    """A single point becomes a Gaussian, whose variance in pixels is that of 0.1 to 2 pixels at 224."""
    point = torch.zeros(64, 2, 225, 225)
    point[:, :, 112, 112] = 1
    out = blur(point, 1.0, generator())
    assert torch.allclose(out.sum((2, 3)), torch.ones(64, 2), atol=1e-4)
    offset = torch.arange(225) - 112.0
    across, down = (out[:, 0].sum(dim) @ offset.square() for dim in (1, 2))
    assert torch.allclose(across, down, rtol=1e-3) and torch.allclose(out[:, 0], out[:, 1])
    assert across.min() < 0.3 and 3 < across.max() < 4.05 and across.std() > 0.5


def test_blur_leaves_the_images_that_it_does_not_choose():
    image = torch.rand(400, 1, 64, 64, generator=generator())
    out = blur(image, 0.5, generator())
    assert 0.4 < (out == image).flatten(1).all(1).float().mean() < 0.65
    assert torch.equal(blur(image, 0.0, generator()), image)
