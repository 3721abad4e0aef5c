"""The operations of AutoAugment, batched and differentiable, as Faster AutoAugment has them: pure functions.

Each takes images [B, C, H, W] in [0, 1] and how strongly to act on each of them [B]; strength 0 changes nothing. Where
the true gradient is zero or missing, a stand-in gives it (``straight_through``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from teachaugment.augment.fixed import grey
from teachaugment.augment.functional import affine_warp, straight_through

LEVELS = 255  # of an 8-bit image, as which PIL defines some of the operations
EDGE = 0.05  # half-width in colour of solarize's stand-in around the threshold
FILL = 0.5  # of cutout


def column(strength: Tensor) -> Tensor:
    return strength.view(-1, 1, 1, 1)


# --- colour -------------------------------------------------------------------------------------------------------


def invert(image: Tensor, _: Tensor) -> Tensor:
    return 1 - image


def solarize(image: Tensor, strength: Tensor) -> Tensor:
    """Invert what is lighter than 1 - strength. The stand-in inverts gradually around that threshold."""
    lighter = image - 1 + column(strength)
    hard = torch.where(lighter > 0, 1 - image, image)
    if not torch.is_grad_enabled():
        return hard
    return straight_through(hard, image + torch.sigmoid(lighter / EDGE) * (1 - 2 * image))


def posterize(image: Tensor, bits: Tensor) -> Tensor:
    """Clear the lowest bits. The stand-in darkens by what is cleared on average, half of the largest loss."""
    bits = column(bits)
    step = 2 ** bits.round()
    cleared = (LEVELS * image).round().div(step).floor() * step / LEVELS
    return straight_through(cleared, image - (2**bits - 1) / (2 * LEVELS))


def brightness(image: Tensor, change: Tensor) -> Tensor:
    return away_from(torch.zeros_like(image), image, change)


def contrast(image: Tensor, change: Tensor) -> Tensor:
    return away_from(grey(image).mean((2, 3), keepdim=True), image, change)


def color(image: Tensor, change: Tensor) -> Tensor:
    return away_from(grey(image), image, change)


def sharpness(image: Tensor, change: Tensor) -> Tensor:
    """PIL's: the outermost pixels have no neighbours to smooth with and stay."""
    if min(image.shape[2:]) < 3:
        return image
    middle = image[..., 1:-1, 1:-1]
    smooth = (9 * F.avg_pool2d(image, 3, 1) + 4 * middle) / 13  # weights 5 for the pixel, 1 for each of its neighbours
    return (image + column(change) * F.pad(middle - smooth, (1, 1, 1, 1))).clamp(0, 1)


def away_from(plain: Tensor, image: Tensor, change: Tensor) -> Tensor:
    """1 + change times the image's difference from a plain version of it, within [0, 1]."""
    return (image + column(change) * (image - plain)).clamp(0, 1)


