"""An image file to RGB pixels, whatever its mode, and a plain error with the file's name when that fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from teachaugment.data.folders import LISTED
from teachaugment.data.opened import opened
from teachaugment.errors import UserError

BICUBIC = "bicubic"  # how an image is resized unless another way is asked for, as in Fast AutoAugment's ImageNet recipe
ORIENTATION = 0x0112  # the tag of EXIF
ADVICE = "; repair or remove it, or set bad_images to skip"  # how a message about an unreadable image ends

Box = tuple[float, float, float, float]  # left, upper, right, lower


class BadImage(UserError):
    """A file that is not a readable image."""


class Crop(NamedTuple):
    """A random crop of an image of any size."""

    area: float  # share of the image
    aspect: float  # width by height, as a multiple of that of the pixels it becomes
    left: float  # 0: at the left edge, 1: at the right one
    top: float
    least: float  # share of the image that is shown even where the image is too narrow for the aspect


def random_crop(least: float, generator: torch.Generator) -> Crop:
    """A crop of an area that is uniform between ``least`` and 1, an aspect of 3/4 to 4/3, and anywhere."""
    area, bend, left, top = torch.rand(4, generator=generator).tolist()
    return Crop(least + (1 - least) * area, (4 / 3) ** (2 * bend - 1), left, top, least)


# --- files ----------------------------------------------------------------------------------------------------------


def open_image(source: str | Path | BinaryIO, name: object = None) -> Image.Image:
    """An image, opened but not decoded; ``name`` is what messages call it. Raises BadImage."""
    try:
        return opened(source)
    except Exception as error:  # Pillow's readers raise almost anything on a broken file
        raise bad(source if name is None else name, error) from None


def bad(name: object, error: Exception) -> BadImage:
    return BadImage(f"cannot read image {name}: {reason(error)}{ADVICE}")


def without_advice(message: object) -> str:
    """What BadImage says, where nothing is left to be done about it, or nothing in the settings."""
    return str(message).removesuffix(ADVICE)


def skipped(errors: Sequence[object]) -> str:
    """What to say about images that were left out because they cannot be read: the first ten, and how many more."""
    named = [without_advice(error).removeprefix("cannot read image ") for error in errors[:LISTED]]
    more = [f"and {len(errors) - LISTED} more"] if len(errors) > LISTED else []
    return f"skipped {len(errors)} unreadable image{'s' if len(errors) > 1 else ''}: {'; '.join([*named, *more])}"


def reason(error: Exception) -> str:
    """Why an image cannot be read, in one line."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image in a known format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


# --- pixels: each function closes the image, and ``name`` is what messages call it ----------------------------------


def dimensions(image: Image.Image, name: object) -> tuple[int, int]:
    """Height and width as displayed, from the header alone."""
    try:
        with image as file:
            turned = file.getexif().get(ORIENTATION, 1) >= 5  # stored on its side
            return file.size if turned else file.size[::-1]
    except Exception as error:
        raise bad(name, error) from None


def fitted(
    image: Image.Image,
    name: object,
    size: tuple[int, int],
    share: float = 1.0,
    interpolation: str = BICUBIC,
    fit: str = "crop",
) -> Tensor:
    """uint8 [3, H, W]: as an evaluation sees an image.

    ``crop``: the shorter side resized and the centre cropped, which keeps ``share`` of the shorter side; ``squash``:
    all of the image, each side by its own factor; ``pad``: all of it in its proportions, with black beside it.
    """
    return _resized(image, name, size, share**2, interpolation, lambda have: [centre_box(have, size, share, fit)])[0]


def random_crops(
    image: Image.Image, name: object, size: tuple[int, int], crops: Sequence[Crop], interpolation: str = BICUBIC
) -> list[Tensor]:
    """uint8 [3, H, W] for each of the crops, which are all cut from the whole image; it is decoded once."""
    least = min(crop.area for crop in crops)
    return _resized(image, name, size, least, interpolation, lambda have: [crop_box(have, size, c) for c in crops])


def pixels(image: Image.Image, name: object) -> Tensor:
    """All of an image as uint8 [3, H, W]."""
    try:
        with image as file:
            return _tensor(to_rgb(_upright(file)))
    except Exception as error:
        raise bad(name, error) from None


