"""Image files of which no more is known than where they are, and images from elsewhere, as an evaluation reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from teachaugment.data.decode import BICUBIC, BadImage, fitted, grey, open_image, pixels, without_advice
from teachaugment.data.folders import files_below, is_hidden
from teachaugment.data.opened import endings
from teachaugment.data.source import Source
from teachaugment.data.streamed import Sample, StreamedSplit
from teachaugment.errors import UserError

AnyImage = Any  # a path, an image of Pillow, an array [H, W, C] or [H, W], a tensor [C, H, W]


def image_files(folder: Path) -> list[str]:
    """Image files below ``folder``, as sorted paths relative to it. Hidden files and unknown endings are no images."""
    known = endings()
    return sorted(file for file in files_below(folder) if file.lower().endswith(known) and not is_hidden(file))


@dataclass(frozen=True)
class Preparation:
    """From any image to the pixels that a network is evaluated on."""

    size: tuple[int, int] | None  # height and width; None: images stay whole, whatever their size
    centre: float = 1.0  # of the shorter side, what the centre crop keeps
    channels: int = 3
    interpolation: str = BICUBIC
    fit: str = "crop"

    def file(self, image: Image.Image, name: object) -> Tensor:
        """uint8 [C, H, W] of an opened image, which is closed."""
        if self.channels not in (1, 3):
            raise UserError(f"this network takes {self.channels} channels: give it tensors, not image files")
        if self.size is None:
            made = pixels(image, name)
        else:
            made = fitted(image, name, self.size, self.centre, self.interpolation, self.fit)
        return made if self.channels == 3 else grey(made)

    def any(self, image: AnyImage, name: object) -> Tensor:
        """Float [C, H, W] in [0, 1] of an image in any form; ``name`` is what messages call it."""
        try:
            if isinstance(image, (str, os.PathLike)):
                made = self.file(open_image(Path(image).expanduser()), image)
            elif isinstance(image, Image.Image):
                made = self.file(image.copy(), name)
            elif isinstance(image, np.ndarray):
                made = self._tensor(_channels_first(image, name), name)
            elif isinstance(image, Tensor):
                made = self._tensor(image, name)
            else:
                raise UserError(f"{name} is a {type(image).__name__}; give a path, an image, an array or a tensor")
        except BadImage as error:
            raise BadImage(without_advice(error)) from None
        return made if made.is_floating_point() else made.to(torch.float32).div_(255)

    def _tensor(self, image: Tensor, name: object) -> Tensor:
        """The same of a tensor: as it is if it has the right size, otherwise resized as a file with its pixels is."""
        image = image.detach()
        if image.ndim != 3 or image.shape[0] != self.channels:
            shape = list(image.shape)
            raise UserError(f"{name} is of shape {shape}; the network takes [{self.channels}, height, width]")
        if image.is_floating_point():
            low, high = (float(value) for value in image.aminmax())
            if not (low >= 0 and high <= 1):
                raise UserError(
                    f"{name} reaches from {low:.3g} to {high:.3g}; give images in [0, 1], which are normalised inside"
                )
        elif image.dtype != torch.uint8:
            raise UserError(f"{name} is of {image.dtype}; give uint8, or float in [0, 1]")
        if self.size is None or tuple(image.shape[1:]) == self.size:
            return image.float() if image.is_floating_point() else image
        if self.channels not in (1, 3):
            want = "×".join(map(str, self.size))
            raise UserError(f"{name} is {image.shape[1]}×{image.shape[2]}; images of {self.channels} must be {want}")
        if image.is_floating_point():
            image = (image.float() * 255).round().to(torch.uint8)
        rows = image.cpu().permute(1, 2, 0).numpy()
        return self.file(Image.fromarray(rows if self.channels == 3 else rows[..., 0]), name)


def _channels_first(image: np.ndarray, name: object) -> Tensor:
    """[H, W, C] or, without colour, [H, W] to [C, H, W]."""
    if image.ndim not in (2, 3):
        raise UserError(f"{name} is an array of shape {list(image.shape)}; give [height, width, channels]")
    rows = torch.from_numpy(np.ascontiguousarray(image))
    return rows[None] if rows.ndim == 2 else rows.permute(2, 0, 1)


@dataclass(eq=False)
class Files(Source):
    """Image files; the keys are their paths."""

    def open(self, index: int) -> Image.Image:
        return open_image(Path(self.keys[index]))

    def name(self, index: int) -> str:
        return self.keys[index]


@dataclass
class Unlabelled(StreamedSplit):
    """Image files as an evaluation reads them; unreadable ones are left out, and ``skipped`` says why."""

    preparation: Preparation = Preparation(None)
    skipped: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, files: Sequence[str], preparation: Preparation) -> Unlabelled:
        nothing = torch.zeros(len(files), dtype=torch.int64)
        size = preparation.size or (0, 0)
        return cls(Files(list(files), nothing), size, bad_images="skip", preparation=preparation)

    def read(self, index: int, seed: int, epoch: int) -> Sample:
        return Sample([self.preparation.file(self.source.open(index), self.source.name(index))])

    def warn(self, skipped: list[str]) -> None:
        self.skipped += map(without_advice, skipped)
