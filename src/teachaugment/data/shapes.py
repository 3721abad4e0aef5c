"""The embedded data set ``shapes``: coloured figures on cluttered ground, drawn by formula, with label and mask.

The training images are narrow: figures stand nearly upright in the middle, and each class has its own few colours
and a light figure on darker ground. The test images vary in pose, colour, brightness and contrast. A network
that sees few training images learns the colours and the pose with the figure; augmentation is what can stop it.
Both splits come from the same code and differ only in their ``Ranges`` and in the random stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from teachaugment import seeds
from teachaugment.data.finish import finish_in_memory
from teachaugment.data.reading import Reading
from teachaugment.data.splits import DataSet, Split, statistics
from teachaugment.errors import UserError

Array = NDArray[np.float32]
Random = np.random.Generator

CHUNK = 50  # images drawn at a time: fits the processor's cache, and makes a smaller set the beginning of a larger one


@dataclass(frozen=True)
class Ranges:
    """How far the images of one split vary."""

    rotation: float  # degrees, either way
    shear: float  # either way
    scale: tuple[float, float]  # radius of the figure, as a share of half the image
    stretch: float  # log of the aspect ratio, either way
    shift: float  # of the centre, as a share of half the image, either way
    own_colors: float  # share of figures in a colour of their class; the others have any colour
    lightness: tuple[float, float]  # of the figure, before contrast and brightness
    ground: tuple[float, float]  # lightness of the background
    contrast: tuple[float, float]
    brightness: float  # added to all pixels, either way
    noise: float  # standard deviation per pixel


TRAIN = Ranges(
    rotation=8,
    shear=0.04,
    scale=(0.56, 0.64),
    stretch=0.04,
    shift=0.1,
    own_colors=0.7,
    lightness=(0.7, 0.9),
    ground=(0.2, 0.45),
    contrast=(0.9, 1.1),
    brightness=0.05,
    noise=0.03,
)
TEST = Ranges(
    rotation=35,
    shear=0.2,
    scale=(0.5, 0.7),
    stretch=0.15,
    shift=0.15,
    own_colors=0.0,
    lightness=(0.55, 0.95),
    ground=(0.15, 0.5),
    contrast=(0.65, 1.35),
    brightness=0.2,
    noise=0.03,
)


def _polygon(x: Array, y: Array, corners: list[tuple[float, float]]) -> Array:
    """Signed distance to a polygon: negative inside. After I. Quilez, "2D distance functions"."""
    squared = np.full_like(x, np.inf)
    inside = np.zeros(x.shape, dtype=bool)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        ex, ey = np.float32(x1 - x0), np.float32(y1 - y0)
        wx, wy = x - np.float32(x0), y - np.float32(y0)
        t = np.clip((wx * ex + wy * ey) / (ex * ex + ey * ey), 0, 1)
        squared = np.minimum(squared, (wx - t * ex) ** 2 + (wy - t * ey) ** 2)
        crosses = (wy >= 0) != (y >= np.float32(y1))
        inside ^= crosses & ((ex * wy > wx * ey) == (ey > 0))
    return np.where(inside, -1, 1).astype(np.float32) * np.sqrt(squared)


def _radius(x: Array, y: Array) -> Array:
    return np.sqrt(x * x + y * y)


def _circle_points(n: int, radii: tuple[float, ...], turn: float = -0.5) -> list[tuple[float, float]]:
    """``n`` points around the origin, the radii in turn; the first one at the top."""
    angles = np.pi * (turn + 2 * np.arange(n) / n)
    return [
        (float(radii[i % len(radii)] * np.cos(a)), float(radii[i % len(radii)] * np.sin(a)))
        for i, a in enumerate(angles)
    ]


def _mirrored(right: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """A closed outline from its right half, top to bottom."""
    return right + [(-x, y) for x, y in reversed(right)]


def _heart_points() -> list[tuple[float, float]]:
    t = np.linspace(0, 2 * np.pi, 20, endpoint=False)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return [(float(a / 16.5), float((b - 2) / 16.5)) for a, b in zip(x, y, strict=True)]


_PLUS = _mirrored([(0.3, -1), (0.3, -0.3), (1, -0.3), (1, 0.3), (0.3, 0.3), (0.3, 1)])
_TEE = _mirrored([(0.9, -0.85), (0.9, -0.3), (0.28, -0.3), (0.28, 0.9)])
_HOURGLASS = _mirrored([(0.8, -0.9), (0.12, 0.0), (0.8, 0.9)])

# Distance functions of figures of radius about 1, y pointing down. No two are alike under a turn of 45 degrees and a
# moderate shear, nor under a mirror, so the augmentations that are usual for photographs keep the label.
FIGURES: dict[str, Callable[[Array, Array], Array]] = {
    "crescent": lambda x, y: np.maximum(_radius(x, y) - 0.95, 0.72 - _radius(x - 0.45, y)),
    "disk": lambda x, y: _radius(x, y) - 0.88,
    "heart": lambda x, y: _polygon(x, y, _heart_points()),
    "hourglass": lambda x, y: _polygon(x, y, _HOURGLASS),
    "plus": lambda x, y: _polygon(x, y, _PLUS),
    "ring": lambda x, y: np.abs(_radius(x, y) - 0.72) - 0.22,
    "square": lambda x, y: _polygon(x, y, _circle_points(4, (1.13,), turn=-0.25)),
    "star": lambda x, y: _polygon(x, y, _circle_points(10, (1.1, 0.46))),
    "tee": lambda x, y: _polygon(x, y, _TEE),
    "triangle": lambda x, y: _polygon(x, y, _circle_points(3, (1.15,))),
}
CLASSES = list(FIGURES)
MASK_CLASSES = ["background", *CLASSES]


def between(rng: Random, low: float, high: float, *shape: int) -> Array:
    return rng.uniform(low, high, shape).astype(np.float32)


def _color(hue: Array, saturation: Array, lightness: Array) -> Array:
    """[N, 3] from [N] each: full hue circle, lightness is the largest channel."""
    wheel = np.abs((hue[:, None] * 6 + np.array([0, 4, 2], dtype=np.float32)) % 6 - 3) - 1
    return lightness[:, None] * (1 - saturation[:, None] * (1 - np.clip(wheel, 0, 1)))


def ground(rng: Random, n: int, x: Array, y: Array, r: Ranges) -> Array:
    """Backgrounds [N, 3, H, W]: a gradient between two colours, waves, and clutter of spots and strokes."""

    def color() -> Array:
        light = between(rng, *r.ground, n)
        return _color(between(rng, 0, 1, n), between(rng, 0.1, 0.7, n), light)[..., None, None]

    def column(low: float, high: float) -> Array:
        return between(rng, low, high, n, 1, 1)

    angle, phase = column(0, 2 * np.pi), column(0, 2 * np.pi)
    along = x * np.cos(angle) + y * np.sin(angle)
    turn, frequency = column(0, 2 * np.pi), column(3, 9)
    wave = np.sin(frequency * (x * np.cos(turn) + y * np.sin(turn)) + phase)
    blend = np.clip(0.5 + 0.4 * along + column(0.05, 0.25) * wave, 0, 1)[:, None]
    image = (1 - blend) * color() + blend * color()

    pixel = 2 / x.shape[-1]
    for _ in range(3):  # spots
        distance = _radius(x - column(-1, 1), y - column(-1, 1)) - column(0.04, 0.16)
        cover = np.clip(0.5 - distance / pixel, 0, 1)[:, None]
        image += cover * (color() * 1.6 - image)
    for _ in range(2):  # strokes
        angle = column(0, 2 * np.pi)
        c, s = np.cos(angle), np.sin(angle)
        u, v = x - column(-1, 1), y - column(-1, 1)
        along = np.maximum(np.abs(u * c + v * s) - column(0.1, 0.5), 0)
        cover = np.clip(0.5 - (_radius(along, v * c - u * s) - 0.03) / pixel, 0, 1)[:, None]
        image += cover * (color() * 1.6 - image)
    return image


def cover(rng: Random, label: NDArray[np.int64], x: Array, y: Array, r: Ranges) -> Array:
    """How much of each pixel the figure covers, [N, H, W] in [0, 1]."""
    n = len(label)
    angle = np.deg2rad(between(rng, -r.rotation, r.rotation, n))
    cos, sin = np.cos(angle), np.sin(angle)
    scale, aspect = between(rng, *r.scale, n), np.exp(between(rng, -r.stretch, r.stretch, n) / 2)
    shear = between(rng, -r.shear, r.shear, n)
    # Figure to image: rotate after shear after stretch. The pixels need its inverse.
    one, zero = np.ones_like(shear), np.zeros_like(shear)
    rotate = np.stack([cos, -sin, sin, cos], -1).reshape(n, 2, 2)
    lean = np.stack([one, shear, zero, one], -1).reshape(n, 2, 2)
    stretch = np.stack([scale * aspect, zero, zero, scale / aspect], -1).reshape(n, 2, 2)
    inverse = np.linalg.inv(rotate @ lean @ stretch)[..., None, None]
    dx, dy = x - between(rng, -r.shift, r.shift, n, 1, 1), y - between(rng, -r.shift, r.shift, n, 1, 1)
    u = inverse[:, 0, 0] * dx + inverse[:, 0, 1] * dy
    v = inverse[:, 1, 0] * dx + inverse[:, 1, 1] * dy
    distance = np.empty_like(u)
    for k, figure in enumerate(FIGURES.values()):
        mine = label == k
        distance[mine] = figure(u[mine], v[mine])
    pixels = scale[:, None, None] * x.shape[-1] / 2  # per unit of distance; the shear is small enough to leave out
    return np.clip(0.5 - distance * pixels, 0, 1)


def figure_color(rng: Random, label: NDArray[np.int64], r: Ranges) -> Array:
    """Figure colours [N, 3]. A class's own colours are two hues a third of the circle apart."""
    n = len(label)
    own = label / len(CLASSES) + rng.integers(0, 2, n) / 3 + rng.uniform(-0.03, 0.03, n)
    hue = np.where(rng.uniform(0, 1, n) < r.own_colors, own, rng.uniform(0, 1, n)) % 1
    return _color(hue.astype(np.float32), between(rng, 0.5, 0.9, n), between(rng, *r.lightness, n))


