"""Tensors as pictures inside the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

SIDE = 96  # most pixels of an image's longer side
EXACT = 64  # up to this size images are kept as they are, pixel by pixel


@dataclass(frozen=True)
class InlineImage:
    """What an ``img`` element needs."""

    source: str  # a data URI
    alt: str
    width: int
    height: int
    exact: bool  # enlarged pixel by pixel


def inline_image(images: Tensor, alt: str) -> InlineImage:
    """Rows of images [R, N, 3, H, W] as one image."""
    exact = max(images.shape[3:]) <= EXACT
    whole = sheet(images)
    return InlineImage(data_uri(whole, exact), alt, whole.shape[2], whole.shape[1], exact)


def sheet(images: Tensor, gap: int = 1) -> Tensor:
    """[R, N, 3, H, W] as one image [3, …] of R rows, with gaps in white."""
    rows, columns, _, height, width = images.shape
    small = fitted(images.flatten(0, 1)).reshape(rows, columns, 3, *fitted_size(height, width))
    padded = F.pad(small, (0, gap, 0, gap), value=1.0)
    return padded.permute(2, 0, 3, 1, 4).reshape(3, rows * padded.shape[3], columns * padded.shape[4])


def fitted_size(height: int, width: int) -> tuple[int, int]:
    factor = min(1.0, SIDE / max(height, width))
    return max(1, round(height * factor)), max(1, round(width * factor))


def fitted(images: Tensor) -> Tensor:
    """Images [B, 3, H, W] no larger than ``SIDE``."""
    size = fitted_size(*images.shape[2:])
    if size == tuple(images.shape[2:]):
        return images
    return F.interpolate(images, size, mode="bilinear", antialias=True)


def data_uri(image: Tensor, exact: bool) -> str:
    """An image [3, H, W] in [0, 1] as a PNG, or where it is large and need not be exact as a JPEG."""
    values = (image.detach().float().clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu()
    file = io.BytesIO()
    picture = Image.fromarray(values.contiguous().numpy())
    if exact:
        picture.save(file, "PNG", optimize=True)
    else:
        picture.save(file, "JPEG", quality=85)
    kind = "png" if exact else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
