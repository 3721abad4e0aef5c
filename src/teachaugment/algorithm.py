"""TeachAugment: a target, and an augmentation that follows it while it trains. Start reading here.

With ``augmenter="neural"`` this is Algorithm 1 of the paper's appendix, and each of its lines is here:

     1  while θ has not converged:
     2      n_inner times:
     3          if the teacher is the moving average of the target:
     4              θ̂ ← ξ θ̂ + (1 - ξ) θ                               TeachAugment.step
     5          end
     6          draw a batch x                                          your loop
     7          L_θ = Σ L(f_θ(a_φ(x)))                                  your loop, with TeachAugment.augment
     8          θ ← θ - η_θ ∂L_θ/∂θ                                     your loop
     9      end
    10      draw a batch x̄                                              TeachAugment.step
    11      L_φ = Σ L(f_θ(a_φ(x̄))) - L(f_θ̂(a_φ(x̄)))                    TeachAugment.backward
    12      φ ← φ + η_φ ∂L_φ/∂φ                                         TeachAugment.update_augmenter

By default a_φ is one simple operation for each image, and lines 10-12 find how strong it may be (``governor.py``).

In a loop, the one as the other:

    teach = TeachAugment(model, num_classes=10, normalize=normalize, total_steps=epochs * len(loader))
    for images, labels in loader:                                    # float images in [0, 1]
        output = model(normalize(teach(images, labels)))
        loss = cross_entropy(output, labels)
        optimizer.zero_grad(); loss.backward(); optimizer.step()     # lines 6-8: the target
        teach.step(images, labels, output=output)                    # lines 3-5: the teacher; 10-12: the augmenter
    teach.end_epoch()                                                # after each epoch: experience replay
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment import distributed, states
from teachaugment.augment.augmenter import Augmenter
from teachaugment.batch import Batch, as_batch, check
from teachaugment.finite_updates import require_finite
from teachaugment.governor import Governor
from teachaugment.hyperparameters import Hyperparameters, check_arguments
from teachaugment.judging import Cut, judge
from teachaugment.losses import Loss, color_distance, cross_entropy, default_target_loss, known_loss, smoothing_of
from teachaugment.mastery import Examiner, Mastery, default_mastery, of_last_call
from teachaugment.networks import Forward, each_output, frozen_like, in_32_bits, unwrap
from teachaugment.objectives.passes import Objective
from teachaugment.objectives.teachaugment import teach_augment
from teachaugment.policy.policy import Policy
from teachaugment.replay import Replay
from teachaugment.seeds import apart, derive
from teachaugment.teachers import EMATeacher, FrozenTeacher, Teacher
from teachaugment.view import View, probabilities

Permit = Callable[[dict[str, Tensor]], bool]  # of what was measured: whether the augmenter may be updated by it


class TeachAugment:
    """Owns the augmenter, the teacher, the replay and the augmenter's optimiser; the target stays yours.

    target:       any module; it is read, never changed.
    num_classes:  labels are classes, and the context of an augmenter that learns; None: they are something else.
    channels:     of the images.
    views:        images of each sample that the target compares, as in SimSiam: each has an augmenter of its own.
    normalize:    what your loop does between augmentation and model, e.g. subtracting a mean.
    forward:      forward(network, batch) gives the output for a normalised batch, where that is more than
                  ``network(batch.image)``; of several views it is by default the tuple of their outputs.
    loss:         loss(output, label), cross-entropy unless given; any other loss is itself the target's term. For a
                  batch with masks the label is the warped mask, and its IGNORE pixels do not count. With several views
                  there are no labels: the loss gets the views themselves in their place, as the network saw them.
    target_loss:  what the augmenter maximises on the target instead of ``loss``; the non-saturating loss by default.
    objective:    Eq. 1 unless given; see teachaugment.objectives.
    mastery:      mastery(output, label), by which the strength is governed: the recall of each class unless given, or
                  with a loss of your own what that leaves to be lost; see teachaugment.mastery.
    total_steps:  of the whole training, if you know it: the strength keeps pace with it.
    teacher:      None for the EMA teacher, or a pretrained module.
    hyperparameters, changes:  everything that is a number, as ``Hyperparameters`` or by the names of its fields.

    Several processes (torch.distributed, DistributedDataParallel) need nothing more than the same arguments and the
    same number of steps in each: the augmenter begins equal and its gradients are averaged over the processes, noise
    differs between them, and the replays stay equal. What ``step`` measures is that of the process's own images.
    """

    def __init__(
        self,
        target: nn.Module,
        *,
        num_classes: int | None = None,
        channels: int = 3,
        views: int = 1,
        normalize: Callable[[Tensor], Tensor] | None = None,
        forward: Forward | None = None,
        loss: Loss = cross_entropy,
        target_loss: Loss | None = None,
        objective: Objective = teach_augment,
        mastery: Mastery | None = None,
        total_steps: int | None = None,
        teacher: nn.Module | None = None,
        hyperparameters: Hyperparameters | None = None,
        **changes: Any,
    ) -> None:
        h = self.hyperparameters = (hyperparameters or Hyperparameters()).changed(changes)
        check_arguments(channels, views, num_classes)
        self.target, self.frozen = unwrap(target), frozen_like(target)
        self.device = next(self.target.parameters()).device
        self.views = [View.new(k, h, h.of_augmenter(channels, num_classes), self.device) for k in range(views)]
        self.teacher: Teacher = FrozenTeacher(teacher) if teacher is not None else EMATeacher.of(self.target, h)
        self.learns = self.augmenter.learns
        self.governor = Governor(total_steps, len(self.augmenter.arms)) if h.governs else None
        self.optimizer = torch.optim.AdamW(
            [{"params": list(view.augmenter.parameters())} for view in self.views], lr=h.lr, weight_decay=h.weight_decay
        )
        self.normalize, self.forward = normalize or nn.Identity(), forward or each_output
        self.color_space = self.normalize if h.color_space == "normalized" else nn.Identity()
        self.objective, self.loss = objective, known_loss(loss)
        examiner = partial(Examiner, self.target, mastery or default_mastery(loss), self._normalized, self.forward)
        self.examiner = None if self.governor is None else examiner(self.governor)
        self.target_loss = target_loss or (
            default_target_loss(loss, h.non_saturating, h.smoothing) if self.learns else self.loss
        )
        one_class = smoothing_of(loss) is not None
        self.check = partial(check, channels=channels, classes=num_classes, teaching=True, one_class=one_class)
        self.as_batch = partial(as_batch, views=views)
        self.seed, self.steps, self.epochs = h.seed, 0, 0
        self.generator = torch.Generator(device=self.device)
        self.draws: Counter[tuple[str, int]] = Counter()  # since the last step
        self.given: Tensor | None = None  # which operation each image of the last call got
        distributed.broadcast_(*(view.augmenter for view in self.views), self.teacher.model)

    @property
    def augmenter(self) -> Augmenter:
        """a_φ; of several views, the first one's."""
        return self.views[0].augmenter

    @property
    def replay(self) -> Replay:
        """The earlier augmenters; of several views, the first one's."""
        return self.views[0].replay

    def __call__(self, images: Tensor, labels: Tensor | None = None, *more: Tensor) -> Any:
        """Images for the target's next update, augmented, still in [0, 1]: ``teach(images, labels)``, or with several
        views ``teach(first, second)``, which returns as many."""
        batch = self.augment(self.as_batch(images, labels, *more))
        self.given = batch.arm
        return (batch.image, *batch.others) if batch.others else batch.image

    @torch.no_grad()
    def augment(self, batch: Batch) -> Batch:
        """a_φ(x) with φ drawn from the replay, without gradient (line 7), as strongly as the governor lets it."""
        each = self._each(batch)
        if self.strength == 0:
            return batch
        self._reseed("augment", batch.part)
        with in_32_bits(self.device):
            return batch.with_views([view.replayed(x, self.generator, self.strength) for view, x in each])

    @torch.no_grad()
    def current(self, batch: Batch, generator: torch.Generator) -> Batch:
        """a_φ(x) with φ as it is now, for pictures."""
        return batch.with_views([view.augmented(x, generator, self.strength) for view, x in self._each(batch)])

    @property
    def strength(self) -> float:
        """Of the coming step's augmentation: 1 unless it is governed."""
        return 1.0 if self.governor is None else self.governor.strength

    def share(self) -> None:
        """Tell the augmenters how much of the strength the governor gives to each of their operations."""
        if self.governor is not None and self.governor.shares:
            for view in self.views:
                view.augmenter.share(self.governor.shares)

    def observe(self, output: Any, seen: Batch) -> None:
        """What the target says in its own update about images that ``augment`` gave, normalised: the strength goes by
        it, and ``step`` need not ask."""
        if self.examiner is not None:
            self.examiner.observe(output, seen)

    def step(
        self,
        images: Tensor | Batch,
        labels: Tensor | None = None,
        *more: Tensor,
        output: Any = None,
        permit: Permit | None = None,
    ) -> dict[str, Tensor] | None:
        """To be called after each update of the target with the images it was updated on, before augmentation; or,
        where the augmenter is ``due``, with other ones, as in line 10.

        Updates the teacher (lines 3-5), the strength, and every n_inner calls an augmenter that learns (lines 10-12).
        Returns what that measured, as tensors on the device, or None when there was none. ``permit`` is asked before
        the augmenter is updated, with what was measured, and may refuse. ``output`` is what the target said, in its
        update, about the images that ``teach(images, labels)`` gave last: see ``observe``.
        """
        batch, due = images if isinstance(images, Batch) else self.as_batch(images, labels, *more), self.due
        self._each(batch)  # complains before anything is updated
        if output is not None:
            self.observe(output, of_last_call(batch, self.given))
        self.teacher.update(self.target)
        if self.examiner is not None and self.examiner.step(batch, self.augment):
            self.share()
        self.steps += 1
        measured = None
        if due:
            part = max(2, math.ceil(self.hyperparameters.fraction * len(batch)))  # no variance within one image
            measured = self.update_augmenter(batch[:part], permit)
        self.draws.clear()
        return measured

    @property
    def due(self) -> bool:
        """Whether the coming step updates the augmenter: not while its strength is zero."""
        return self.learns and self.strength > 0 and (self.steps + 1) % self.hyperparameters.n_inner == 0

    def update_augmenter(self, batch: Batch, permit: Permit | None = None) -> dict[str, Tensor] | None:
        """Lines 11 and 12: one step of gradient ascent on Eq. 1 minus the colour distance, and what it measured."""
        self.optimizer.zero_grad()
        distributed.average_buffers(self.teacher.model)  # one teacher for all
        parts = batch.split(self.hyperparameters.at_once or len(batch))
        found = [self.backward(part, len(part) / len(batch)) for part in parts]
        distributed.average_gradients(self.optimizer)
        measured = {name: torch.stack([part[name] for part in found]).sum(0) for name in found[0]}
        permit = permit or partial(require_finite, self.optimizer)
        if not permit(measured):
            return None
        self.optimizer.step()
        for view in self.views:
            view.replay.refresh()
        return measured

    def backward(self, batch: Batch, weight: float = 1.0) -> dict[str, Tensor]:
        """Line 11: add the gradient of the augmenter's loss on these images, and return its terms, times ``weight``."""
        self._reseed("update", batch.part)
        with torch.enable_grad(), in_32_bits(self.device):
            made, distances = [], []
            for view, x in self._each(batch):
                draw = view.augmenter.sample(len(x), x.label, self.generator)
                colored = view.augmenter.color(x, draw)  # x̃ = c(x), Eq. 4
                made.append(view.augmenter.warp(colored, draw))  # x̂ = g(x̃), Eq. 5
                before, after = self.color_space(x.image), self.color_space(colored.image)
                distances.append(color_distance(before, after, generator=self.generator))  # Eq. 2
            seen = Cut(self._normalized(batch.with_views(made)))
            distance = torch.stack(distances).sum()
        networks, losses = (self.target, self.teacher.model), (self.target_loss, self.loss)
        plain = partial(self.plain, batch)
        terms = judge(self.objective, networks, losses, self.outputs, seen.batch, weight, plain)  # Eq. 1, to x̂
        seen.backward(weight * self.hyperparameters.color_weight * distance)  # and from x̂ to φ
        names = ("objective", "target_term", "teacher_term", "color_distance")
        return {name: weight * value.detach() for name, value in zip(names, (*terms, distance), strict=True)}

    @torch.no_grad()
    def plain(self, batch: Batch) -> tuple[Any, Any]:
        """f_θ(x) and y without augmentation: PointAugment's point of comparison. A third pass, so only on demand."""
        seen = self._normalized(batch)
        return self.outputs(self.target, seen), seen.truth

    def outputs(self, network: nn.Module, seen: Batch) -> Any:
        """What a network says, frozen. What it draws inside, as dropout does, is the same for target and teacher."""
        with apart(self.device, self.generator.initial_seed()):
            return self.forward(partial(self.frozen, network), seen)

    def end_epoch(self) -> None:
        """To be called after each epoch: every n_buffer epochs a snapshot of the augmenter enters the replay."""
        self.epochs += 1
        if self.learns and self.hyperparameters.n_buffer and self.epochs % self.hyperparameters.n_buffer == 0:
            for view in self.views:
                view.replay.push()

    def probabilities(self) -> dict[str, float]:
        """The learned p_c and p_g, averaged over the classes; of several views, numbered."""
        return probabilities(self.views)

    def policy(self, *, classes: Sequence[str] | None = None, snapshots: bool = False, **provenance: Any) -> Policy:
        """What has been learned, frozen, to be saved and used without target or teacher; of several views, the first's.

        ``classes`` are the names of the classes, ``snapshots`` takes the replay along, and anything else is kept
        with it, e.g. ``data="my photographs"``.
        """
        return self.policies(snapshots=snapshots, classes=classes, provenance=provenance)[0]

    def policies(self, *, snapshots: bool = False, **about: Any) -> list[Policy]:
        """One policy for each view; ``about`` is what ``Policy`` is told besides."""
        if self.governor is not None:
            about["shares"] = self.governor.shared(self.augmenter.arms)
        return [view.policy(snapshots, found=self.strength, **about) for view in self.views]

    def state_dict(self) -> dict[str, Any]:
        """Everything owned here, for an exact resume: the random numbers are a function of seed and steps."""
        return states.state_of(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """All of a state, or nothing of one that does not fit."""
        states.load(self, state)

    def _each(self, batch: Batch) -> list[tuple[View, Batch]]:
        """Each view with its images, which have been checked."""
        images = batch.each_view()
        if len(images) != len(self.views):
            raise ValueError(f"a batch of {len(self.views)} view(s) is needed; this one has {len(images)}")
        for x in images:
            self.check(x, step=self.steps)
        return list(zip(self.views, images, strict=True))

    def _normalized(self, batch: Batch) -> Batch:
        return batch.replace(image=self.normalize(batch.image), others=tuple(map(self.normalize, batch.others)))

    def _reseed(self, purpose: str, part: int) -> None:
        """Random numbers depend on the seed, the number of steps and the part of the batch, and on nothing else."""
        self.draws[purpose, part] += 1  # a second draw for a part is another one
        self.generator.manual_seed(derive(self.seed, purpose, self.steps, part, self.draws[purpose, part]))
