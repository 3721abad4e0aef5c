"""The one place where an image file is opened: known formats and sizes only. It needs no PyTorch."""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path
from typing import BinaryIO

from PIL import Image

MAX_PIXELS = 89_478_485  # Pillow's own limit (a quarter of a gigabyte of RGB), but refused rather than warned about
# Whose readers only decode. Pillow knows more: EPS is a program, which it hands to an interpreter.
FORMATS = "AVIF BMP DIB GIF ICO JPEG JPEG2000 MPO PCX PNG PPM QOI TGA TIFF WEBP"


def opened(source: str | Path | BinaryIO) -> Image.Image:
    """An image of a known format, small enough to decode. Every image of a user's passes here."""
    if isinstance(source, (str, Path)) and not stat.S_ISREG(os.stat(source).st_mode):
        raise ValueError("it is not a regular file")  # a pipe would keep its reader waiting
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
