"""A policy's augmentation of one picture, in C, by Pillow: for a uint8 image on a CPU, as a worker of a loader has it.

Within one image the colour map is a function of the colour, so it is a table, and the warp is an affine transform. The
result is within rounding and interpolation of what a batch gets; a mean difference is in docs/performance.md.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from PIL import Image, ImageFilter
from torch import Tensor
from torchvision.transforms.v2 import functional as F

from teachaugment.augment.augmenter import Augmenter
from teachaugment.augment.functional import lattice, triangle_wave
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.policy.one_image import OneDraw
from teachaugment.policy.policy import Policy

POINTS = 9  # of the table, per channel; more cost more to compute than they are worth
CHANNELS = (1, 3)  # grey or RGB


def takes(policy: Policy, label: Tensor | None) -> bool:
    """Whether pictures of this policy can be made here: its kind, its channels, its device, and one class at most."""
    augmenter, soft = policy.augmenter, label is not None and label.is_floating_point()
    neural = isinstance(augmenter, NeuralAugmenter)
    return neural and augmenter.settings.channels in CHANNELS and augmenter.device.type == "cpu" and not soft


def augmented(augmenter: Augmenter, picture: Image.Image, drawn: OneDraw) -> Image.Image:
    """A picture of mode L, RGB, LA or RGBA, whose transparency moves along and is no colour."""
    assert isinstance(augmenter, NeuralAugmenter)
    matrix = drawn.affine[0]
    if picture.mode in ("L", "RGB"):
        return warped(colored(augmenter, picture, drawn), matrix)
    changed = warped(colored(augmenter, picture.convert(picture.mode[:-1]), drawn), matrix)
    changed.putalpha(warped(picture.getchannel("A"), matrix))
    return changed


def colored(augmenter: NeuralAugmenter, picture: Image.Image, drawn: OneDraw) -> Image.Image:
    """Grey levels have a table of all of them; of other colours some are computed, and Pillow reads between them."""
    if drawn.color is None:
        return picture
    grey = picture.mode == "L"
    made = triangle_wave(augmenter.colors.unfolded(colors(1, 256) if grey else colors(3, POINTS), drawn.color))[0]
    if grey:
        return picture.point((255 * made[0]).round().int().tolist())
    return picture.filter(ImageFilter.Color3DLUT(POINTS, made.T.reshape(-1).numpy(), _copy_table=False))


@lru_cache
def colors(channels: int, points: int) -> Tensor:
    """[1, channels, points**channels]."""
    return lattice(channels, points, torch.device("cpu"), torch.float32)[None]


def warped(picture: Image.Image, matrix: Tensor) -> Image.Image:
    """``affine_warp``: the same matrix, in pixels instead of coordinates from -1 to 1."""
    (a, b, c), (d, e, f) = matrix.tolist()
    if (a, b, c, d, e, f) == (1, 0, 0, 0, 1, 0):
        return picture
    width, height = picture.size
    x = (a, b * width / height, (1 + c - a - b) * width / 2)
    y = (d * height / width, e, (1 + f - d - e) * height / 2)
    return picture.transform(picture.size, Image.Transform.AFFINE, (*x, *y), Image.Resampling.BILINEAR)


def to_picture(image: Tensor) -> Image.Image:
    """[C, H, W] of uint8, channel by channel, which is faster than pixel by pixel."""
    bands = [Image.fromarray(band.contiguous().numpy()) for band in image]
    return bands[0] if len(bands) == 1 else Image.merge("RGB", bands)


def to_tensor(picture: Image.Image) -> Tensor:
    return torch.cat([F.pil_to_tensor(band) for band in picture.split()])
