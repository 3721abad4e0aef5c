"""What an augmentation did to images in words people use: rotation, scale, shear, shift, brightness, contrast."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Quantity(NamedTuple):
    """One number per image, and the value it has where nothing was changed."""

    unit: str
    neutral: float
    values: Tensor  # [B]


def geometry(matrix: Tensor, height: int, width: int) -> dict[str, Quantity]:
    """Warps [B, 2, 3] in coordinates from -1 to 1, taken apart: a shear, then scales, then a rotation, then a shift.

    A warp says where each output pixel is read, so what happens to the image is its inverse. Angles are measured in
    pixels, clockwise; shifts are shares of the width and the height.
    """
    matrix = matrix.double()
    inverse = torch.linalg.inv(matrix[:, :, :2])
    shift = -(inverse @ matrix[:, :, 2:])[:, :, 0] / 2
    side = torch.tensor([width, height], dtype=torch.float64, device=matrix.device)
    pixels = inverse * side[:, None] / side[None, :]
    a, b, c, d = pixels.flatten(1).unbind(1)
    area = a * d - b * c
    return {
        "rotation": Quantity("°", 0.0, torch.rad2deg(torch.atan2(c, a))),
        "scale": Quantity("×", 1.0, area.abs().sqrt()),
        "shear": Quantity("°", 0.0, torch.rad2deg(torch.atan((a * b + c * d) / area))),
        "shift right": Quantity(" %", 0.0, 100 * shift[:, 0]),
        "shift down": Quantity(" %", 0.0, 100 * shift[:, 1]),
    }


def color(before: Tensor, after: Tensor) -> dict[str, Quantity]:
    """Images [B, C, H, W] before and after a change of their colours.

    Brightness is the change of the mean, contrast the ratio of the standard deviations, and the colour shift how far
    the mean colour moved away from where a change of brightness alone would have put it.
    """
    moved = after.flatten(2).mean(2) - before.flatten(2).mean(2)
    brightness = moved.mean(1)
    spread = [image.mean(1).flatten(1).std(1) for image in (before, after)]
    found = {
        "brightness": Quantity(" %", 0.0, 100 * brightness),
        "contrast": Quantity("×", 1.0, spread[1] / spread[0].clamp_min(1e-3)),
    }
    if before.shape[1] > 1:
        away = (moved - brightness[:, None]).square().mean(1).sqrt()
        found["colour shift"] = Quantity(" %", 0.0, 100 * away)
    return found
