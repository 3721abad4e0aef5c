from __future__ import annotations

import math

import pytest
import torch

from teachaugment.augment.functional import affine_warp
from teachaugment.commands.report.transform import color, geometry


def matrix(angle=0.0, scale=1.0, shear=0.0, shift=(0.0, 0.0), height=32, width=32) -> torch.Tensor:
    """The warp that reads an image so that it appears sheared, scaled, turned clockwise by degrees, then shifted."""
    turn, lean = math.radians(angle), math.tan(math.radians(shear))
    rotation = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]], dtype=torch.float64)
    forward = rotation @ (scale * torch.tensor([[1, lean], [0, 1]], dtype=torch.float64))
    side = torch.tensor([width, height], dtype=torch.float64)
    forward = forward / side[:, None] * side[None, :]  # from pixels to coordinates from -1 to 1
    inverse = torch.linalg.inv(forward)
    return torch.cat([inverse, -inverse @ (2 * torch.tensor(shift, dtype=torch.float64))[:, None]], 1)[None]


@pytest.mark.parametrize("size", [(32, 32), (20, 60)])
@pytest.mark.parametrize(
    "made",
    [{}, {"angle": 20}, {"scale": 1.3}, {"shear": -12}, {"shift": (0.1, -0.2)},
     {"angle": -35, "scale": 0.8, "shear": 9, "shift": (-0.05, 0.15)}],
)  # fmt: skip
def test_a_warp_is_taken_apart_into_what_it_was_made_of(made, size):
    height, width = size
    found = geometry(matrix(**made, height=height, width=width), height, width)
    right, down = made.get("shift", (0, 0))
    expected = {
        "rotation": made.get("angle", 0),
        "scale": made.get("scale", 1),
        "shear": made.get("shear", 0),
        "shift right": 100 * right,
        "shift down": 100 * down,
    }
    assert {name: float(q.values[0]) for name, q in found.items()} == pytest.approx(expected, abs=1e-6)


def test_the_words_are_those_of_the_image_and_not_of_the_sampling_grid():
    image = torch.zeros(1, 1, 33, 33)
    image[0, 0, 16, 24] = 1  # to the right of the middle
    turned = affine_warp(image, matrix(angle=90, height=33, width=33).float())
    assert divmod(int(turned.argmax()), 33) == (24, 16)  # clockwise: now below it
    shifted = affine_warp(image, matrix(shift=(-8 / 33, 0), height=33, width=33).float())
    assert divmod(int(shifted.argmax()), 33) == (16, 16)


def test_brightness_contrast_and_colour_shift():
    image = torch.rand(4, 3, 8, 8) * 0.5 + 0.2
    brighter = color(image, image + 0.1)
    assert torch.allclose(brighter["brightness"].values, torch.full((4,), 10.0), atol=1e-3)
    assert torch.allclose(brighter["contrast"].values, torch.ones(4), atol=1e-3)
    assert float(brighter["colour shift"].values.abs().max()) < 1e-3
    assert torch.allclose(color(image, image * 0.5)["contrast"].values, torch.full((4,), 0.5), atol=1e-3)
    redder = image + torch.tensor([0.1, 0, 0])[:, None, None]
    assert float(color(image, redder)["colour shift"].values.min()) > 3
    assert "colour shift" not in color(image[:, :1], image[:, :1])
