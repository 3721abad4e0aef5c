"""One operation for each image, drawn among RandAugment's; what is found while training is how strong they may be.

A simple prior that is hard to beat: an operation at a time, all equally often, none of them learned by gradient. The
strength of a draw (``weakened``, from the governor) scales all of them: at 0 nothing changes, at 1 an operation goes as
far as RandAugment's largest magnitude. Each gets its share of it (``share``, from the governor too). It is the same for
image, mask and boxes, and one pass over the batch on its device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from teachaugment.augment import operations
from teachaugment.augment.augmenter import Augmenter, Settings, in_full_precision
from teachaugment.augment.boxes import warp_boxes
from teachaugment.augment.functional import affine_warp, warp_mask
from teachaugment.augment.mlp import Sources
from teachaugment.augment.operations import AFFINE, COLOR, Operation, in_coordinates
from teachaugment.batch import IGNORE, Batch

# Not RandAugment's: flips belong to the data, and whether a digit's negative is still that digit is not for us to say.
LEFT_OUT = (operations.invert, operations.sample_pairing, operations.flip)
COLORS = tuple(operation for operation in COLOR if operation.function not in LEFT_OUT)
MOVES = tuple(operation for operation in AFFINE if operation.function not in LEFT_OUT)
ALL_OR_NOTHING = (operations.auto_contrast, operations.equalize)  # a weaker one is a mixture with the image
PLAIN = 1 / 8  # of the images stay as they are, so that it is known how well the network masters plain ones
FIRST_COLOR, FIRST_MOVE, COUNT = 1, 1 + len(COLORS), 1 + len(COLORS) + len(MOVES)  # number 0 changes nothing


class Draw(NamedTuple):
    operation: Tensor  # [B] int64: its number
    strength: Tensor  # [B], from -1 to 1


class OneOperation(Augmenter):
    """Nothing in it is learned by gradient: it has no parameters and no context."""

    name = "operations"
    learns = False
    arms = tuple(operation.name for operation in (*COLORS, *MOVES))
    shares: Tensor  # [COUNT], from 0 to 1: of the strength, for each operation by its number

    def __init__(self, channels: int = 3, classes: int | None = None, group: int = 8) -> None:
        super().__init__()
        self.settings = replace(Settings(channels, classes, group), classes=None)
        self.register_buffer("shares", torch.ones(COUNT), persistent=False)

    @property
    def device(self) -> torch.device:
        return self.shares.device

    def sample(
        self,
        n: int,
        context: Tensor | None = None,
        generator: torch.Generator | None = None,
        snapshots: Sources | None = None,
    ) -> Draw:
        """There are no weights, so there is nothing to read from a snapshot."""
        number = torch.randint(FIRST_COLOR, COUNT, (n,), device=self.device, generator=generator)
        number = number.masked_fill(torch.rand(n, device=self.device, generator=generator) < PLAIN, 0)
        sign = torch.randint(2, (n,), device=self.device, generator=generator, dtype=torch.float32) * 2 - 1
        return Draw(number, sign * self.shares[number])

    def weakened(self, draw: Draw, strength: float) -> Draw:
        return draw._replace(strength=draw.strength * strength)

    def arm(self, draw: Draw) -> Tensor:
        return draw.operation

    def share(self, shares: Sequence[float]) -> None:
        self.shares = torch.tensor([1.0, *shares]).to(self.device, non_blocking=True)

    def color(self, batch: Batch, draw: Draw) -> Batch:
        return batch.replace(image=in_full_precision(colored, batch.image, draw, torch.float32))

    def warp(self, batch: Batch, draw: Draw) -> Batch:
        size = (batch.image.shape[-2], batch.image.shape[-1])
        matrix = self.matrix(draw, size)
        moves = draw.operation >= FIRST_MOVE

        def moved(image: Tensor, rows: Tensor) -> Tensor:
            return in_full_precision(affine_warp, image, matrix[rows], matrix.dtype)

        image = where(moves, batch.image, moved)
        mask = batch.mask
        if mask is not None:
            mask = where(moves, mask, lambda part, rows: warp_mask(part, matrix[rows], IGNORE))
        boxes = batch.boxes
        if boxes is not None:
            boxes = where(moves, boxes, lambda part, rows: warp_boxes(part, matrix[rows], size))
        return batch.replace(image=image, mask=mask, boxes=boxes)

    def matrix(self, draw: Draw, size: tuple[int, int]) -> Tensor:
        moves = torch.eye(2, 3, device=draw.strength.device).expand(len(draw.strength), 2, 3)
        for i, operation in enumerate(MOVES, FIRST_MOVE):
            chosen = (draw.operation == i).view(-1, 1, 1)
            moves = torch.where(chosen, operation.function(reached(operation, draw.strength)), moves)
        return in_coordinates(moves, size)

    def ranges(self) -> dict[str, list[float]]:
        return {o.name: [-o.reach if o.signed else 0.0, o.reach] for o in (*COLORS, *MOVES) if o.reach}

    def probabilities(self) -> dict[str, Tensor]:
        return {}


def reached(operation: Operation, strength: Tensor) -> Tensor:
    """How far an operation goes at this strength."""
    return operation.reach * (strength if operation.signed else strength.abs())


def colored(image: Tensor, draw: Draw) -> Tensor:
    """Each image after its operation, if that is one of colours."""
    result = image
    for i, operation in enumerate(COLORS, FIRST_COLOR):

        def changed(part: Tensor, rows: Tensor, operation: Operation = operation) -> Tensor:
            strength = draw.strength[rows]
            made = operation.function(part, reached(operation, strength))
            if operation.function in ALL_OR_NOTHING:
                made = torch.lerp(part, made, operations.column(strength.abs()))
            return made

        result = where(draw.operation == i, result, changed)
    return result


def where(chosen: Tensor, images: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The images, or masks, with those changed that are chosen.

    On a CPU only those are computed. On other devices all of them are: to know how many there are would mean to wait.
    """
    if chosen.is_cpu:
        rows = chosen.nonzero()[:, 0]
        return images.index_copy(0, rows, change(images[rows], rows)) if len(rows) else images
    every = torch.arange(len(images), device=images.device)
    return torch.where(chosen.view(-1, *[1] * (images.ndim - 1)), change(images, every), images)
