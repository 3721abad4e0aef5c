"""Boxes drawn over their images, in one colour per class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from PIL import Image, ImageDraw
from torch import Tensor

from teachaugment.batch import NO_BOX, Batch
from teachaugment.models.boxes import SURE
from teachaugment.show.pictures import Picture, comparison, rgb
from teachaugment.tasks.detection.meter import boxes_of
from teachaugment.tasks.detection.recall import found_boxes
from teachaugment.tasks.segmentation.overlay import Color, legend

MISSED = (255, 255, 255)  # true boxes that were not found


def drawn(image: Tensor, boxes: Tensor, colors: Sequence[Color]) -> Tensor:
    """Images [B, C, H, W] in [0, 1] as RGB with boxes [B, N, 5] over them."""
    made = []
    for pixels, rows in zip(rgb(image), boxes.detach().cpu(), strict=True):
        whole = (pixels.detach().float().clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0)
        picture = Image.fromarray(whole.cpu().contiguous().numpy())
        draw, line = ImageDraw.Draw(picture), max(1, max(picture.size) // 200)
        for left, upper, right, lower, kind in rows.tolist():
            if kind != NO_BOX:
                draw.rectangle((left, upper, right - 1, lower - 1), outline=colors[int(kind)], width=line)
        made.append(torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(whole.shape))
    return torch.stack(made).permute(0, 3, 1, 2).to(image.device, image.dtype) / 255


def predictions(batch: Batch, found: Tensor, classes: Sequence[str], colors: Sequence[Color]) -> Picture:
    """Images, their boxes, and the boxes that a model is sure of; in white those that it has missed."""
    boxes, missed = boxes_of(batch), len(classes)
    lost = torch.where(found_boxes(found, boxes), NO_BOX, torch.where(boxes[..., 4] == NO_BOX, NO_BOX, missed))
    sure = torch.where(found[..., 4] >= SURE, found[..., 5], NO_BOX)
    told = torch.cat(
        [torch.cat([found[..., :4], sure[..., None]], 2), torch.cat([boxes[..., :4], lost[..., None]], 2)], 1
    )
    shown = [drawn(batch.image, boxes, colors), drawn(batch.image, told, [*colors, MISSED])]
    names = [classes_in(rows, classes) for rows in boxes]
    return legend(comparison(batch.image, shown, names, headings=("image", "boxes, prediction")), classes, colors)


def classes_in(boxes: Tensor, classes: Sequence[str]) -> str:
    """The classes of an image's boxes and how often each occurs, the most frequent first."""
    counted = Counter(classes[int(k)] for k in boxes[:, 4].tolist() if k != NO_BOX)
    return ", ".join(name if n == 1 else f"{n} {name}" for name, n in counted.most_common())
