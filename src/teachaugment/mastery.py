"""Mastery, for the governor: how much of what it is shown the target gets right.

A measure takes an output and what is true, as a loss does, and returns counts [right or seen, classes].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment.batch import IGNORE, Batch
from teachaugment.errors import UserError
from teachaugment.governor import Governor
from teachaugment.losses import Loss, highest, main_head, smoothing_of
from teachaugment.networks import Forward, as_it_trains, evaluating, in_32_bits

Mastery = Callable[[Any, Any], Tensor]
IMAGES = 16  # that the target is asked about, where it has to be asked


def recall(output: Any, truth: Tensor) -> Tensor:
    """Of class scores: how many images, or pixels of masks, are recognised in each class."""
    return recall_apart(output, truth, torch.ones(len(truth), dtype=torch.bool, device=truth.device))[0]


def recall_apart(output: Any, truth: Tensor, plain: Tensor) -> Tensor:
    """The same for the images that are plain ([B] bool) and for the others, [plain or not, right or seen, classes]."""
    scores = main_head(output)
    classes = scores.shape[1]
    label = (truth.argmax(1) if truth.is_floating_point() else truth).flatten()
    known = label != IGNORE if truth.ndim > 2 else torch.ones_like(label, dtype=torch.bool)
    label = label.masked_fill(~known, 0)
    counted = torch.stack([(highest(scores).flatten() == label) & known, known]).to(torch.float32)
    cell = label + classes * (~plain).repeat_interleave(len(label) // max(1, len(plain)))
    counts = counted.new_zeros(2, 2 * classes).scatter_add(1, cell.expand(2, -1), counted)
    return counts.view(2, 2, classes).transpose(0, 1)


def likelihood(loss: Loss) -> Mastery:
    """Of any other loss: e to the power of minus it, which is 1 where there is nothing left to lose."""

    def measure(output: Any, truth: Any) -> Tensor:
        right = torch.exp(-loss(output, truth).detach().float().mean()).clamp_max(1)
        return torch.stack([right, torch.ones_like(right)])[:, None]

    return measure


def default_mastery(loss: Loss) -> Mastery:
    """The recall of each class for cross-entropy, also with weights or summed up, which says nothing about what is
    right; any other loss says itself how much is left to lose."""
    of_classes = smoothing_of(loss) is not None or (isinstance(loss, nn.CrossEntropyLoss) and loss.ignore_index < 0)
    return recall if of_classes else likelihood(loss)


def of_last_call(batch: Batch, plain: Tensor | None) -> Batch:
    """The images and labels of ``teach.step(images, labels, output=output)`` with what was left as it is of those that
    ``teach(images, labels)`` gave last."""
    if batch.mask is not None or batch.boxes is not None:
        raise UserError("output= is for labels of images; with masks, teach.observe(output, made) takes what was made")
    if plain is not None and len(plain) != len(batch):
        raise UserError(
            f"output= belongs to the last call of teach(images, labels), which gave {len(plain)} images; these are "
            f"{len(batch)}; leave it out, or call teach.observe for each part"
        )
    return batch.replace(plain=plain)


@dataclass
class Examiner:
    """Tells the governor what the target masters.

    The recall of classes is counted in the target's own updates, among the images that the augmentation has left as
    they are and among the others: as they are trained on, and for nothing. Anything else, or outputs that nobody has
    shown, means to ask the target about a few images now and then.
    """

    target: nn.Module
    mastery: Mastery
    normalized: Callable[[Batch], Batch]
    forward: Forward
    governor: Governor

    @torch.no_grad()
    def observe(self, output: Any, seen: Batch) -> None:
        """Count what is mastered in an update of the target."""
        changed, truth = self.governor.strength > 0, seen.truth
        if self.mastery is not recall or not isinstance(truth, Tensor) or truth.is_floating_point():
            return  # there are no classes, or images of several, of which nobody can say what is right
        if changed and seen.plain is None:
            return
        with in_32_bits(seen.image.device):
            if not changed or seen.plain is None:
                plain = augmented = recall(output, truth)
            else:
                plain, augmented = recall_apart(output, truth, seen.plain)
        self.governor.count(plain, augmented)

    def step(self, batch: Batch, augment: Callable[[Batch], Batch]) -> None:
        """After each update of the target, with its images before augmentation."""

        def ask() -> tuple[Tensor, Tensor]:
            few = batch[:IMAGES]
            augmented, plain = augment(few), self.mastered(few)
            return plain, plain if augmented is few else self.mastered(augmented)

        self.governor.step(ask)

    @torch.no_grad()
    def mastered(self, batch: Batch) -> Tensor:
        """How much of a batch the target gets right, [right or seen, classes]."""
        seen = self.normalized(batch)
        with as_it_trains(self.target) if len(batch) > 1 else evaluating(self.target):
            output = self.forward(self.target, seen)
        with in_32_bits(batch.image.device):
            return self.mastery(output, seen.truth)
