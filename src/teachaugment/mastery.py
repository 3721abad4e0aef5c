"""Mastery, for the governor: how much of what it is shown the target gets right.

A measure takes an output and what is true, as a loss does, and returns counts [right or seen, classes]. One that can
count in the target's own updates has ``apart`` besides, as ``Recall`` has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment.batch import IGNORE, Batch
from teachaugment.errors import UserError
from teachaugment.governor import Governor, alike
from teachaugment.losses import Loss, highest, main_head, smoothing_of
from teachaugment.networks import Forward, as_it_trains, evaluating, in_32_bits

Mastery = Callable[[Any, Any], Tensor]
IMAGES = 16  # that the target is asked about, where it has to be asked


class Recall:
    """Of class scores: how many images, or pixels of masks, are recognised in each class."""

    def __call__(self, output: Any, truth: Tensor) -> Tensor:
        label = truth.argmax(1) if truth.is_floating_point() else truth
        return self._counts(output, label, torch.zeros(len(label), dtype=torch.int64, device=label.device), 1)[0]

    def apart(self, output: Any, truth: Any, arm: Tensor, arms: int) -> Tensor | None:
        """The same for the images of each arm, 0 to ``arms``, [arms + 1, right or seen, classes]. None: nobody can say
        what is right, as where there are no classes, or images of several."""
        if not isinstance(truth, Tensor) or truth.is_floating_point():
            return None
        return self._counts(output, truth, arm, arms + 1)

    def _counts(self, output: Any, truth: Tensor, group: Tensor, groups: int) -> Tensor:
        scores = main_head(output)
        label = truth.flatten()
        known = label != IGNORE if truth.ndim > 2 else torch.ones_like(label, dtype=torch.bool)
        right = (highest(scores).flatten() == label) & known
        group = group.repeat_interleave(len(label) // max(1, len(group)))
        return counted(torch.stack([right, known]), label.masked_fill(~known, 0), scores.shape[1], group, groups)


recall = Recall()


def counted(what: Tensor, kind: Tensor, kinds: int, group: Tensor, groups: int) -> Tensor:
    """How often something holds for the members of each group and class: of [W, N] bool, [groups, W, classes]."""
    cell = kind + kinds * group
    counts = torch.zeros(len(what), groups * kinds, device=what.device)
    counts = counts.scatter_add(1, cell.expand(len(what), -1), what.to(counts.dtype))
    return counts.view(len(what), groups, kinds).transpose(0, 1)


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


def of_last_call(batch: Batch, arm: Tensor | None) -> Batch:
    """The images and labels of ``teach.step(images, labels, output=output)`` with what was done to those that
    ``teach(images, labels)`` gave last."""
    if batch.mask is not None or batch.boxes is not None:
        raise UserError("output= is for labels of images; with masks, teach.observe(output, made) takes what was made")
    if arm is not None and len(arm) != len(batch):
        raise UserError(
            f"output= belongs to the last call of teach(images, labels), which gave {len(arm)} images; these are "
            f"{len(batch)}; leave it out, or call teach.observe for each part"
        )
    return batch.replace(arm=arm)


@dataclass
class Examiner:
    """Tells the governor what the target masters.

    Classes and boxes are counted in the target's own updates, apart for each of the operations that the augmentation
    has done: as they are trained on, and for nothing. Anything else, or outputs that nobody has shown, means to ask the
    target about a few images now and then.
    """

    target: nn.Module
    mastery: Mastery
    normalized: Callable[[Batch], Batch]
    forward: Forward
    governor: Governor

    @torch.no_grad()
    def observe(self, output: Any, seen: Batch) -> None:
        """Count what is mastered in an update of the target."""
        apart, arm = getattr(self.mastery, "apart", None), seen.arm
        changed = self.governor.strength > 0
        if apart is None or (changed and arm is None):
            return
        if not changed or arm is None:
            arm = torch.zeros(len(seen), dtype=torch.int64, device=seen.image.device)
        with in_32_bits(seen.image.device):
            counts = apart(output, seen.truth, arm, max(1, len(self.governor.shares)))
        if counts is not None:
            self.governor.count(counts if changed else alike(counts[0], len(self.governor.shares)))

    def step(self, batch: Batch, augment: Callable[[Batch], Batch]) -> bool:
        """After each update of the target, with its images before augmentation. Whether there may be a new decision."""

        def ask() -> Tensor:
            few = batch[:IMAGES]
            augmented, plain = augment(few), self.mastered(few)
            return torch.stack([plain, plain if augmented is few else self.mastered(augmented)])

        return self.governor.step(ask)

    @torch.no_grad()
    def mastered(self, batch: Batch) -> Tensor:
        """How much of a batch the target gets right, [right or seen, classes]."""
        seen = self.normalized(batch)
        with as_it_trains(self.target) if len(batch) > 1 else evaluating(self.target):
            output = self.forward(self.target, seen)
        with in_32_bits(batch.image.device):
            return self.mastery(output, seen.truth)
