"""DDA, the differentiable augmentation of Faster AutoAugment (Hataya et al., 2020): a rival of the neural augmenter.

There are several sub-policies of K stages each. An image draws a sub-policy, each of its stages draws an operation by a
softmax, and the operation is applied with a probability; softmax, probabilities and magnitudes are learned. While it
learns, Faster AutoAugment mixes the results of all operations, weighted by the softmax, and draws one when it is used.
Here one is drawn in both cases, so that networks and masks see what the target will see; the gradient is the mix's.

The colour operations of all stages come before the geometric ones, as in every augmenter here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.augment import augmenter
from teachaugment.augment.augmenter import Augmenter, in_full_precision
from teachaugment.augment.boxes import warp_boxes
from teachaugment.augment.functional import bernoulli, straight_through, warp_mask
from teachaugment.augment.mlp import Sources
from teachaugment.augment.operations import (
    AFFINE,
    COLOR,
    CUTOUT,
    OPERATIONS,
    Operation,
    column,
    cover,
    in_coordinates,
    warped,
)
from teachaugment.batch import IGNORE, Batch

PLACE = {operation.name: i for i, operation in enumerate(OPERATIONS)}
LEARNED = [operation for operation in OPERATIONS if operation.reach]  # those with a magnitude
MAGNITUDE = {operation.name: i for i, operation in enumerate(LEARNED)}
GEOMETRIC = (*AFFINE, CUTOUT)
ALL = slice(None)


@dataclass(frozen=True)
class Settings(augmenter.Settings):
    """The numbers are Faster AutoAugment's. It has no context, so ``classes`` changes nothing."""

    policies: int = 10
    stages: int = 2
    temperature: float = 0.05  # of the softmax and of the relaxed Bernoulli

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.policies >= 1 and self.stages >= 1 and self.temperature > 0):
            raise ValueError("policies and stages must be at least 1, and temperature above 0")


class Draw(NamedTuple):
    """Everything random, for each image and stage."""

    weight: Tensor  # [B, K, operations]: 1 at the operation drawn if it is applied, 0 elsewhere
    strength: Tensor  # [B, K, operations with a magnitude]: as the operation takes it, with a sign
    centre: Tensor  # [B, K, 2]: of cutout
    partner: Tensor  # [B, K]: another image of the batch, for sample pairing

    def weight_of(self, operation: Operation, stage: int) -> Tensor:
        return column(self.weight[:, stage, PLACE[operation.name]])

    def strength_of(self, operation: Operation, stage: int) -> Tensor:
        """[B]; for operations without a magnitude that of another, which they ignore."""
        return self.strength[:, stage, MAGNITUDE.get(operation.name, 0)]


class DDAAugmenter(Augmenter):
    """AutoAugment's operations with learned choice, probability and magnitude. All start at random, as in the paper."""

    name = "dda"
    settings: Settings
    reach: Tensor
    signed: Tensor

    def __init__(self, channels: int = 3, classes: int | None = None, **shape: Any) -> None:
        super().__init__()
        self.settings = s = Settings(channels, classes, **shape)
        uniform = partial(torch.rand, s.policies, s.stages)
        self.choice = nn.Parameter(uniform(len(OPERATIONS)))
        self.log_odds = nn.Parameter(torch.logit(uniform(len(OPERATIONS)), eps=0.05))
        self.magnitude = nn.Parameter(torch.logit(uniform(len(LEARNED)), eps=0.05))  # as log-odds too
        self.register_buffer("reach", torch.tensor([o.reach for o in LEARNED]), persistent=False)
        self.register_buffer("signed", torch.tensor([o.signed for o in LEARNED]), persistent=False)

    def probabilities(self) -> dict[str, Tensor]:
        """The share of images each operation changes, by sub-policy."""
        choice = (self.choice.detach() / self.settings.temperature).softmax(-1)
        share = 1 - (1 - choice * self.log_odds.detach().sigmoid()).prod(1)
        return {name: share[:, i] for name, i in PLACE.items()}

    def _draw(self, n: int, context: Tensor | None, generator: torch.Generator | None, sources: Sources) -> Draw:
        s, device = self.settings, self.device
        uniform = partial(torch.rand, n, s.stages, device=device, generator=generator)
        policy = torch.randint(s.policies, (n, 1), device=device, generator=generator)

        def learned(name: str) -> Tensor:
            return sources.images.rows(name, policy)[:, 0]

        score = learned("choice") / s.temperature
        gumbel = -(-uniform(len(OPERATIONS)).log()).log()
        choice = F.one_hot((score + gumbel).argmax(-1), len(OPERATIONS)).to(score.dtype)
        if torch.is_grad_enabled():
            choice = straight_through(choice, score.softmax(-1))
        applied = bernoulli(learned("log_odds"), uniform(len(OPERATIONS)), s.temperature)
        backwards = self.signed & (uniform(len(LEARNED)) < 0.5)
        strength = learned("magnitude").sigmoid() * torch.where(backwards, -self.reach, self.reach)
        partner = torch.randint(n, (n, s.stages), device=device, generator=generator)
        return Draw(choice * applied, strength, uniform(2), partner)

    def color(self, batch: Batch, draw: Draw) -> Batch:
        return batch.replace(image=in_full_precision(partial(in_stages, COLOR), batch.image, draw, draw.weight.dtype))

    def warp(self, batch: Batch, draw: Draw) -> Batch:
        image = in_full_precision(partial(in_stages, GEOMETRIC), batch.image, draw, draw.weight.dtype)
        mask = None if batch.mask is None else mask_in_stages(batch.mask, draw)
        boxes, size = batch.boxes, (image.shape[2], image.shape[3])
        if boxes is not None:
            boxes = warp_boxes(boxes, self.matrix(draw, size), size)
        return batch.replace(image=image, mask=mask, boxes=boxes)

    def weakened(self, draw: Draw, strength: float) -> Draw:
        """Magnitudes times ``strength``; of an operation without one, so much of its result. A mirror stays."""
        no_magnitude = [operation in COLOR and not operation.reach for operation in OPERATIONS]
        share = draw.weight.new_tensor([strength if none else 1.0 for none in no_magnitude])
        return draw._replace(weight=draw.weight * share, strength=draw.strength * strength)

    def matrix(self, draw: Draw, size: tuple[int, int]) -> Tensor:
        matrix = stage_matrix(draw, 0)
        last = matrix.new_tensor([[[0.0, 0.0, 1.0]]]).expand(len(matrix), 1, 3)
        total = torch.cat([in_coordinates(matrix, size), last], 1)
        for stage in range(1, draw.weight.shape[1]):  # what comes later is looked up first
            total = total @ torch.cat([in_coordinates(stage_matrix(draw, stage), size), last], 1)
        return total[:, :2]

    def ranges(self) -> dict[str, list[float]]:
        return {o.name: [-o.reach if o.signed else 0.0, o.reach] for o in LEARNED}


