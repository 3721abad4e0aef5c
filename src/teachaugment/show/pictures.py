"""Originals beside their augmented versions, large enough to see, with the class names."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from teachaugment.show.fonts import lettering

GAP, MARGIN, LINE = 6, 12, 18  # pixels between cells, around the picture, and for a line of text
Picture = Image.Image
INK, PAPER = (30, 30, 30), (255, 255, 255)


def comparison(
    originals: Tensor,
    augmented: Sequence[Tensor],
    names: Sequence[str],
    columns: int = 2,
    cell: int = 96,
    headings: tuple[str, str] = ("original", "augmented"),
) -> Picture:
    """Each original, its class name below it, followed by one image from each batch of ``augmented``.

    The pairs are laid out in ``columns`` blocks. Images smaller than ``cell`` pixels are enlarged by a whole factor.
    """
    count, _, height, width = originals.shape
    scale = max(1, cell // max(height, width))
    high, wide = height * scale, width * scale
    if max(high, wide) > 2 * cell:  # large photographs are shrunk instead
        factor = 2 * cell / max(high, wide)
        high, wide = max(1, round(high * factor)), max(1, round(wide * factor))
    columns = min(columns, count)
    rows = -(-count // columns)
    versions = len(augmented)
    block = wide + GAP * 3 + versions * (wide + GAP)
    font = ImageFont.load_default(size=13)
    sheet = Image.new(
        "RGB",
        (2 * MARGIN + columns * block + (columns - 1) * 3 * MARGIN, 2 * MARGIN + LINE + rows * (high + LINE + GAP)),
        PAPER,
    )
    draw = ImageDraw.Draw(sheet)
    for number in range(count):
        row, column = divmod(number, columns)
        left = MARGIN + column * (block + 3 * MARGIN)
        top = MARGIN + LINE + row * (high + LINE + GAP)
        if row == 0:
            draw.text((left, MARGIN - 4), headings[0], INK, font)
            draw.text((left + wide + 3 * GAP, MARGIN - 4), headings[1], INK, font)
        sheet.paste(_picture(originals[number], (wide, high)), (left, top))
        for version, batch in enumerate(augmented):
            place = left + wide + 3 * GAP + version * (wide + GAP)
            sheet.paste(_picture(batch[number], (wide, high)), (place, top))
        name, letters = lettering(names[number], 13)
        draw.text((left, top + high + 1), _fitted(name, block, letters), INK, letters)
    return sheet


def rgb(image: Tensor) -> Tensor:
    """Images [B, C, H, W] with three channels: grey is repeated, and of many channels the first three are shown."""
    return image[:, :3] if image.shape[1] >= 3 else image[:, :1].expand(-1, 3, -1, -1)


def to_tensor(picture: Picture) -> Tensor:
    """The picture as [3, H, W] in 0…255, for TensorBoard."""
    data = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    return data.view(picture.height, picture.width, 3).permute(2, 0, 1)


def _picture(image: Tensor, size: tuple[int, int]) -> Picture:
    """One image in [0, 1] at the given size."""
    pixels = (rgb(image[None])[0].detach().float().clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0)
    picture = Image.fromarray(pixels.cpu().contiguous().numpy())
    enlarges = size[0] >= picture.width
    return picture.resize(size, Image.Resampling.NEAREST if enlarges else Image.Resampling.LANCZOS)


def _fitted(text: str, width: int, font: ImageFont.ImageFont | ImageFont.FreeTypeFont) -> str:
    """The text, cut so that it does not run into the next block."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…"
