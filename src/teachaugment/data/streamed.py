"""Images that stay where they are, and are decoded and cropped when a batch asks for them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from teachaugment import seeds
from teachaugment.batch import NO_BOX
from teachaugment.data.decode import BadImage, fitted, random_crop, random_crops, without_advice
from teachaugment.data.folders import LISTED
from teachaugment.data.source import Source


class Sample(NamedTuple):
    """One image, decoded."""

    views: list[Tensor]  # [3, H, W] uint8 each: the image, or several random crops of it
    mask: Tensor | None = None  # [H, W] uint8
    boxes: Tensor | None = None  # [N, 5] float, as in a Batch


class Part(NamedTuple):
    """Images of one size that are read together."""

    views: list[Tensor]  # [B, 3, H, W] uint8 each
    label: Tensor  # [B] int64
    mask: Tensor | None  # [B, H, W] uint8
    rows: Tensor  # [B] int64, positions in the split
    boxes: Tensor | None = None  # [B, most boxes, 5] float


def stacked(boxes: Sequence[Tensor]) -> Tensor:
    """The boxes [n, 5] of several images in one tensor [B, most boxes, 5], filled up with rows that are no box."""
    nothing = torch.full((1, 5), float(NO_BOX))  # so that there is a row even where no image has a box
    return pad_sequence([*boxes, nothing], batch_first=True, padding_value=NO_BOX)[:-1]


@dataclass
class StreamedSplit:
    """A source, and how its images are read."""

    source: Source
    size: tuple[int, int]  # height and width of what is read
    area: float = 1.0  # least share of the image that a random crop shows; 1: the centre crop of an evaluation
    views: int = 1  # random crops that are made of each image
    centre: float = 1.0  # of the shorter side, what the centre crop keeps
    interpolation: str = "bicubic"
    fit: str = "crop"  # how the whole image is made to fit
    bad_images: str = "error"  # error: an unreadable image stops the reading; skip: it is left out
    warned: set[str] = field(default_factory=set, repr=False, compare=False)  # skipped images that were named

    def __len__(self) -> int:
        return len(self.source)

    @property
    def label(self) -> Tensor:
        """[N] int64, the classes of the images."""
        return self.source.label

    @property
    def cropped(self) -> bool:
        """Whether an image comes as a random part of itself."""
        return self.area < 1

    @property
    def in_memory(self) -> bool:
        """Whether the images are decoded already."""
        return False

    def select(self, rows: Tensor) -> StreamedSplit:
        """The images at ``rows``, in that order."""
        return replace(self, source=self.source.select(rows))

    def whole(self) -> StreamedSplit:
        """The same images without random crops."""
        return replace(self, area=1.0)

    def with_crops(self, area: float, views: int = 1) -> StreamedSplit:
        """The same images with other random crops."""
        return replace(self, area=area, views=views)

    def order(self, seed: int, epoch: int) -> Tensor:
        """The order in which an epoch of training takes the images."""
        return self.source.order(seed, epoch)

    def fingerprint(self) -> str | None:
        """A name for the images as an evaluation reads them, under which measurements are remembered, or None."""
        stored = self.source.fingerprint()
        if stored is None:
            return None
        fit = "" if self.fit == "crop" else f"-{self.fit}"
        return f"{stored}-{self.size[0]}x{self.size[1]}-{self.centre:.4g}-{self.interpolation}{fit}"

    def read(self, index: int, seed: int, epoch: int) -> Sample:
        """One image. A crop is a function of seed, epoch, index and view, whichever process decodes it."""
        image, name = self.source.open(index), self.source.name(index)
        if not self.cropped:
            return Sample([fitted(image, name, self.size, self.centre, self.interpolation, self.fit)])
        streams = (seeds.generator("cpu", seed, "crop", epoch, index, view) for view in range(self.views))
        crops = [random_crop(self.area, random) for random in streams]
        return Sample(random_crops(image, name, self.size, crops, self.interpolation))

    def read_rows(
        self, rows: list[int], seed: int, epoch: int, *, fill: bool = False, skipped: list[str] | None = None
    ) -> tuple[list[Sample], list[int]]:
        """What ``read`` makes of some rows, and their positions.

        With ``bad_images="skip"`` an unreadable image is left out, so that no image counts twice in an evaluation; with
        ``fill`` the next readable one stands in for it, so that batches of training stay full. What was left out is
        appended to ``skipped``: a process that reads for another one leaves it to that one to warn.
        """
        samples, kept = [], []
        for wanted in rows:
            for row in ((wanted + i) % len(self) for i in range(len(self) if fill else 1)):
                try:
                    samples.append(self.read(row, seed, epoch))
                except BadImage as error:
                    if self.bad_images == "error":
                        raise
                    if skipped is None:
                        self.warn([str(error)])
                    else:
                        skipped.append(str(error))
                else:
                    kept.append(row)
                    break
        return samples, kept

    def read_parts(
        self, rows: list[int], seed: int, epoch: int, *, fill: bool = False, skipped: list[str] | None = None
    ) -> list[Part]:
        """Some rows in as few parts as possible: images of one size are in one part."""
        samples, kept = self.read_rows(rows, seed, epoch, fill=fill, skipped=skipped)
        by_size: dict[torch.Size, list[int]] = {}
        for i, sample in enumerate(samples):
            by_size.setdefault(sample.views[0].shape, []).append(i)
        parts = []
        for same in by_size.values():
            views = [torch.stack(list(view)) for view in zip(*(samples[i].views for i in same), strict=True)]
            masks = [mask for i in same if (mask := samples[i].mask) is not None]
            found = torch.tensor([kept[i] for i in same], dtype=torch.int64)
            boxes = [known for i in same if (known := samples[i].boxes) is not None]
            mask, in_one = torch.stack(masks) if masks else None, stacked(boxes) if boxes else None
            parts.append(Part(views, self.label[found], mask, found, in_one))
        return parts

    def warn(self, skipped: list[str]) -> None:
        """Say once in a run, and not once in an epoch, that an image was skipped."""
        for message in skipped:
            if message in self.warned:
                continue
            self.warned.add(message)
            if len(self.warned) <= LISTED:
                warnings.warn(f"skipped: {without_advice(message)}", stacklevel=2)
            elif len(self.warned) == LISTED + 1:
                warnings.warn(f"skipped more than {LISTED} unreadable images; the others are not named", stacklevel=2)