def in_stages(operations: Sequence[Operation], image: Tensor, draw: Draw) -> Tensor:
    """Stage by stage, x + Σ_o w_o (o(x) - x) over the operations."""
    # An accelerator would have to wait to know which images an operation was drawn for.
    if torch.is_grad_enabled():
        one_stage = mixed_where_drawn if image.is_cpu else mixed
    else:
        one_stage = picked if image.is_cpu else selected
    for stage in range(draw.weight.shape[1]):
        image = one_stage(operations, image, draw, stage)
    return image


def mixed(operations: Sequence[Operation], image: Tensor, draw: Draw, stage: int) -> Tensor:
    """All operations on all images, so that the weight of each gets its gradient."""
    total = image
    for operation in operations:
        total = total + draw.weight_of(operation, stage) * (changed(operation, image, draw, stage) - image)
    return total


def mixed_where_drawn(operations: Sequence[Operation], image: Tensor, draw: Draw, stage: int) -> Tensor:
    """The same value and gradients for less: through an operation no gradient comes but where it was drawn."""
    total = image
    for operation in operations:
        weight = draw.weight_of(operation, stage)
        with torch.no_grad():
            change = changed(operation, image, draw, stage) - image
        total = total + weight * change
        rows = weight.detach().flatten().nonzero()[:, 0]
        if len(rows):
            carrier = changed(operation, image, draw, stage, rows) - image[rows]
            carrier = weight[rows].detach() * (carrier - carrier.detach())  # zero, with a gradient
            total = total.index_add(0, rows, carrier)
    return total


def picked(operations: Sequence[Operation], image: Tensor, draw: Draw, stage: int) -> Tensor:
    """Each operation on the images it was drawn for."""
    result = image.clone()
    for operation in operations:
        weight = draw.weight_of(operation, stage)
        rows = weight.flatten().nonzero()[:, 0]
        if len(rows):
            new = changed(operation, image, draw, stage, rows)
            result.index_copy_(0, rows, torch.lerp(image[rows], new, weight[rows]))
    return result


def selected(operations: Sequence[Operation], image: Tensor, draw: Draw, stage: int) -> Tensor:
    """All operations on all images, of which those drawn are kept."""
    result = image
    for operation in operations:
        weight = draw.weight_of(operation, stage)
        new = torch.lerp(image, changed(operation, image, draw, stage), weight)
        result = torch.where(weight > 0, new, result)
    return result


def changed(operation: Operation, image: Tensor, draw: Draw, stage: int, rows: Any = ALL) -> Tensor:
    """What an operation makes of these rows of the batch."""
    strength = draw.strength_of(operation, stage)[rows]
    if operation in AFFINE:
        return warped(image[rows], operation.function(strength))
    if operation.extra == "partner":
        return operation.function(image[rows], strength, image[draw.partner[rows, stage]])
    if operation.extra == "centre":
        return operation.function(image[rows], strength, draw.centre[rows, stage])
    return operation.function(image[rows], strength)


def mask_in_stages(mask: Tensor, draw: Draw) -> Tensor:
    """The mask with the same geometry, and IGNORE where cutout painted."""
    for stage in range(draw.weight.shape[1]):
        mask = warp_mask(mask, in_coordinates(stage_matrix(draw, stage).detach(), mask.shape[-2:]), IGNORE)
        painted = cover(mask, draw.strength_of(CUTOUT, stage), draw.centre[:, stage]) * draw.weight_of(CUTOUT, stage)
        mask = mask.masked_fill(painted[:, 0] > 0.5, IGNORE)
    return mask


def stage_matrix(draw: Draw, stage: int) -> Tensor:
    """The geometry of a stage, [B, 2, 3]: that of the affine operation drawn, if it is one."""
    matrix = torch.eye(2, 3, device=draw.strength.device, dtype=draw.strength.dtype).expand(len(draw.weight), 2, 3)
    for operation in AFFINE:
        drawn = draw.weight_of(operation, stage)[:, 0] > 0.5
        matrix = torch.where(drawn, operation.function(draw.strength_of(operation, stage)), matrix)
    return matrix
