"""What a ``OneOperation`` policy has drawn for one picture, by Pillow and NumPy, as a worker of a loader needs it.

The operations are those of ``augment/operations.py``, by the same names and with the same strengths. Most of them give
each level of a channel another one, so they are a table of 256. The result is a level or so of 255 from what a batch
gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from teachaugment.augment import operations
from teachaugment.augment.fixed import GREY
from teachaugment.augment.one_operation import (
    ALL_OR_NOTHING,
    COLORS,
    COUNT,
    FIRST_COLOR,
    FIRST_MOVE,
    MOVES,
    PLAIN,
    Draw,
)
from teachaugment.augment.operations import LEVELS
from teachaugment.policy.one_image import Array

Row = tuple[float, float, float]
Matrix = tuple[Row, Row]
LEVEL = np.arange(LEVELS + 1, dtype=np.float32)
STRIP = 64  # rows that are sharpened at a time, so that what is between stays in the processor's cache

# --- tables: what each level becomes, [256] or [channels, 256]; rounded and bounded where they are applied ------------


def solarize(_: Image.Image, strength: float) -> Array:
    return np.where(LEVELS * (1 - strength) < LEVEL, LEVELS - LEVEL, LEVEL)


def posterize(_: Image.Image, bits: float) -> Array:
    step = 2 ** round(bits)
    return LEVEL // step * step


def brightness(_: Image.Image, change: float) -> Array:
    return (1 + change) * LEVEL


def contrast(picture: Image.Image, change: float) -> Array:
    counts = np.array(picture.convert("L").histogram())
    return LEVEL + change * (LEVEL - counts @ LEVEL / counts.sum())


def auto_contrast(picture: Image.Image, _: float) -> Array:
    low, high = np.array(picture.getextrema(), dtype=np.float32).reshape(-1, 2).T[..., None]
    return np.where(high > low, (LEVEL - low) * LEVELS / np.maximum(high - low, 1), LEVEL)


def equalize(picture: Image.Image, _: float) -> Array:
    counts = np.array(picture.histogram()).reshape(-1, len(LEVEL))
    highest = np.array([channel[channel.nonzero()[0][-1]] for channel in counts])[:, None]
    step = (counts.sum(1, keepdims=True) - highest) // LEVELS
    below = counts.cumsum(1) - counts
    return np.where(step > 0, (below + step // 2) // np.maximum(step, 1), LEVEL)


TABLES: dict[Callable[..., Tensor], Callable[[Image.Image, float], Array]] = {
    operations.solarize: solarize,
    operations.posterize: posterize,
    operations.contrast: contrast,
    operations.brightness: brightness,
    operations.auto_contrast: auto_contrast,
    operations.equalize: equalize,
}

# --- pictures --------------------------------------------------------------------------------------------------------


def color(picture: Image.Image, change: float) -> Image.Image:
    if picture.mode == "L":
        return picture
    away = np.hstack([np.eye(3) + change * (np.eye(3) - GREY), np.zeros((3, 1))])  # 1 + change times as far from grey
    return picture.convert("RGB", tuple(away.ravel()))


def sharpness(picture: Image.Image, change: float) -> Image.Image:
    if min(picture.size) < 3:
        return picture
    plain, made = np.asarray(picture), np.array(picture)
    for top in range(0, len(plain) - 2, STRIP):
        rows = plain[top : top + STRIP + 2]
        nine = rows[:-2].astype(np.int16)  # the sum of a pixel and its neighbours
        nine += rows[1:-1]
        nine += rows[2:]
        nine = nine[:, :-2] + nine[:, 1:-1] + nine[:, 2:]
        middle = rows[1:-1, 1:-1]
        away = (9 * middle.astype(np.int16) - nine) * np.float32(change / 13)
        away += middle
        made[top + 1 : top + 1 + len(middle), 1:-1] = np.rint(away, out=away).clip(0, LEVELS, out=away)
    return Image.fromarray(made)


PICTURES: dict[Callable[..., Tensor], Callable[[Image.Image, float], Image.Image]] = {
    operations.color: color,
    operations.sharpness: sharpness,
}

# --- matrices: where to read, in pixels from the centre; shifts in sides of the image --------------------------------


def rotate(degrees: float) -> Matrix:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return (cos, sin, 0), (-sin, cos, 0)


MATRICES: dict[Callable[..., Tensor], Callable[[float], Matrix]] = {
    operations.shear_x: lambda slope: ((1, slope, 0), (0, 1, 0)),
    operations.shear_y: lambda slope: ((1, 0, 0), (slope, 1, 0)),
    operations.translate_x: lambda side: ((1, 0, side), (0, 1, 0)),
    operations.translate_y: lambda side: ((1, 0, 0), (0, 1, side)),
    operations.rotate: rotate,
}

# --- what was drawn ---------------------------------------------------------------------------------------------------


def draw(strength: float, shares: Tensor) -> Draw:
    """What ``OneOperation.sample`` draws for one image of the same random numbers, weakened; in fewer steps."""
    number = torch.randint(FIRST_COLOR, COUNT, (1,))
    if float(torch.rand(1)) < PLAIN:
        number.zero_()
    reach = strength * float(shares[number])
    return Draw(number, torch.randint(2, (1,), dtype=torch.float32).mul_(2 * reach).sub_(reach))


def colored(picture: Image.Image, number: int, strength: float) -> Image.Image:
    """A picture of mode L or RGB after the operation of this number, if that is one of colours."""
    if not FIRST_COLOR <= number < FIRST_MOVE:
        return picture
    operation = COLORS[number - FIRST_COLOR]
    amount = operation.reach * (strength if operation.signed else abs(strength))
    if operation.function in PICTURES:
        return PICTURES[operation.function](picture, amount)
    table = TABLES[operation.function](picture, amount)
    if operation.function in ALL_OR_NOTHING:
        table = LEVEL + abs(strength) * (table - LEVEL)
    levels = np.rint(table).clip(0, LEVELS).astype(int).ravel().tolist()
    return picture.point(levels * (len(picture.getbands()) * len(LEVEL) // len(levels)))


def matrix(number: int, strength: float, size: tuple[int, int]) -> Matrix | None:
    """Where a picture of this width and height is read, in coordinates from -1 to 1; None: where it was."""
    if number < FIRST_MOVE:
        return None
    operation, (width, height) = MOVES[number - FIRST_MOVE], size
    (a, b, c), (d, e, f) = MATRICES[operation.function](operation.reach * strength)
    return (a, b * height / width, 2 * c), (d * width / height, e, 2 * f)
