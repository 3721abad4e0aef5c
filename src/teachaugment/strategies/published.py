"""Fixed strategies from the literature, as torchvision has them: drawn and applied one by one, with masks and boxes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from teachaugment.augment.boxes import warp_boxes
from teachaugment.batch import IGNORE, Batch
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.strategies.fixed import EachView
from teachaugment.strategies.strategy import Setup, Strategy

SMALL = 64  # pixels a side: up to here AutoAugment's policy is that of CIFAR-10
GEOMETRIC = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}


def from_torchvision(setup: Setup) -> Strategy:
    """The strategy of this name in torchvision."""
    return _strategy(setup.name, setup)


def autoaugment(setup: Setup) -> Strategy:
    """The policy that was found on images of this kind."""
    found = "cifar10" if max(setup.data.size) <= SMALL else "imagenet"
    return _strategy(f"autoaugment-{found}", setup)


def _strategy(name: str, setup: Setup) -> Strategy:
    check_channels(name, setup.data)
    return EachView(PerImage(published(name, setup.config.augment.num_ops, setup.config.augment.magnitude)))


def check_channels(name: str, dataset: DataSet) -> None:
    if dataset.channels not in (1, 3):
        raise UserError(f"--strategy {name} needs images of 1 or 3 channels; {dataset.name} has {dataset.channels}")


def published(name: str, num_ops: int = 2, magnitude: int = 9) -> Any:
    """A transform of single uint8 images. ``num_ops`` and ``magnitude`` (0 to 30) are RandAugment's N and M."""
    from torchvision.transforms import v2

    table = {
        "trivialaugment": lambda: with_mask(v2.TrivialAugmentWide)(),
        "randaugment": lambda: with_mask(v2.RandAugment)(num_ops, magnitude),
        "autoaugment-cifar10": lambda: with_mask(v2.AutoAugment)(v2.AutoAugmentPolicy.CIFAR10),
        "autoaugment-imagenet": lambda: with_mask(v2.AutoAugment)(v2.AutoAugmentPolicy.IMAGENET),
        "augmix": v2.AugMix,  # without its consistency loss, which belongs to the training and not to the images
    }
    return table[name]()


def with_mask(strategy: type) -> type:
    """A strategy of torchvision, which by itself refuses masks, whose geometric operations move ``mask`` and ``boxes``.

    The mask is read at the nearest pixel, and IGNORE comes in from outside. All other operations leave both alone.
    """
    if not hasattr(strategy, "_apply_image_or_video_transform"):
        raise UserError(f"torchvision's {strategy.__name__} is not built as expected; install torchvision 0.21 to 0.29")

    class WithMask(strategy):
        mask: Tensor | None = None  # [1, H, W]
        boxes: Tensor | None = None  # [N, 5]

        def _apply_image_or_video_transform(
            self, image: Tensor, transform_id: str, magnitude: float, interpolation: Any, fill: Any
        ) -> Tensor:
            """The one place where torchvision applies an operation that it has drawn."""
            apply = super()._apply_image_or_video_transform
            if self.mask is not None and transform_id in GEOMETRIC:
                self.mask = apply(self.mask, transform_id, magnitude, "nearest", {"others": [float(IGNORE)]})
            if self.boxes is not None and transform_id in GEOMETRIC:
                size = (image.shape[-2], image.shape[-1])
                self.boxes = warp_boxes(self.boxes[None], matrix_of(transform_id, magnitude, size)[None], size)[0]
            return apply(image, transform_id, magnitude, interpolation, fill)

    return WithMask


def matrix_of(operation: str, magnitude: float, size: tuple[int, int]) -> Tensor:
    """What torchvision's operation does, as ``affine_warp`` takes it: [2, 3], from each output pixel to its origin."""
    height, width = size
    across, down, dx, dy = 0.0, 0.0, 0.0, 0.0  # shear and shift in pixels from the middle of the image
    if operation == "Rotate":
        angle = math.radians(magnitude)
        turn, back = math.sin(angle), math.cos(angle)
        return torch.tensor([[back, -turn * height / width, 0.0], [turn * width / height, back, 0.0]])
    if operation == "ShearX":  # about the upper left corner
        across, dx = magnitude, magnitude * height / 2
    elif operation == "ShearY":
        down, dy = magnitude, magnitude * width / 2
    elif operation == "TranslateX":
        dx = -float(int(magnitude))
    else:
        dy = -float(int(magnitude))
    return torch.tensor([[1.0, across * height / width, 2 * dx / width], [down * width / height, 1.0, 2 * dy / height]])


class PerImage:
    """A function of batches from a transform of single uint8 images.

    It draws from torch's global generator, as torchvision does, and runs on the CPU, where such transforms are meant to
    run.
    """

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Batch:
        device, dtype = batch.image.device, batch.image.dtype
        pixels = (batch.image * 255).round().to("cpu", torch.uint8)
        known = {"mask": None if batch.mask is None else batch.mask.cpu()[:, None], "boxes": batch.boxes}
        follow = {name: value.cpu() for name, value in known.items() if value is not None}
        made = [self.one(image, {name: value[i] for name, value in follow.items()}) for i, image in enumerate(pixels)]
        moved = {name: torch.stack([followers[name] for _, followers in made]).to(device) for name in follow}
        if "mask" in moved:
            moved["mask"] = moved["mask"][:, 0]
        return batch.replace(image=torch.stack([image for image, _ in made]).to(device).to(dtype) / 255, **moved)

    def one(self, image: Tensor, follow: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """One image and what follows it, by the same draw: its mask [1, H, W], its boxes [N, 5]."""
        if follow and not hasattr(self.transform, "mask"):
            raise UserError(
                "augmix averages differently warped copies of an image, which no mask and no box can follow"
            )
        for name, value in follow.items():
            setattr(self.transform, name, value)
        try:
            return self.transform(image), {name: getattr(self.transform, name) for name in follow}
        finally:
            for name in follow:
                setattr(self.transform, name, None)
