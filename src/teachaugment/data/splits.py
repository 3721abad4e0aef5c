"""What a data set is: splits, decoded in memory or streamed, and the names and statistics that go with them."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from teachaugment import seeds
from teachaugment.data import order
from teachaugment.data.decode import BICUBIC
from teachaugment.data.streamed import StreamedSplit
from teachaugment.errors import UserError

# Channel statistics of the code that the paper's experiments follow, so that numbers compare with the literature: that
# of Fast AutoAugment has one pair for both CIFARs, whose deviation is a mean over images, not that of all pixels.
CIFAR = ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
STATISTICS = {
    "cifar10": CIFAR,
    "cifar100": CIFAR,
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cityscapes": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),  # ImageNet's, where the backbones come from
}


@dataclass
class Split:
    """Decoded images, all of one size, on one device."""

    image: Tensor  # [N, C, H, W] uint8
    label: Tensor  # [N] int64
    mask: Tensor | None = None  # [N, H, W] uint8
    boxes: Tensor | None = None  # [N, most boxes, 5] float, as in a Batch
    _copy: Split | None = field(default=None, repr=False, compare=False)

    in_memory: ClassVar[bool] = True  # the images are decoded already
    cropped: ClassVar[bool] = False  # no image comes as a random part of itself

    def __len__(self) -> int:
        return len(self.image)

    def select(self, rows: Tensor) -> Split:
        """The images at ``rows``, in that order."""
        mask, boxes = (None if known is None else known[rows] for known in (self.mask, self.boxes))
        return Split(self.image[rows], self.label[rows], mask, boxes)

    def whole(self) -> Split:
        """The same images without random crops, which is what they are."""
        return self

    def with_crops(self, area: float, views: int = 1) -> Split:
        """The same images: those in memory are cropped on their device, by whoever trains with them."""
        return self

    def order(self, seed: int, epoch: int) -> Tensor:
        """The order in which an epoch of training takes the images."""
        return order.shuffled(len(self), seed, epoch)

    def to(self, device: torch.device | str) -> Split:
        """The split on ``device``. The last copy is kept, so that an epoch does not upload it again."""
        device = torch.empty(0, device=device).device  # "cuda" becomes "cuda:0"
        if self.image.device == device:
            return self
        if self._copy is None or self._copy.image.device != device:
            mask, boxes = (None if known is None else known.to(device) for known in (self.mask, self.boxes))
            self._copy = Split(self.image.to(device), self.label.to(device), mask, boxes)
        return self._copy


AnyImages = TypeVar("AnyImages", bound="Labelled")


class Labelled(Protocol):
    """Images from which some can be chosen by their classes: a Split or a Source."""

    @property
    def label(self) -> Tensor: ...

    def select(self: AnyImages, rows: Tensor) -> AnyImages: ...


@dataclass
class DataSet:
    """Train and test splits (``val`` only on request) and what a model has to know about them."""

    name: str
    train: Split | StreamedSplit
    test: Split | StreamedSplit
    classes: list[str]
    channels: int
    size: tuple[int, int]  # height, width
    mean: tuple[float, ...]
    std: tuple[float, ...]
    val: Split | StreamedSplit | None = None
    colors: list[tuple[int, int, int]] | None = None  # of the classes in pictures of masks, where the data have any
    centre: float = 1.0  # of an image's shorter side, what the centre crop of an evaluation keeps
    interpolation: str = BICUBIC  # by which images of other sizes were resized
    fit: str = "crop"  # how they were made to fit
    found: tuple[tuple[int, int], ...] = ()  # height and width of the smallest and the largest file that was looked at
    own_test: bool = True  # the test split came with the data; otherwise it was set apart by the seed of the splits

    @cached_property
    def fingerprint(self) -> str:
        """A name for the training images and their classes, made from pixels in memory, otherwise from file names."""
        train, digest = self.train, hashlib.blake2b(repr(self.classes).encode(), digest_size=16)
        digest.update(train.label.cpu().numpy().tobytes())
        if isinstance(train, Split):
            for part in train.image.split(4096):
                digest.update(part.cpu().numpy().tobytes())
        else:
            digest.update("\n".join(train.source.keys).encode())
        return digest.hexdigest()

    def about(self) -> dict[str, Any]:
        """What a checkpoint and a policy say about the images."""
        plain = {name: list(getattr(self, name)) for name in ("classes", "size", "mean", "std")}
        same = {name: getattr(self, name) for name in ("name", "fingerprint", "channels", "centre", "interpolation")}
        colors = None if self.colors is None else [list(color) for color in self.colors]
        return {**same, **plain, "fit": self.fit, "colors": colors, **self.counts()}

    def of_classes(self, classes: Sequence[str]) -> DataSet:
        """The same images, with the numbers that their classes have among ``classes``, which may be more."""
        number = torch.tensor([list(classes).index(name) for name in self.classes])
        changed: dict[str, Any] = {n: _renumbered(getattr(self, n), number) for n in ("train", "test", "val")}
        return replace(self, classes=list(classes), **changed)

    def counts(self) -> dict[str, int]:
        splits = {"train": self.train, "val": self.val, "test": self.test}
        return {f"{name}_images": len(split) for name, split in splits.items() if split is not None}


def _renumbered(split: Split | StreamedSplit | None, number: Tensor) -> Split | StreamedSplit | None:
    """A split whose class k is now called ``number[k]``. Masks are not for it."""
    if split is None:
        return None
    label = number[split.label]
    if isinstance(split, StreamedSplit):
        return replace(split, source=replace(split.source, label=label))
    return replace(split, label=label, _copy=None)


def _shuffled_by_class(label: Tensor, seed: int, purpose: str) -> list[Tensor]:
    """For each class the positions of its images, in an order that only seed and purpose decide."""
    rows = []
    for k in label.unique().tolist():
        mine = (label == k).nonzero().flatten()
        rows.append(mine[torch.randperm(len(mine), generator=seeds.generator("cpu", seed, purpose, k))])
    return rows


def hold_out(train: AnyImages, fraction: float, seed: int) -> tuple[AnyImages, AnyImages | None]:
    """Take ``fraction`` of each class of ``train`` away: the rest, and what was taken."""
    if fraction == 0:
        return train, None
    val, rest = [], []
    for rows in _shuffled_by_class(train.label, seed, "val"):
        n = min(max(1, round(fraction * len(rows))), len(rows) - 1)
        val.append(rows[:n])
        rest.append(rows[n:])
    held = torch.cat(val).sort().values
    if len(held) == 0:
        raise UserError("a split needs at least two images in some class; every class has one")
    return train.select(torch.cat(rest).sort().values), train.select(held)


def hold_out_validation(train: AnyImages, fraction: float, seed: int) -> tuple[AnyImages, AnyImages | None]:
    """The same for validation, which is left out, with a word about it, where every class has but one image."""
    if fraction and int(train.label.bincount().max()) < 2:
        warnings.warn("every class has one training image: there is no validation split", stacklevel=2)
        return train, None
    return hold_out(train, fraction, seed)


def at_most_per_class(train: AnyImages, per_class: int | None, seed: int) -> AnyImages:
    """At most ``per_class`` images of each class. With one seed, the smaller choice is part of the larger one."""
    if per_class is None:
        return train
    rows = torch.cat([rows[:per_class] for rows in _shuffled_by_class(train.label, seed, "few")])
    return train.select(rows.sort().values)


def statistics(name: str, image: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel in [0, 1]: known constants, or measured on ``image`` (uint8).

    Measured through histograms: exact, in float64, and without a float copy of the images.
    """
    if name in STATISTICS and image.shape[1] == 3:
        return STATISTICS[name]
    values = torch.arange(256, dtype=torch.float64) / 255
    mean, std = [], []
    for channel in range(image.shape[1]):
        parts = [torch.bincount(part[:, channel].flatten(), minlength=256) for part in image.split(1024)]
        total = torch.stack(parts).sum(0)
        share = total.double() / total.sum()
        center = (share * values).sum()
        mean.append(center.item())
        # A channel without any variation is left unscaled rather than divided by zero.
        std.append((share * (values - center) ** 2).sum().sqrt().item() or 1.0)
    return tuple(mean), tuple(std)
