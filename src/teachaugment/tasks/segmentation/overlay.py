"""Masks laid over their images, in one colour per class, with a legend."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from teachaugment.batch import IGNORE, Batch
from teachaugment.show.pictures import INK, LINE, MARGIN, PAPER, Picture, comparison, rgb

OPACITY = 0.6  # of a mask over the image in grey; pixels of unknown class show the image as it is
Color = tuple[int, int, int]


def palette(count: int) -> list[Color]:
    """Colours that are easy to tell apart: hues a golden section of the circle from each other, light and dark."""
    made = (colorsys.hsv_to_rgb((0.6 + i * 0.618034) % 1, 0.75, (0.5, 1, 0.75)[i % 3]) for i in range(count))
    return [(round(255 * r), round(255 * g), round(255 * b)) for r, g, b in made]


def overlay(image: Tensor, mask: Tensor, colors: Sequence[Color]) -> Tensor:
    """Images [B, C, H, W] in [0, 1] as RGB with their masks [B, H, W] over them."""
    base = rgb(image)
    known = mask != IGNORE
    paint = torch.tensor(colors, device=image.device, dtype=image.dtype)[mask.masked_fill(~known, 0)] / 255
    grey = base.mean(1, keepdim=True).expand_as(base)
    return torch.where(known[:, None], torch.lerp(grey, paint.permute(0, 3, 1, 2), OPACITY), base)


def beside(batch: Batch, colors: Sequence[Color]) -> Tensor:
    """Each image, and after it the same with its mask over it: twice as many, RGB."""
    assert batch.mask is not None
    return torch.stack([rgb(batch.image), overlay(batch.image, batch.mask, colors)], 1).flatten(0, 1)


def predictions(batch: Batch, choice: Tensor, classes: Sequence[str], colors: Sequence[Color]) -> Picture:
    """Images, their masks, and the classes that a model chose for their pixels."""
    assert batch.mask is not None
    shown = [overlay(batch.image, mask, colors) for mask in (batch.mask, choice)]
    names = [classes_in(mask, classes) for mask in batch.mask]
    return legend(comparison(batch.image, shown, names, headings=("image", "mask, prediction")), classes, colors)


def legend(picture: Picture, classes: Sequence[str], colors: Sequence[Color]) -> Picture:
    """The picture with the class names and their colours below it."""
    font = ImageFont.load_default(size=13)
    places, left, line = [], MARGIN, 0
    for name in classes:
        wide = LINE + round(font.getlength(name)) + MARGIN
        if left + wide > picture.width - MARGIN and left > MARGIN:
            left, line = MARGIN, line + 1
        places.append((left, picture.height + line * (LINE + 4)))
        left += wide
    sheet = Image.new("RGB", (picture.width, picture.height + (line + 1) * (LINE + 4) + MARGIN), PAPER)
    sheet.paste(picture, (0, 0))
    draw = ImageDraw.Draw(sheet)
    for (x, y), name, color in zip(places, classes, colors, strict=True):
        draw.rectangle((x, y + 2, x + 12, y + 14), fill=color)
        draw.text((x + LINE, y), name, INK, font)
    return sheet


def classes_in(mask: Tensor, classes: Sequence[str]) -> str:
    """The classes in a mask, those that cover most of it first."""
    values, counts = mask[mask != IGNORE].unique(return_counts=True)
    return ", ".join(classes[k] for k in values[counts.argsort(descending=True)].tolist())
