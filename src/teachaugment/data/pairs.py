"""Images with masks, read in pairs: both are scaled and cropped alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from teachaugment import seeds
from teachaugment.batch import IGNORE
from teachaugment.data.codes import Codes
from teachaugment.data.decode import pixels
from teachaugment.data.images import FolderSplit, Part
from teachaugment.errors import UserError


@dataclass
class PairSplit(FolderSplit):
    """Images and masks on disk, or ``held`` in memory. For training, ``crop`` makes random windows of them."""

    masks: list[str] = field(default_factory=list)  # relative to root, like the images
    codes: Codes = field(default_factory=lambda: Codes.of([], set()), repr=False)
    scale: float = 1.0  # largest random magnification, and the inverse of the smallest
    held: list[tuple[Tensor, Tensor]] | None = field(default=None, repr=False, compare=False)

    def select(self, rows: Tensor) -> PairSplit:
        chosen = rows.tolist()
        held = None if self.held is None else [self.held[i] for i in chosen]
        paths, masks = ([names[i] for i in chosen] for names in (self.paths, self.masks))
        return replace(self, paths=paths, masks=masks, label=self.label[rows], held=held)

    def pair(self, index: int) -> tuple[Tensor, Tensor]:
        """One image and its mask, whole."""
        if self.held is not None:
            return self.held[index]
        image, mask = pixels(self.root / self.paths[index]), self.codes.read(self.root / self.masks[index])
        check_sizes(self.root / self.paths[index], image.shape[1:], self.root / self.masks[index], mask.shape)
        return image, mask

    def read(self, index: int, seed: int, epoch: int) -> tuple[Tensor, Tensor]:
        """One pair. The window is a function of seed, epoch and index, whichever process reads it."""
        image, mask = self.pair(index)
        if not self.crop:
            return image, mask
        random = torch.rand(3, generator=seeds.generator("cpu", seed, "crop", epoch, index))
        return random_window(image, mask, self.size, self.scale, random.tolist())

    def read_parts(self, rows: list[int], seed: int, epoch: int, skipped: list[str]) -> list[Part]:
        pairs, index = self.read_rows(rows, seed, epoch, skipped)
        by_size: dict[torch.Size, list[int]] = {}
        for i, (image, _) in enumerate(pairs):
            by_size.setdefault(image.shape, []).append(i)
        return [
            (
                torch.stack([pairs[i][0] for i in same]),
                self.label[index[same]],
                torch.stack([pairs[i][1] for i in same]),
                index[same],
            )
            for same in by_size.values()
        ]


def check_sizes(image: Path, have: Sequence[int], mask: Path, want: Sequence[int]) -> None:
    if tuple(have) != tuple(want):
        one, other = (f"{width}×{height}" for height, width in (have, want))
        raise UserError(f"image {image} is {one} and its mask {mask} is {other}; they must be of one size")


class _Span(NamedTuple):
    """A random window along one axis: what is read, how long it becomes, and what is added before and after."""

    start: int
    end: int
    length: int
    before: int
    after: int


def random_window(
    image: Tensor, mask: Tensor, size: tuple[int, int], scale: float, random: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """A window of ``size`` from an image [C, H, W] and its mask, magnified between 1/scale and scale.

    ``random`` holds three numbers in [0, 1): magnification and position. Where the image ends, black and IGNORE begin.
    """
    factor = 1 / scale + random[0] * (scale - 1 / scale)
    y, x = (_span(n, want, factor, u) for n, want, u in zip(mask.shape, size, random[1:], strict=True))
    image, mask = (part[..., y.start : y.end, x.start : x.end] for part in (image, mask))
    if mask.shape != (y.length, x.length):
        shape = (y.length, x.length)
        image = F.interpolate(image[None], shape, mode="bilinear", align_corners=False, antialias=True)[0]
        mask = F.interpolate(mask[None, None], shape, mode="nearest-exact")[0, 0]
    around = (x.before, x.after, y.before, y.after)
    if any(around):
        image, mask = F.pad(image, around), F.pad(mask, around, value=IGNORE)
    return image, mask


def _span(length: int, want: int, factor: float, random: float) -> _Span:
    scaled = max(1, round(length * factor))
    if scaled < want:
        before = int(random * (want - scaled + 1))
        return _Span(0, length, scaled, before, want - scaled - before)
    offset = int(random * (scaled - want + 1))
    start = min(round(offset * length / scaled), length - 1)
    end = min(max(start + 1, round((offset + want) * length / scaled)), length)
    return _Span(start, end, want, 0, 0)
