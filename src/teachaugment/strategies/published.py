"""Fixed strategies from the literature, as torchvision has them: drawn and applied image by image, masks with them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

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
    """A strategy of torchvision, which by itself refuses masks, whose geometric operations move ``mask`` as well.

    The mask is read at the nearest pixel, and IGNORE comes in from outside. All other operations leave it alone.
    """
    if not hasattr(strategy, "_apply_image_or_video_transform"):
        raise UserError(f"torchvision's {strategy.__name__} is not built as expected; install torchvision 0.21 to 0.29")

    class WithMask(strategy):
        mask: Tensor | None = None  # [1, H, W]

        def _apply_image_or_video_transform(
            self, image: Tensor, transform_id: str, magnitude: float, interpolation: Any, fill: Any
        ) -> Tensor:
            """The one place where torchvision applies an operation that it has drawn."""
            apply = super()._apply_image_or_video_transform
            if self.mask is not None and transform_id in GEOMETRIC:
                self.mask = apply(self.mask, transform_id, magnitude, "nearest", {"others": [float(IGNORE)]})
            return apply(image, transform_id, magnitude, interpolation, fill)

    return WithMask


class PerImage:
    """A function of batches from a transform of single uint8 images.

    It draws from torch's global generator, as torchvision does, and runs on the CPU, where such transforms are meant to
    run.
    """

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Batch:
        pixels = (batch.image * 255).round().to("cpu", torch.uint8)
        if batch.mask is None:
            changed = torch.stack([self.transform(image) for image in pixels])
            return batch.replace(image=changed.to(batch.image.device).to(batch.image.dtype) / 255)
        pairs = [self.pair(image, mask) for image, mask in zip(pixels, batch.mask.cpu()[:, None], strict=True)]
        image, mask = (torch.stack(parts).to(batch.image.device) for parts in zip(*pairs, strict=True))
        return batch.replace(image=image.to(batch.image.dtype) / 255, mask=mask[:, 0])

    def pair(self, image: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """One image and its mask [1, H, W] under the same draw."""
        if not hasattr(self.transform, "mask"):
            raise UserError("augmix averages differently warped copies of an image, for which there is no mask")
        self.transform.mask = mask
        try:
            return self.transform(image), self.transform.mask
        finally:
            self.transform.mask = None
