"""The embedded data set ``figures``: images with up to four of the figures of ``shapes`` in them, and their boxes.

As with ``shapes``, figures of the training images stand nearly upright, in a few colours of their class, and those of
the test images vary in pose, colour, brightness and contrast.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from teachaugment import seeds
from teachaugment.batch import NO_BOX
from teachaugment.data.finish import finish_in_memory
from teachaugment.data.reading import Reading
from teachaugment.data.shapes import CLASSES, TEST, TRAIN, Array, Ranges, between, cover, figure_color, ground
from teachaugment.data.splits import DataSet, Split
from teachaugment.errors import UserError

MOST = 4  # figures in an image
SIDE, TRAINING, TESTED = 96, 500, 300  # pixels of an image, and how many there are
CHUNK = 50  # images drawn at a time
SCALE, SHIFT = (0.2, 0.42), 0.62  # radius of a figure and its place, as shares of half the image
SHARED = 0.1  # of a figure's box that an earlier one may cover


def generate(n: int, size: int, ranges: Ranges, *parts: int | str) -> Split:
    """``n`` images with their boxes; ``parts`` name the random stream."""
    image, boxes = np.empty((n, 3, size, size), np.uint8), np.empty((n, MOST, 5), np.float32)
    for start in range(0, n, CHUNK):
        rng = np.random.default_rng(seeds.derive("figures", *parts, start))
        end = min(n, start + CHUNK)
        # Always a whole chunk, and cut afterwards: the images must not depend on how many are asked for.
        drawn, around = _draw(rng, size, replace(ranges, scale=SCALE, shift=SHIFT))
        image[start:end], boxes[start:end] = drawn[: end - start], around[: end - start]
    return Split(torch.from_numpy(image), torch.zeros(n, dtype=torch.int64), boxes=torch.from_numpy(boxes))


def _draw(rng: np.random.Generator, size: int, r: Ranges) -> tuple[NDArray[np.uint8], Array]:
    """A chunk of images [N, 3, H, W] and boxes [N, MOST, 5]."""
    line = ((np.arange(size, dtype=np.float32) + 0.5) * 2 / size - 1).astype(np.float32)
    x, y = np.broadcast_to(line, (1, size, size)), np.broadcast_to(line[:, None], (1, size, size))
    image = ground(rng, CHUNK, x, y, r)
    boxes = np.full((CHUNK, MOST, 5), NO_BOX, np.float32)
    count = rng.integers(1, MOST + 1, CHUNK)
    for k in range(MOST):
        label = rng.integers(0, len(CLASSES), CHUNK)
        covered, color = cover(rng, label, x, y, r), figure_color(rng, label, r)
        box = _around(covered >= 0.5)
        free = _shared(box, boxes[:, :k]) <= SHARED if k else np.ones(CHUNK, bool)
        drawn = free & (k < count)
        image += (drawn[:, None, None] * covered)[:, None] * (color[..., None, None] - image)
        boxes[drawn, k] = np.concatenate([box, label[:, None]], 1)[drawn]
    contrast, brightness = between(rng, *r.contrast, CHUNK, 1, 1, 1), between(rng, -r.brightness, r.brightness, CHUNK)
    image = (image - 0.5) * contrast + 0.5 + brightness[:, None, None, None]
    image += r.noise * rng.standard_normal(image.shape, dtype=np.float32)
    return (np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8), boxes


def _around(inside: NDArray[np.bool_]) -> Array:
    """The boxes [N, 4] around what is true in [N, H, W]."""
    size = inside.shape[-1]
    columns, rows = np.asarray(inside.any(1)), np.asarray(inside.any(2))
    sides = [columns.argmax(1), rows.argmax(1), size - columns[:, ::-1].argmax(1), size - rows[:, ::-1].argmax(1)]
    return np.stack(sides, 1).astype(np.float32)


def _shared(box: Array, others: Array) -> Array:
    """The largest share of each box [N, 4] that one of the others [N, K, 5] covers."""
    sides = np.minimum(box[:, None, 2:], others[..., 2:4]) - np.maximum(box[:, None, :2], others[..., :2])
    area = np.clip(sides, 0, None).prod(-1) * (others[..., 4] != NO_BOX)
    smaller = np.minimum((box[:, 2:] - box[:, :2]).prod(1)[:, None], (others[..., 2:4] - others[..., :2]).prod(-1))
    return (area / np.maximum(smaller, 1)).max(1)


def load_figures(source: str | Path, reading: Reading) -> DataSet:
    """The data set as a format among others. ``shapes:7`` is another draw of the same kind."""
    _, colon, seed = str(source).partition(":")
    if colon and not (seed.isascii() and seed.isdigit() and len(seed) < 10):
        raise UserError(f"{source}: shapes: must be followed by a number, such as shapes:7")
    if reading.per_class is not None:
        raise UserError("data.per_class is for classification; an image with boxes has no class of its own")
    height, width = reading.shape or (SIDE, SIDE)
    if height != width or height < 32:
        raise UserError(f"size is {reading.size}; the images of {source} are square, of at least 32 pixels")
    train = generate(TRAINING, height, TRAIN, int(seed or 0), "train")
    test = generate(TESTED, height, TEST, int(seed or 0), "test")
    return finish_in_memory(str(source), train, test, list(CLASSES), reading)
