"""Each operation of DDA against PIL's or torchvision's at a fixed strength, and its gradients."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as tv

from teachaugment.augment import operations as ops

LEVEL = 1 / 255


def images(n=3, height=20, width=28):
    """Eight-bit images with some structure, of which the last has few levels."""
    pixels = torch.randint(0, 256, (n, 3, height, width))
    pixels[1] = (pixels[1] + torch.arange(width) * 8) // 3
    pixels[-1] = 90 + pixels[-1] // 16
    return pixels.clamp(0, 255) / 255


def with_pil(function, batch):
    """What PIL makes of each image, back in [0, 1]."""
    pictures = [Image.fromarray((255 * x).round().byte().permute(1, 2, 0).numpy()) for x in batch]
    arrays = [np.asarray(function(picture), dtype=np.float32) / 255 for picture in pictures]
    return torch.stack([torch.from_numpy(array).permute(2, 0, 1) for array in arrays])


def enhance(kind, change):
    return lambda picture: kind(picture).enhance(1 + change)


def strength(value, n=3):
    return torch.full((n,), float(value))


@pytest.mark.parametrize(
    ("operation", "value", "pil", "tolerance"),
    [
        (ops.invert, 0, ImageOps.invert, 1e-6),
        (ops.solarize, 1 - 127.5 / 255, lambda x: ImageOps.solarize(x, 128), 1e-6),
        (ops.solarize, 0.0, lambda x: x, 1e-6),
        (ops.posterize, 4.0, lambda x: ImageOps.posterize(x, 4), 1e-6),
        (ops.posterize, 1.6, lambda x: ImageOps.posterize(x, 6), 1e-6),
        (ops.auto_contrast, 0, ImageOps.autocontrast, 1.01 * LEVEL),  # PIL rounds down
        (ops.equalize, 0, ImageOps.equalize, 1e-6),
        # PIL rounds the plain image, and then the result
        *((ops.brightness, m, enhance(ImageEnhance.Brightness, m), 1.01 * LEVEL) for m in (-0.7, 0.9)),
        *((ops.contrast, m, enhance(ImageEnhance.Contrast, m), 2.01 * LEVEL) for m in (-0.7, 0.9)),
        *((ops.color, m, enhance(ImageEnhance.Color, m), 2.01 * LEVEL) for m in (-0.7, 0.9)),
        *((ops.sharpness, m, enhance(ImageEnhance.Sharpness, m), 2.01 * LEVEL) for m in (-0.7, 0.9)),
    ],
)
def test_a_colour_operation_is_what_pil_does(operation, value, pil, tolerance):
    batch = images()
    ours, theirs = operation(batch, strength(value)), with_pil(pil, batch)
    assert (ours - theirs).abs().max() <= tolerance
    assert ours.min() >= 0 and ours.max() <= 1


def test_sharpness_is_torchvisions_to_the_last_digit():
    batch = images()
    theirs = tv.adjust_sharpness(batch, 1.5)
    assert torch.allclose(ops.sharpness(batch, strength(0.5)), theirs, atol=1e-6)


def test_sample_pairing_is_a_blend():
    batch, other = images(), images()
    mixed = ops.sample_pairing(batch, strength(0.3), other)
    assert torch.allclose(mixed, 0.7 * batch + 0.3 * other, atol=1e-6)


def affine(batch, degrees=0.0, shift=(0, 0), shear=(0.0, 0.0)):
    bilinear = InterpolationMode.BILINEAR
    return tv.affine(batch, degrees, list(shift), 1.0, list(shear), interpolation=bilinear)


ANGLE = float(torch.tensor(0.3).atan().rad2deg())


@pytest.mark.parametrize(
    ("operation", "value", "theirs"),
    [
        (ops.shear_x, 0.3, lambda x: affine(x, shear=(ANGLE, 0.0))),
        (ops.shear_y, 0.3, lambda x: affine(x, shear=(0.0, ANGLE))),
        (ops.translate_x, 0.25, lambda x: affine(x, shift=(-7, 0))),
        (ops.translate_y, -0.25, lambda x: affine(x, shift=(0, 5))),
        (ops.rotate, 30.0, lambda x: affine(x, degrees=30.0)),
        (ops.rotate, -12.0, lambda x: affine(x, degrees=-12.0)),
        (ops.flip, 0.0, tv.horizontal_flip),
    ],
)
def test_a_geometric_operation_is_what_torchvision_does(operation, value, theirs):
    batch = images()  # not square: an angle must stay an angle
    ours = ops.warped(batch, operation(strength(value)))
    assert (ours - theirs(batch)).abs().max() < 1e-4


def test_cutout_paints_a_square_as_torchvision_erases_one():
    batch = images(2, 20, 28)
    ours = ops.cutout(batch, torch.tensor([0.2, 0.2]), torch.tensor([[0.5, 0.5], [0.1, 1.0]]))
    assert torch.allclose(ours[0], tv.erase(batch[0], 8, 12, 4, 4, torch.full((3, 4, 4), ops.FILL)), atol=1e-5)
    assert torch.allclose(ours[1], tv.erase(batch[1], 0, 26, 4, 2, torch.full((3, 4, 2), ops.FILL)), atol=1e-5)


def test_cover_is_the_area_of_the_square():
    image = torch.zeros(2, 1, 10, 16)
    area = ops.cover(image, torch.tensor([0.23, 0.05]), torch.tensor([[0.4, 0.37], [0.5, 0.5]])).sum((1, 2, 3))
    assert torch.allclose(area, torch.tensor([2.3**2, 0.5**2]), atol=1e-4)


@pytest.mark.parametrize("operation", [o for o in ops.OPERATIONS if o.reach], ids=lambda operation: operation.name)
def test_strength_zero_changes_nothing_and_the_strength_has_a_gradient(operation):
    batch, other, centre = images(), images(), torch.rand(3, 2)

    def apply(value):
        if operation in ops.AFFINE:
            return ops.warped(batch, operation.function(value))
        return operation.function(batch, value, *{"partner": [other], "centre": [centre]}.get(operation.extra, []))

    assert torch.allclose(apply(strength(0)), batch, atol=1e-5)
    value = strength(0.6 * operation.reach).requires_grad_()
    (apply(value) * torch.randn_like(batch)).sum().backward()
    assert value.grad.isfinite().all() and (value.grad != 0).all()


@pytest.mark.parametrize("operation", ops.COLOR, ids=lambda operation: operation.name)
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_colour_operations_take_any_channels_and_flat_or_tiny_images(operation, channels):
    for shape in ((2, channels, 1, 1), (2, channels, 9, 6)):
        for batch in (torch.zeros(shape), torch.ones(shape), torch.full(shape, 0.3), torch.rand(shape)):
            batch.requires_grad_()
            extra = [batch.flip(0)] if operation.extra else []
            result = operation.function(batch, strength(operation.reach / 2, 2), *extra)
            result.sum().backward()
            assert result.shape == shape and batch.grad.isfinite().all()
            assert result.min() >= 0 and result.max() <= 1 + 1e-6


def test_nothing_is_changed_in_place():
    batch = images()
    before = batch.clone()
    for operation in ops.OPERATIONS:
        value = strength(operation.reach / 2)
        if operation in ops.AFFINE:
            ops.warped(batch, operation.function(value))
        else:
            extra = {"partner": [batch], "centre": [torch.rand(3, 2)]}.get(operation.extra, [])
            operation.function(batch, value, *extra)
    assert torch.equal(batch, before)
