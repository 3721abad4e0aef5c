from __future__ import annotations

import pytest
import torch

from teachaugment.show.pictures import comparison, to_tensor


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_any_number_of_channels_can_be_shown(channels):
    images = torch.rand(3, channels, 8, 8)
    sheet = comparison(images, [images, images], ["a", "b", "a very long name " * 20])
    assert sheet.mode == "RGB" and to_tensor(sheet).shape == (3, sheet.height, sheet.width)


def test_small_images_are_enlarged_and_large_ones_shrunk():
    small = comparison(torch.rand(1, 3, 32, 32), [torch.rand(1, 3, 32, 32)], ["a"])
    large = comparison(torch.rand(1, 3, 500, 400), [torch.rand(1, 3, 500, 400)], ["a"])
    assert small.height >= 96 and large.height < 300


def test_pixels_stay_what_they_are():
    red = torch.zeros(1, 3, 32, 32)
    red[:, 0] = 1
    colors = comparison(red, [1 - red], ["a"]).getcolors()
    assert {(255, 0, 0), (0, 255, 255)} <= {color for _, color in colors or []}
