"""Images with masks, read in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from teachaugment import seeds
from teachaugment.data import cache
from teachaugment.data.codes import Codes
from teachaugment.data.decode import dimensions, open_image, pixels
from teachaugment.data.source import Source
from teachaugment.data.streamed import Sample, StreamedSplit
from teachaugment.data.windows import random_window
from teachaugment.errors import UserError


@dataclass(eq=False)
class PairSource(Source):
    """Image files, each with a file that has its mask; the keys are the images' paths below ``root``."""

    root: Path
    masks: list[str]  # below root
    codes: Codes = field(repr=False)  # what the values of the masks mean
    decoded: list[tuple[Tensor, Tensor]] | None = field(default=None, repr=False)  # all pairs, where memory holds them

    def open(self, index: int) -> Image.Image:
        return open_image(self.root / self.keys[index])

    def name(self, index: int) -> str:
        return str(self.root / self.keys[index])

    def dimensions(self, index: int) -> tuple[int, int]:
        """Height and width of one pair, which must agree."""
        image, mask = super().dimensions(index), self.root / self.masks[index]
        self._check_sizes(index, image, dimensions(open_image(mask), mask))
        return image

    def pair(self, index: int) -> tuple[Tensor, Tensor]:
        """One image and its mask, whole: uint8 [3, H, W] and [H, W]."""
        if self.decoded is not None:
            return self.decoded[index]
        image, mask = pixels(self.open(index), self.name(index)), self.codes.read(self.root / self.masks[index])
        self._check_sizes(index, image.shape[1:], mask.shape)
        return image, mask

    def _check_sizes(self, index: int, image: Sequence[int], mask: Sequence[int]) -> None:
        if tuple(image) != tuple(mask):
            one, other = (f"{width}×{height}" for height, width in (image, mask))
            raise UserError(
                f"image {self.name(index)} is {one} and its mask {self.root / self.masks[index]} is {other}; they must "
                "be of one size"
            )

    def select(self, rows: Tensor) -> PairSource:
        chosen = rows.tolist()
        decoded = None if self.decoded is None else [self.decoded[i] for i in chosen]
        return replace(super().select(rows), masks=[self.masks[i] for i in chosen], decoded=decoded)

    def fingerprint(self) -> str:
        return cache.fingerprint(self.root, [*self.keys, *self.masks])


@dataclass
class PairSplit(StreamedSplit):
    """Whole images with their masks, or for training random windows of ``size`` in them."""

    source: PairSource
    windows: bool = False  # random windows; otherwise whole images, which may differ in size
    scale: float = 1.0  # largest random magnification of a window, and the inverse of the smallest

    @property
    def cropped(self) -> bool:
        return self.windows

    @property
    def in_memory(self) -> bool:
        return self.source.decoded is not None

    def whole(self) -> PairSplit:
        return replace(self, windows=False)

    def read(self, index: int, seed: int, epoch: int) -> Sample:
        """One pair. The window is a function of seed, epoch and index, whichever process reads it."""
        image, mask = self.source.pair(index)
        if self.windows:
            random = torch.rand(3, generator=seeds.generator("cpu", seed, "crop", epoch, index))
            image, mask = random_window(image, mask, self.size, self.scale, random.tolist())
        return Sample([image], mask)