def auto_contrast(image: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel to [0, 1]. In nearly flat images the true gradient would explode: the image stands in."""
    low, high = image.amin((2, 3), keepdim=True), image.amax((2, 3), keepdim=True)
    stretched = (image - low) / (high - low).clamp_min(1 / (2 * LEVELS))
    return straight_through(torch.where(high > low, stretched, image).clamp(0, 1), image)


def equalize(image: Tensor, _: Tensor) -> Tensor:
    """Spread each channel evenly over the 256 levels, by PIL's table. A table has no gradient: the image stands in."""
    b, c, height, width = image.shape
    level = (LEVELS * image.detach()).round().long().reshape(b * c, height * width)
    counts = torch.zeros(b * c, LEVELS + 1, dtype=torch.long, device=image.device)
    counts.scatter_add_(1, level, torch.ones_like(level))
    highest = counts.gather(1, level.amax(1, keepdim=True))
    step = (height * width - highest) // LEVELS
    below = counts.cumsum(1) - counts
    table = ((below + step // 2) // step.clamp_min(1)).clamp_max(LEVELS)
    table = torch.where(step > 0, table, torch.arange(LEVELS + 1, device=image.device))
    return straight_through(table.gather(1, level).reshape_as(image).to(image.dtype) / LEVELS, image)


def sample_pairing(image: Tensor, share: Tensor, other: Tensor) -> Tensor:
    """Mix in a share of another image."""
    return torch.lerp(image, other, column(share))


# --- geometry: where in the input to read, in pixels from the centre; shifts in sides of the image --------------------


def shear_x(slope: Tensor) -> Tensor:
    return matrix(slope, (0, 1))


def shear_y(slope: Tensor) -> Tensor:
    return matrix(slope, (1, 0))


def translate_x(side: Tensor) -> Tensor:
    return matrix(side, (0, 2))


def translate_y(side: Tensor) -> Tensor:
    return matrix(side, (1, 2))


def rotate(degrees: Tensor) -> Tensor:
    angle = torch.deg2rad(degrees)
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    return torch.stack([cos, sin, zero, -sin, cos, zero], -1).view(-1, 2, 3)


def flip(strength: Tensor) -> Tensor:
    return matrix(torch.full_like(strength, -2), (0, 0))


def matrix(value: Tensor, place: tuple[int, int]) -> Tensor:
    """Identities [B, 2, 3] with a value added at one place."""
    unit = value.new_zeros(2, 3)
    unit[place] = 1
    return torch.eye(2, 3, device=value.device, dtype=value.dtype) + value.view(-1, 1, 1) * unit


def in_coordinates(matrix: Tensor, size: Sequence[int]) -> Tensor:
    """The same map in coordinates from -1 to 1 on both axes, as ``affine_warp`` takes it; ``size``: height, width."""
    height, width = size
    scale = matrix.new_tensor([[1, height / width, 2], [width / height, 1, 2]])
    return matrix * scale


def warped(image: Tensor, matrix: Tensor) -> Tensor:
    return affine_warp(image, in_coordinates(matrix, image.shape[-2:]))


def cover(image: Tensor, side: Tensor, centre: Tensor) -> Tensor:
    """How much of each pixel lies in a square, [B, 1, H, W]: exact, and so with a gradient at its border.

    ``side`` is a share of the image's shorter side, ``centre`` [B, 2] lies between 0 and 1 on both axes.
    """
    height, width = image.shape[-2:]
    half = side[:, None] * min(height, width) / 2

    def overlap(length: int, middle: Tensor) -> Tensor:
        start = torch.arange(length, device=image.device, dtype=side.dtype)
        return (torch.minimum(start + 1, middle + half) - torch.maximum(start, middle - half)).clamp_min(0)

    rows, columns = overlap(height, height * centre[:, :1]), overlap(width, width * centre[:, 1:])
    return (rows[:, :, None] * columns[:, None, :])[:, None]


def cutout(image: Tensor, side: Tensor, centre: Tensor) -> Tensor:
    """Paint a square grey."""
    return image + cover(image, side, centre) * (FILL - image)


class Operation(NamedTuple):
    """An operation and how far it may go."""

    function: Callable[..., Tensor]
    reach: float = 0.0  # the strength at magnitude 1; 0: there is no magnitude to learn
    signed: bool = False  # it goes either way, each half of the time
    extra: str = ""  # what else it takes: "partner" images of the batch, or a "centre"

    @property
    def name(self) -> str:
        return self.function.__name__


# The reaches are AutoAugment's. Colour operations take images and strengths, affine ones strengths alone.
COLOR = (
    Operation(invert),
    Operation(solarize, 1.0),
    Operation(posterize, 4.0),
    Operation(contrast, 0.9, signed=True),
    Operation(color, 0.9, signed=True),
    Operation(brightness, 0.9, signed=True),
    Operation(sharpness, 0.9, signed=True),
    Operation(auto_contrast),
    Operation(equalize),
    Operation(sample_pairing, 0.4, extra="partner"),
)
AFFINE = (
    Operation(shear_x, 0.3, signed=True),
    Operation(shear_y, 0.3, signed=True),
    Operation(translate_x, 0.45, signed=True),
    Operation(translate_y, 0.45, signed=True),
    Operation(rotate, 30.0, signed=True),
    Operation(flip),
)
CUTOUT = Operation(cutout, 0.2, extra="centre")
OPERATIONS = (*COLOR, *AFFINE, CUTOUT)
