"""SSD's augmentation (Liu et al., 2016), as torchvision's training of SSD has it: for images with boxes."""

from __future__ import annotations

import torch
from torch import Tensor

from teachaugment.augment.boxes import LEAST_SIDE
from teachaugment.batch import NO_BOX, Batch
from teachaugment.errors import UserError
from teachaugment.strategies.fixed import EachView
from teachaugment.strategies.published import check_channels
from teachaugment.strategies.strategy import Setup, Strategy


def ssd(setup: Setup) -> Strategy:
    """Colours, then a larger canvas, then a crop that keeps some box; the flip is the task's."""
    check_channels(setup.name, setup.data)
    fill = [round(255 * value) for value in setup.data.mean]
    return EachView(WithBoxes(fill))


class WithBoxes:
    """A function of batches, image by image. It draws from torch's global generator, as torchvision does."""

    def __init__(self, fill: list[int]) -> None:
        from torchvision.transforms import v2

        self.colors = v2.RandomPhotometricDistort() if len(fill) == 3 else v2.Identity()
        self.places = v2.Compose([v2.RandomZoomOut(fill=fill), v2.RandomIoUCrop()])

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Batch:
        if batch.boxes is None:
            raise UserError("--strategy ssd is for images with boxes: it chooses crops by what they leave of them")
        pixels = (batch.image * 255).round().to("cpu", torch.uint8)
        made = [self.one(image, rows) for image, rows in zip(pixels, batch.boxes.cpu(), strict=True)]
        image, boxes = (torch.stack(parts).to(batch.image.device) for parts in zip(*made, strict=True))
        return batch.replace(image=image.to(batch.image.dtype) / 255, boxes=boxes.to(batch.boxes.dtype))

    def one(self, image: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """One image [C, H, W] with its boxes [N, 5], in the size that it had."""
        from torchvision import tv_tensors
        from torchvision.transforms import v2

        size = (image.shape[-2], image.shape[-1])
        there = rows[:, 4] != NO_BOX
        boxes = tv_tensors.BoundingBoxes(rows[there, :4], format="XYXY", canvas_size=size)
        sample = {"image": tv_tensors.Image(self.colors(image)), "boxes": boxes, "labels": rows[there, 4]}
        if bool(there.any()):  # a crop is chosen by the boxes
            sample = self.places(sample)
        kept = self._resized(sample, size)
        found = torch.full_like(rows, NO_BOX)
        found[: len(kept)] = kept
        made = v2.functional.resize(sample["image"].as_subclass(Tensor), list(size), antialias=True)
        return made, found

    def _resized(self, sample: dict[str, Tensor], size: tuple[int, int]) -> Tensor:
        """Boxes with their classes in the pixels of an image of this height and width; those without a rest are left
        out."""
        height, width = sample["image"].shape[-2:]
        factor = torch.tensor([size[1] / width, size[0] / height] * 2)
        boxes = sample["boxes"].as_subclass(Tensor) * factor
        kept = (boxes[:, 2:] - boxes[:, :2] >= LEAST_SIDE).all(1)
        return torch.cat([boxes, sample["labels"][:, None]], 1)[kept]
