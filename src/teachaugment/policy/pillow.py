"""A policy's augmentation of one picture, by Pillow and NumPy: a uint8 image on a CPU, as a worker of a loader has it.

Within one image the colour map of a neural augmenter is a function of the colour, so it is a table, and the warp is an
affine transform. (``pillow_operations.py`` has the other augmenter, one operation for each image.) The result is a
level or so of 255 from what a batch gets; a mean difference is in docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms.v2 import functional as F

from teachaugment.augment.functional import lattice
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.augment.one_operation import Draw, OneOperation
from teachaugment.policy import pillow_operations
from teachaugment.policy.one_image import Array, ColorMap, OneDraw, draw_one
from teachaugment.policy.policy import Policy

POINTS = 6  # along each channel that the networks are asked about; more cost more to compute than they are worth
CELLS, WIDTH = 32, 8  # along each channel, and levels of 255 in a cell
WITHIN = 0x070707  # the place within its cell, of a pixel
CHANNELS = (1, 3)  # grey or RGB
SMOOTH = 96 * 96  # pixels, up to which moved pictures are interpolated; to read the nearest pixel is 20 times as fast


def takes(policy: Policy, label: Tensor | None) -> bool:
    """Whether pictures of this policy can be made here: its kind, its channels, its device, and one class at most."""
    augmenter, soft = policy.augmenter, label is not None and label.is_floating_point()
    known = isinstance(augmenter, (NeuralAugmenter, OneOperation))
    return known and augmenter.settings.channels in CHANNELS and augmenter.device.type == "cpu" and not soft


def draw(policy: Policy, label: Tensor | None) -> OneDraw | Draw:
    """What ``policy.draw(1, label)`` draws of the same random numbers."""
    augmenter = policy.augmenter
    if isinstance(augmenter, OneOperation):
        return pillow_operations.draw(policy.strength, augmenter.shares)
    return draw_one(policy, label)


def augmented(picture: Image.Image, drawn: OneDraw | Draw) -> Image.Image:
    """A picture of mode L, RGB, LA or RGBA, whose transparency moves along and is no colour."""
    alpha = None if picture.mode in ("L", "RGB") else picture.getchannel("A")
    opaque = picture if alpha is None else picture.convert(picture.mode[:-1])
    matrix: Sequence[Sequence[float]] | None
    if isinstance(drawn, Draw):
        number, strength = int(drawn.operation), float(drawn.strength)
        changed = pillow_operations.colored(opaque, number, strength)
        matrix = pillow_operations.matrix(number, strength, picture.size)
    else:
        changed, matrix = colored(opaque, drawn.color), drawn.affine[0].tolist()
    if matrix is not None:
        changed, alpha = warped(changed, matrix), None if alpha is None else warped(alpha, matrix)
    if alpha is not None:
        changed.putalpha(alpha)
    return changed


def colored(picture: Image.Image, color: ColorMap | None) -> Image.Image:
    """Grey levels have a table of all of them; other colours one of ``CELLS`` along each channel."""
    if color is None:
        return picture
    if picture.mode == "L":
        made = np.abs(unwound(color.unfolded(colors(1, 256))))
        return picture.point(np.rint(255 * made[0]).astype(int).tolist())
    pixels = np.frombuffer(picture.tobytes("raw", "RGBX"), "<u4")
    cells, (darkest, falling) = cell_of(pixels), table(color)
    made = darkest.take(cells, mode="clip")
    if falling is None:
        made += pixels & WITHIN
    else:
        within = falling.take(cells, mode="clip")
        within ^= pixels
        within &= WITHIN
        made += within
    return Image.frombytes("RGB", picture.size, made.data, "raw", "RGBX")


def cell_of(pixels: Array) -> Array:
    """Of pixels 0xXXBBGGRR the number of the cell that the colour is in: five bits of each channel."""
    cell, channel = pixels >> 3, pixels >> 6
    cell &= 0x1F
    channel &= 0x1F << 5
    cell |= channel
    np.right_shift(pixels, 9, out=channel)
    channel &= 0x1F << 10
    cell |= channel
    return cell.astype(np.intp)


def table(color: ColorMap) -> tuple[Array, Array | None]:
    """What the darkest colour of each cell becomes, [CELLS ** 3] pixels 0x00BBGGRR, and ``WITHIN`` for the channels
    that become darker as the colour gets brighter; None, if there are none.

    A colour keeps its place within its cell, or the opposite place, so that smooth shades stay smooth and a map that
    changes no colour changes none. It is computed for the middle of a cell; its darkest colour is half a cell away.
    """
    made, to_cells = color.unfolded(colors(3, POINTS)), between()
    folds = made.min() < 0 or made.max() > 1
    made = to_cells @ (made.reshape(-1, POINTS) @ to_cells.T).reshape(-1, POINTS, CELLS)  # along red, then along green
    made = (to_cells @ made.reshape(3, POINTS, CELLS**2)).reshape(3, -1)  # and along blue
    falling = None
    if folds:
        made = unwound(made)
        falling = packed(np.signbit(made).astype(np.uint32))
        falling *= WIDTH - 1
        np.abs(made, out=made)
    made *= 255
    made += 0.5 - (WIDTH - 1) / 2
    return packed(made.clip(0, 256 - WIDTH, out=made).astype(np.uint32)), falling


def packed(channels: Array) -> Array:
    """[3, N] of uint32 to N pixels; in place."""
    red, green, blue = channels
    green <<= 8
    blue <<= 16
    red |= green
    red |= blue
    return red


@lru_cache
def between() -> Array:
    """[CELLS, POINTS]: the middle of each cell as a mean of the two nearest points of the lattice."""
    middle = (np.arange(CELLS) * WIDTH + (WIDTH - 1) / 2) / 255 * (POINTS - 1)
    return np.maximum(0, 1 - np.abs(middle[:, None] - np.arange(POINTS))).astype(np.float32)


@lru_cache
def colors(channels: int, points: int) -> Array:
    """[channels, points**channels]."""
    return lattice(channels, points, torch.device("cpu"), torch.float32).numpy()


def unwound(x: Array) -> Array:
    """To -1 … 1 by whole turns of the triangle wave; it falls where this is negative, and is the magnitude of this."""
    turns = x * 0.5
    np.rint(turns, out=turns)
    turns *= 2
    return np.subtract(x, turns, out=turns)


def warped(picture: Image.Image, matrix: Sequence[Sequence[float]]) -> Image.Image:
    """``affine_warp``: the same matrix, in pixels instead of coordinates from -1 to 1."""
    (a, b, c), (d, e, f) = matrix
    if (a, b, c, d, e, f) == (1, 0, 0, 0, 1, 0):
        return picture
    width, height = picture.size
    b, c = b * width / height, (1 + c - a - b) * width / 2
    d, f = d * height / width, (1 + f - d - e) * height / 2
    filter = Image.Resampling.BILINEAR if width * height <= SMOOTH else Image.Resampling.NEAREST
    return picture.transform(picture.size, Image.Transform.AFFINE, (a, b, c, d, e, f), filter)


def to_picture(image: Tensor) -> Image.Image:
    """[C, H, W] of uint8, channel by channel, which is faster than pixel by pixel."""
    bands = [Image.fromarray(band.contiguous().numpy()) for band in image]
    return bands[0] if len(bands) == 1 else Image.merge("RGB", bands)


def to_tensor(picture: Image.Image) -> Tensor:
    return torch.cat([F.pil_to_tensor(band) for band in picture.split()])
