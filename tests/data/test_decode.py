"""One image file to pixels: every mode, upright, resized and cropped; what has no known range is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import pil_to_tensor, resized_crop

from teachaugment.data.decode import Crop, crop_box, fitted, open_image, random_crop, random_crops
from teachaugment.errors import UserError


def decode(path, size):
    return fitted(open_image(path), path, size)


def gradient16():
    return np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)


def test_every_mode_becomes_rgb(tmp_path):
    def back(image, name="x.png", **how):
        image.save(tmp_path / name, **how)
        return decode(tmp_path / name, (8, 8))

    grey = np.arange(0, 256, 4, dtype=np.uint8).reshape(8, 8)
    expected = torch.from_numpy(grey).expand(3, 8, 8)
    assert torch.equal(back(Image.fromarray(grey)), expected)
    assert torch.equal(back(Image.fromarray(grey).convert("P")), expected)
    assert torch.equal(back(Image.fromarray(grey).convert("LA")), expected)

    wide = torch.from_numpy(np.round(gradient16() / 257).astype(np.uint8)).expand(3, 8, 8)
    assert torch.equal(back(Image.fromarray(gradient16())), wide)
    assert torch.equal(back(Image.fromarray(gradient16()), "x.tif"), wide)

    cmyk = back(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "x.jpg", quality=95)
    assert (cmyk[:, 4, 4].int() - torch.tensor([255, 0, 0])).abs().max() < 12

    assert back(Image.new("1", (8, 8), 1)).eq(255).all()


def test_transparent_pixels_show_white(tmp_path):
    image = Image.new("RGBA", (8, 8), (200, 0, 0, 255))
    image.paste((0, 0, 0, 0), (0, 0, 4, 8))
    image.save(tmp_path / "x.png")
    image.quantize(4).save(tmp_path / "palette.png")
    for name in ("x.png", "palette.png"):
        pixels = decode(tmp_path / name, (8, 8))
        assert pixels[:, 0, 0].tolist() == [255, 255, 255] and pixels[:, 0, 7].tolist() == [200, 0, 0]


def test_photographs_are_turned_upright(tmp_path):
    image = Image.new("RGB", (8, 4), "black")
    image.paste((255, 255, 255), (0, 0, 4, 4))
    exif = Image.Exif()
    exif[0x0112] = 6  # stored on its side: the left half belongs on top
    image.save(tmp_path / "x.png", exif=exif)
    pixels = decode(tmp_path / "x.png", (8, 4))
    assert pixels[:, 0].min() > 250 and pixels[:, 7].max() < 5


def test_shorter_side_is_resized_and_the_centre_cropped(tmp_path):
    image = np.zeros((20, 60, 3), dtype=np.uint8)
    image[:, 20:40] = 255  # the middle third is white
    Image.fromarray(image).save(tmp_path / "x.png")
    assert decode(tmp_path / "x.png", (10, 10))[:, :, 1:-1].min() > 200
    assert decode(tmp_path / "x.png", (40, 40)).shape == (3, 40, 40)


def test_floating_point_images_are_refused_because_their_range_is_unknown(tmp_path):
    Image.fromarray(np.zeros((8, 8), dtype=np.float32)).save(tmp_path / "x.tif")
    with pytest.raises(UserError, match="floating point"):
        decode(tmp_path / "x.tif", (8, 8))


# Random crops


def drawn(least, n=500):
    random = torch.Generator().manual_seed(0)
    return [random_crop(least, random) for _ in range(n)]


def share(box, have):
    left, top, right, bottom = box
    return (right - left) * (bottom - top) / (have[0] * have[1])


@pytest.mark.parametrize("least", [0.08, 0.2, 0.9])
def test_the_area_is_uniform_between_the_least_and_all(least):
    areas = torch.tensor([crop.area for crop in drawn(least)])
    assert areas.min() >= least and areas.max() <= 1
    quarters = torch.histc((areas - least) / (1 - least), 4, 0, 1) / len(areas)
    assert quarters.sub(0.25).abs().max() < 0.06


@pytest.mark.parametrize("have", [(100, 100), (60, 100), (400, 10), (10, 400), (3, 2)])
@pytest.mark.parametrize("want", [(8, 8), (8, 24)])
def test_a_crop_lies_in_the_image_and_shows_the_least_area_of_an_image_of_any_form(have, want):
    for crop in drawn(0.2):
        left, top, right, bottom = box = crop_box(have, want, crop)
        assert 0 <= left < right <= have[0] and 0 <= top < bottom <= have[1]
        assert 0.2 - 1e-6 <= share(box, have) <= crop.area + 1e-6


def test_a_crop_that_fits_has_its_area_and_its_aspect_and_reaches_every_edge():
    middle, corner = (Crop(0.25, 4 / 3, at, at, 0.2) for at in (0.5, 1.0))
    left, top, right, bottom = crop_box((200, 100), (10, 20), middle)
    assert (right - left) / (bottom - top) == pytest.approx(2 * 4 / 3)
    assert share((left, top, right, bottom), (200, 100)) == pytest.approx(0.25)
    assert (left + right, top + bottom) == pytest.approx((200, 100))
    assert crop_box((200, 100), (10, 20), corner)[2:] == (200, 100)


def test_images_are_resized_bicubically_and_smoothed_before(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (90, 60, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    image.save(tmp_path / "x.png")
    expected = image.resize((10, 15), Image.Resampling.BICUBIC)
    assert np.array_equal(decode(tmp_path / "x.png", (15, 10)).permute(1, 2, 0), expected)
    assert np.asarray(expected).std() < pixels.std() / 3  # each pixel is a mean of many


def test_random_crops_are_what_torchvision_makes_of_the_same_box(tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    image.save(tmp_path / "x.png")
    crop = Crop(area=0.25, aspect=1.0, left=0.5, top=0.25, least=0.08)
    (made,) = random_crops(open_image(tmp_path / "x.png"), "x", (24, 24), [crop])
    left, top, right, bottom = (round(edge) for edge in crop_box((64, 64), (24, 24), crop))
    expected = resized_crop(image, top, left, bottom - top, right - left, [24, 24], InterpolationMode.BICUBIC)
    inner = (slice(None), slice(3, -3), slice(3, -3))  # beyond the box there are pixels here, and there none
    assert torch.equal(made[inner], pil_to_tensor(expected)[inner])


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
def test_what_a_camera_of_fewer_bits_saw_is_not_black(tmp_path, bits):
    values = np.linspace(0, 2**bits - 1, 64).astype(np.uint16).reshape(8, 8)
    Image.fromarray(values).save(tmp_path / "x.png")
    found = decode(tmp_path / "x.png", (8, 8))[0]
    assert (found.int() - torch.linspace(0, 255, 64).reshape(8, 8)).abs().max() <= 1


def test_an_image_of_other_proportions_is_cropped_squashed_or_padded(tmp_path):
    """Left red, middle green, right blue, 64 by 20."""
    wide = np.zeros((20, 64, 3), dtype=np.uint8)
    for k, columns in enumerate((slice(0, 16), slice(16, 48), slice(48, 64))):
        wide[:, columns, k] = 255
    Image.fromarray(wide).save(tmp_path / "x.png")

    def seen(fit):
        return fitted(open_image(tmp_path / "x.png"), "x", (16, 16), 1.0, "nearest", fit)

    assert seen("crop").float().mean((1, 2)).tolist() == [0, 255, 0]
    assert seen("squash").float().mean((1, 2)).tolist() == [255 / 4, 255 / 2, 255 / 4]
    padded = seen("pad")
    rows = padded.sum((0, 2)).nonzero().flatten().tolist()
    assert rows == [5, 6, 7, 8, 9] and (padded[:, 7] == seen("squash")[:, 7]).all()
