"""Where images come from: something that can open them one by one, and knows the class of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from PIL import Image
from torch import Tensor

from teachaugment.data import order
from teachaugment.data.decode import dimensions

AnySource = TypeVar("AnySource", bound="Source")


@dataclass(eq=False)
class Source(ABC):
    """Images that are not decoded yet. A format has a subclass that says how one of them is opened."""

    keys: list[str]  # what tells the images apart: a path, a name in a shard, the number of a row
    label: Tensor  # [N] int64

    looked_at: ClassVar[int | None] = None  # images whose headers say which size the data have; None: all

    def __len__(self) -> int:
        return len(self.keys)

    @abstractmethod
    def open(self, index: int) -> Image.Image:
        """One image, opened but not decoded. Raises BadImage."""

    @abstractmethod
    def name(self, index: int) -> str:
        """One image, for messages."""

    def dimensions(self, index: int) -> tuple[int, int]:
        """Height and width of one image as displayed. Raises BadImage."""
        return dimensions(self.open(index), self.name(index))

    def select(self: AnySource, rows: Tensor) -> AnySource:
        """The images at ``rows``, in that order. What a subclass has for each image, it selects besides."""
        return replace(self, keys=[self.keys[i] for i in rows.tolist()], label=self.label[rows])

    def fingerprint(self) -> str | None:
        """A name for the images as they are stored, under which measurements are remembered; None: there is none."""
        return None

    def order(self, seed: int, epoch: int) -> Tensor:
        """The order in which an epoch of training takes the images."""
        return order.shuffled(len(self), seed, epoch)
