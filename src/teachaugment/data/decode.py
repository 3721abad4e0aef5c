"""One image file to RGB pixels, whatever its mode, and a plain error with the file's name when that fails."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from teachaugment.errors import UserError

MAX_PIXELS = 89_478_485  # Pillow's own limit (a quarter of a gigabyte of RGB), but refused rather than warned about
# Whose readers only decode. Pillow knows more: EPS is a program, which it hands to an interpreter.
FORMATS = "AVIF BMP DIB GIF ICO JPEG JPEG2000 MPO PCX PNG PPM QOI TGA TIFF WEBP"

Box = tuple[float, float, float, float]


class BadImage(UserError):
    """A file that is not a readable image."""


def opened(source: str | Path | BinaryIO) -> Image.Image:
    """An image of a known format, small enough to decode. Every image of a user's passes here."""
    file = Image.open(source, formats=readers())
    if file.width * file.height > MAX_PIXELS:
        file.close()
        raise ValueError(f"{file.width} x {file.height} pixels is over the limit of {MAX_PIXELS:,}")
    return file


@cache
def readers() -> tuple[str, ...]:
    """The formats that this Pillow can read; some of them (MPO) are read by another one's reader."""
    Image.init()
    return tuple(name for name in FORMATS.split() if name in Image.OPEN)


def endings() -> tuple[str, ...]:
    """What the names of image files end with."""
    return tuple(ending for ending, kind in Image.registered_extensions().items() if kind in FORMATS.split())


def dimensions(path: str | Path) -> tuple[int, int]:
    """Height and width as displayed, from the header alone."""
    try:
        with opened(path) as file:
            turned = file.getexif().get(0x0112, 1) >= 5  # EXIF orientation: stored on its side
            return file.size if turned else file.size[::-1]
    except Exception as error:  # Pillow's readers raise almost anything on a broken file
        raise bad(path, error) from None


def decode(path: str | Path, size: tuple[int, int], crop: Tensor | None = None, centre: float = 1.0) -> Tensor:
    """A file as uint8 [3, H, W]: shorter side resized and the centre cropped, or with ``crop`` a random resized crop.

    ``crop`` holds four numbers in [0, 1): area, aspect ratio, and position of the random crop. ``centre`` is how much
    of the shorter side the centre crop keeps.
    """
    try:
        file = opened(path)
    except Exception as error:
        raise bad(path, error) from None
    return fit(file, path, size, crop, centre)


def pixels(path: str | Path) -> Tensor:
    """All of a file as uint8 [3, H, W]."""
    try:
        with opened(path) as file:
            image = to_rgb(ImageOps.exif_transpose(file))
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
    except Exception as error:
        raise bad(path, error) from None


def values(path: str | Path) -> NDArray[Any]:
    """The values of a mask: [H, W] indices, those of the palette if it has one, or [H, W, 3] colours."""
    try:
        with opened(path) as file:
            indexed = file.mode in ("1", "L", "P") or file.mode.startswith("I")
            return np.array(file if indexed else file.convert("RGB"))
    except Exception as error:
        raise bad(path, error) from None


def fit(
    image: Image.Image, path: str | Path, size: tuple[int, int], crop: Tensor | None = None, centre: float = 1.0
) -> Tensor:
    """What ``decode`` does, from an image that is open; ``path`` is its name in messages."""
    try:
        with image as file:
            # JPEG can decode straight to a half, quarter or eighth. Keep twice what the crop needs.
            area = centre**2 if crop is None else _area(crop)
            need = math.ceil(2 * max(size) / math.sqrt(area))
            file.draft(None, (need, need))
            image = to_rgb(ImageOps.exif_transpose(file))
        height, width = size
        box = _centre(image.size, size, centre) if crop is None else _random_box(image.size, size, crop)
        image = image.resize((width, height), Image.Resampling.BILINEAR, box=box)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
    except Exception as error:
        raise bad(path, error) from None


def to_rgb(image: Image.Image) -> Image.Image:
    """Any mode to RGB. 16 bits are scaled to 8; transparent pixels show white, as on a page."""
    if image.mode.startswith("I"):
        # Pillow's integer modes hold 16-bit grey images; its own conversion would clip them at 255.
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("its pixels are 32-bit integers; save it with 8 or 16 bits")
        return Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("its pixels are floating point, of unknown range; save it with 8 or 16 bits")
    if image.mode.endswith(("A", "a")) or "transparency" in image.info:
        image = image.convert("RGBA")
        page = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(page, image)
    return image.convert("RGB")


def bad(path: str | Path, error: Exception) -> BadImage:
    return BadImage(f"cannot read image {path}: {reason(error)}; repair or remove it, or set bad_images to skip")


def reason(error: Exception) -> str:
    """Why an image cannot be read, in one line."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image in a known format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _centre(have: tuple[int, int], want: tuple[int, int], share: float = 1.0) -> Box:
    """A box of the wanted proportions in the middle: resizing it is shorter side, then centre crop."""
    width, height = have
    scale = share * min(width / want[1], height / want[0])
    w, h = want[1] * scale, want[0] * scale
    return (width - w) / 2, (height - h) / 2, (width + w) / 2, (height + h) / 2


def _area(crop: Tensor) -> float:
    """Share of the image that the random crop covers: 8 to 100 %, as is usual for ImageNet."""
    return 0.08 + 0.92 * crop[0].item()


def _random_box(have: tuple[int, int], want: tuple[int, int], crop: Tensor) -> Box:
    """A box of random area and aspect ratio (3/4 to 4/3 of the wanted one). What sticks out is cut, not redrawn."""
    width, height = have
    _, ratio, left, top = crop.tolist()
    aspect = want[1] / want[0] * (3 / 4) ** (1 - 2 * ratio)
    area = _area(crop) * width * height
    w, h = min(width, math.sqrt(area * aspect)), min(height, math.sqrt(area / aspect))
    x, y = left * (width - w), top * (height - h)
    return x, y, min(width, x + w), min(height, y + h)
