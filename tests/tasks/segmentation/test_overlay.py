from __future__ import annotations

import pytest
import small
import torch

from teachaugment.batch import IGNORE, Batch
from teachaugment.tasks.segmentation.overlay import OPACITY, overlay, palette, predictions
from teachaugment.tasks.segmentation.task import Segmentation

CLASSES = ["road", "sky", "a class with a long name"]


def batch(channels: int = 3) -> Batch:
    mask = torch.zeros(3, 16, 24, dtype=torch.int64)
    mask[:, :5], mask[:, 12:] = 1, IGNORE
    return Batch(torch.rand(3, channels, 16, 24), None, mask)


def test_known_pixels_take_the_colour_of_their_class_and_unknown_ones_none():
    x, colors = batch(), palette(3)
    seen = overlay(x.image, x.mask, colors)
    assert torch.equal(seen[:, :, 12:], x.image[:, :, 12:])
    sky = torch.tensor(colors[1]).view(3, 1, 1) / 255
    grey = x.image[:, :, :5].mean(1, keepdim=True)
    assert torch.allclose(seen[:, :, :5], (1 - OPACITY) * grey + OPACITY * sky, atol=1e-6)


def test_colours_differ():
    assert len(set(palette(40))) == 40


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_a_picture_shows_images_and_masks_with_a_legend(channels):
    x = batch(channels)
    plain = Segmentation(small.dataset(CLASSES)).comparison(x, [x, x])
    shown = predictions(x, x.mask, CLASSES, palette(3))
    for picture in (plain, shown):
        colors = {color for _, color in picture.getcolors(10**6) or []}
        assert set(palette(3)) <= colors