def _draw(rng: Random, label: NDArray[np.int64], size: int, r: Ranges) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images [N, 3, H, W] and masks [N, H, W] of the given classes."""
    n = len(label)
    line = ((np.arange(size, dtype=np.float32) + 0.5) * 2 / size - 1).astype(np.float32)
    x, y = np.broadcast_to(line, (1, size, size)), np.broadcast_to(line[:, None], (1, size, size))
    covered = cover(rng, label, x, y, r)
    image = ground(rng, n, x, y, r)
    paint = figure_color(rng, label, r)[..., None, None]
    shade = 1 + between(rng, -0.15, 0.15, n, 1, 1) * x + between(rng, -0.15, 0.15, n, 1, 1) * y
    image += covered[:, None] * (paint * shade[:, None] - image)
    contrast, brightness = (
        between(rng, *r.contrast, n, 1, 1, 1),
        between(rng, -r.brightness, r.brightness, n, 1, 1, 1),
    )
    image = (image - 0.5) * contrast + 0.5 + brightness
    image += r.noise * rng.standard_normal(image.shape, dtype=np.float32)
    mask = np.where(covered >= 0.5, label[:, None, None] + 1, 0)
    return (np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8), mask.astype(np.uint8)


def generate(n: int, size: int, ranges: Ranges, *parts: int | str) -> Split:
    """``n`` images, the classes in turn; ``parts`` name the random stream."""
    label = np.arange(n, dtype=np.int64) % len(CLASSES)
    image, mask = np.empty((n, 3, size, size), dtype=np.uint8), np.empty((n, size, size), dtype=np.uint8)
    for start in range(0, n, CHUNK):
        rng = np.random.default_rng(seeds.derive("shapes", *parts, start))
        # Always a whole chunk, and cut afterwards: the images must not depend on how many are asked for.
        whole = np.arange(start, start + CHUNK, dtype=np.int64) % len(CLASSES)
        end = min(n, start + CHUNK)
        image[start:end], mask[start:end] = (part[: end - start] for part in _draw(rng, whole, size, ranges))
    return Split(torch.from_numpy(image), torch.from_numpy(label), torch.from_numpy(mask))


def shapes(train: int = 1000, test: int = 2000, size: int = 32, seed: int = 0) -> DataSet:
    """The data set; a function of its arguments alone. Mask: 0 is background, class k is k + 1."""
    if size < 8:
        raise UserError(f"size is {size}; shapes needs at least 8 pixels to be told apart")
    first = generate(train, size, TRAIN, seed, "train")
    second = generate(test, size, TEST, seed, "test")
    mean, std = statistics("shapes", first.image)
    name = f"shapes:{seed}" if seed else "shapes"
    return DataSet(name, first, second, CLASSES, 3, (size, size), mean, std)


def load_shapes(source: str | Path, reading: Reading) -> DataSet:
    """The data set as a format among others: a class for each image. ``shapes:7`` is another draw of the same kind."""
    _, colon, seed = str(source).partition(":")
    if colon and not (seed.isascii() and seed.isdigit() and len(seed) < 10):
        raise UserError(f"{source}: shapes: must be followed by a number, such as shapes:7")
    shape = reading.shape or (32, 32)
    if shape[0] != shape[1]:
        raise UserError(f"size is {reading.size}; the images of {source} are square")
    made = shapes(size=shape[0], seed=int(seed or 0))
    assert isinstance(made.train, Split) and isinstance(made.test, Split)
    return finish_in_memory(made.name, made.train, made.test, made.classes, reading)


def load_shape_masks(source: str | Path, reading: Reading) -> DataSet:
    """The data set as a format among others: a mask for each image."""
    if reading.crop is not None or reading.scale != 1 or reading.ignore is not None:
        raise UserError("data.crop, data.scale and data.ignore are for images in files, not for shapes")
    return replace(load_shapes(source, reading), classes=MASK_CLASSES)
