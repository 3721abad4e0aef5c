"""Fixed strategies from the literature, as torchvision has them: drawn and applied image by image."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..batch import Batch


def trivial_augment() -> Callable[[Tensor], Tensor]:
    from torchvision.transforms import v2

    return v2.TrivialAugmentWide()


def rand_augment() -> Callable[[Tensor], Tensor]:
    from torchvision.transforms import v2

    return v2.RandAugment()


PUBLISHED: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    "trivialaugment": trivial_augment,
    "randaugment": rand_augment,
}


class PerImage:
    """A strategy from a transform of single uint8 images. It draws from torch's global generator, as torchvision does.

    It runs on the CPU, where such transforms are meant to run.
    """

    def __init__(self, name: str) -> None:
        self.transform = PUBLISHED[name]()

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Batch:
        pixels = (batch.image * 255).round().to("cpu", torch.uint8)
        changed = torch.stack([self.transform(image) for image in pixels])
        return batch.replace(image=changed.to(batch.image.device).to(batch.image.dtype) / 255)
