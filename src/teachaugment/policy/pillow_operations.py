"""What a ``OneOperation`` policy has drawn for one picture, by Pillow and NumPy, as a worker of a loader needs it.

The operations are those of ``augment/operations.py``, by the same names and with the same strengths. Most of them give
each level of a channel another one, so they are a table of 256. The result is a level or so of 255 from what a batch
gets.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageEnhance
from torch import Tensor

from teachaugment.augment import operations
from teachaugment.augment.one_operation import ALL_OR_NOTHING, COLORS, FIRST_COLOR, FIRST_MOVE, MOVES, Draw, reached
from teachaugment.augment.operations import LEVELS
from teachaugment.policy.one_image import Array

LEVEL = np.arange(LEVELS + 1, dtype=np.float32)

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
    return ImageEnhance.Color(picture).enhance(1 + change)


def sharpness(picture: Image.Image, change: float) -> Image.Image:
    if min(picture.size) < 3:
        return picture
    pixels = np.array(picture)
    nine = pixels[:-2].astype(np.int16)  # the sum of a pixel and its neighbours
    nine += pixels[1:-1]
    nine += pixels[2:]
    nine = nine[:, :-2] + nine[:, 1:-1] + nine[:, 2:]
    middle = pixels[1:-1, 1:-1]
    away = (9 * middle.astype(np.int16) - nine) * np.float32(change / 13)
    away += middle
    middle[:] = np.rint(away, out=away).clip(0, LEVELS, out=away)
    return Image.fromarray(pixels)


PICTURES: dict[Callable[..., Tensor], Callable[[Image.Image, float], Image.Image]] = {
    operations.color: color,
    operations.sharpness: sharpness,
}

# --- what was drawn ---------------------------------------------------------------------------------------------------


def colored(picture: Image.Image, drawn: Draw) -> Image.Image:
    """A picture of mode L or RGB after the operation drawn for it, if that is one of colours."""
    number, strength = int(drawn.operation), float(drawn.strength)
    if not FIRST_COLOR <= number < FIRST_MOVE:
        return picture
    operation = COLORS[number - FIRST_COLOR]
    amount = operation.reach * (strength if operation.signed else abs(strength))
    if operation.function in PICTURES:
        return PICTURES[operation.function](picture, amount)
    table = TABLES[operation.function](picture, amount)
    if operation.function in ALL_OR_NOTHING:
        table = LEVEL + abs(strength) * (table - LEVEL)
    levels = np.broadcast_to(np.rint(table).clip(0, LEVELS).astype(int), (len(picture.getbands()), len(LEVEL)))
    return picture.point(levels.ravel().tolist())


def matrix(drawn: Draw, size: tuple[int, int]) -> Tensor | None:
    """Where a picture of this width and height is read, [2, 3] in coordinates from -1 to 1; None: where it was."""
    number = int(drawn.operation)
    if number < FIRST_MOVE:
        return None
    operation = MOVES[number - FIRST_MOVE]
    return operations.in_coordinates(operation.function(reached(operation, drawn.strength)), size[::-1])[0]