def grey(image: Tensor) -> Tensor:
    """uint8 [3, H, W] to [1, H, W], by Pillow's weights; an image without colour keeps its values."""
    red, green, blue = image.to(torch.int64)
    return ((red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16).to(torch.uint8)[None]


def values(image: Image.Image, name: object) -> NDArray[Any]:
    """The values of a mask: [H, W] indices, those of the palette if it has one, or [H, W, 3] colours."""
    try:
        with image as file:
            indexed = file.mode in ("1", "L", "P") or file.mode.startswith("I")
            return np.array(file if indexed else file.convert("RGB"))
    except Exception as error:
        raise bad(name, error) from None


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode to RGB. 16 bits are scaled to 8, by as many bits as the largest value needs (8, 10, 12, 14 or 16), so
    that what a camera of 12 bits saw is not black; transparent pixels show white, as on a page."""
    if image.mode.startswith("I"):
        # Pillow's integer modes hold 16-bit grey images; its own conversion would clip them at 255.
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("its pixels are 32-bit integers; save it with 8 or 16 bits")
        highest = next(2**bits - 1 for bits in (8, 10, 12, 14, 16) if values.max() < 2**bits)
        return Image.fromarray(((values * 255 + highest // 2) // highest).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("its pixels are floating point, of unknown range; save it with 8 or 16 bits")
    if image.mode.endswith(("A", "a")) or "transparency" in image.info:
        image = image.convert("RGBA")
        page = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(page, image)
    return image if image.mode == "RGB" else image.convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    """As it is displayed, decoded; most images are so, and are not copied."""
    image.load()
    return ImageOps.exif_transpose(image) if image.getexif().get(ORIENTATION, 1) != 1 else image


def _resized(
    image: Image.Image,
    name: object,
    size: tuple[int, int],
    area: float,
    interpolation: str,
    boxes: Callable[[tuple[int, int]], list[Box]],
) -> list[Tensor]:
    """The boxes of an image, each resized to ``size``; the smallest of them shows the share ``area`` of the image.

    Pillow's filters widen with the reduction: nothing flickers (antialiasing).
    """
    height, width = size
    try:
        with image as file:
            # JPEG can decode straight to a half, quarter or eighth. Keep twice what the smallest box needs.
            need = math.ceil(2 * max(size) / math.sqrt(area))
            file.draft(None, (need, need))
            whole = to_rgb(_upright(file))
        resampling = Image.Resampling[interpolation.upper()]
        return [_tensor(_piece(whole, (width, height), resampling, box)) for box in boxes(whole.size)]
    except Exception as error:
        raise bad(name, error) from None


def _piece(image: Image.Image, want: tuple[int, int], resampling: Image.Resampling, box: Box) -> Image.Image:
    """A box of an image, resized to width and height ``want``; what lies beside the image is black."""
    left, upper, right, lower = box
    if left >= 0 and upper >= 0 and right <= image.width and lower <= image.height:
        return image.resize(want, resampling, box=box)
    inside = max(0.0, left), max(0.0, upper), min(image.width, right), min(image.height, lower)
    scale = want[0] / (right - left), want[1] / (lower - upper)
    size = [min(want[i], max(1, round((inside[i + 2] - inside[i]) * scale[i]))) for i in (0, 1)]
    page = Image.new("RGB", want)
    corner = (want[0] - size[0]) // 2, (want[1] - size[1]) // 2
    page.paste(image.resize((size[0], size[1]), resampling, box=inside), corner)
    return page


def _tensor(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


# --- boxes: ``have`` is width and height as Pillow says it, ``want`` height and width --------------------------------


def centre_box(have: tuple[int, int], want: tuple[int, int], share: float = 1.0, fit: str = "crop") -> Box:
    """A box of the wanted proportions in the middle: resizing it is shorter side, then centre crop.

    To ``pad``, it is around the image; to ``squash``, it has the image's proportions.
    """
    width, height = have
    if fit == "squash":
        w, h = share * width, share * height
    else:
        scale = share * (max if fit == "pad" else min)(width / want[1], height / want[0])
        w, h = want[1] * scale, want[0] * scale
    return (width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2


def crop_box(have: tuple[int, int], want: tuple[int, int], crop: Crop) -> Box:
    """Where a random crop lies. What sticks out is cut, not drawn again, but never below the least area."""
    width, height = have
    aspect = crop.aspect * want[1] / want[0]
    area, least = crop.area * width * height, crop.least * width * height
    w, h = min(width, math.sqrt(area * aspect)), min(height, math.sqrt(area / aspect))
    w, h = max(w, least / h), max(h, least / w)  # only one of them can change: the other side is the image's own
    x, y = crop.left * (width - w), crop.top * (height - h)
    return max(0, x), max(0, y), min(width, x + w), min(height, y + h)
