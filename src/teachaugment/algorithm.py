"""TeachAugment, Algorithm 1: a target and an augmenter, updated in turn. Start reading here.

    teach = TeachAugment(model, num_classes=10, normalize=normalize)
    for images, labels in loader:                                    # float images in [0, 1]
        loss = cross_entropy(model(normalize(teach(images, labels))), labels)
        optimizer.zero_grad(); loss.backward(); optimizer.step()     # lines 6-8: the target
        teach.step(images, labels)                                   # lines 3-5: the teacher; 10-12: the augmenter
    teach.end_epoch()                                                # after each epoch: experience replay

Line numbers refer to Algorithm 1 in the paper's appendix.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from teachaugment import distributed
from teachaugment.augment import create
from teachaugment.augment.augmenter import Augmenter
from teachaugment.batch import Batch, check
from teachaugment.losses import color_distance, cross_entropy, non_saturating
from teachaugment.objectives import Loss, Objective, teach_augment
from teachaugment.policy.policy import Policy
from teachaugment.replay import Replay
from teachaugment.seeds import mix
from teachaugment.teachers import EMATeacher, FrozenTeacher, Teacher


class TeachAugment:
    """Owns the augmenter, the teacher, the replay and the augmenter's optimiser; the target stays yours.

    target:       any module; it is read, never changed.
    num_classes:  labels become the augmenter's context; None: no context.
    channels:     of the images.
    augmenter:    "neural", the paper's, or one it is compared with: "dda" or "online".
    normalize:    what your loop does between augmentation and model, e.g. subtracting a mean.
    loss:         loss(output, label), cross-entropy unless given; any other loss is itself the target's term. For a
                  batch with masks the label is the warped mask, and its IGNORE pixels do not count.
    target_loss:  what the augmenter maximises on the target instead of ``loss``; the non-saturating loss by default.
    objective:    Eq. 1 unless given; see objectives.py.
    teacher:      None for the EMA teacher, or a pretrained module.
    ema_warmup:   of the EMA teacher: smaller is slower.
    n_inner:      updates of the target for each of the augmenter.
    group:        images that share a snapshot from the replay.
    fraction:     share of a batch on which the augmenter is updated: less is cheaper.
    at_once:      most images of one pass in the augmenter's update: a larger batch goes in parts, gradients added up.

    The four techniques of Sec. 3.3, each of which can be switched off alone: ``non_saturating=False``,
    ``smoothing=0``, ``color_weight=0``, ``n_buffer=0`` (no replay).

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
        augmenter: str = "neural",
        normalize: Callable[[Tensor], Tensor] | None = None,
        loss: Loss = cross_entropy,
        target_loss: Loss | None = None,
        objective: Objective = teach_augment,
        teacher: nn.Module | None = None,
        ema_decay: float = 0.999,  # ξ
        ema_warmup: int = 10,
        n_inner: int = 5,
        fraction: float = 1.0,
        at_once: int | None = None,
        n_buffer: int = 10,
        replay_decay: float = 0.99,  # γ
        group: int = 8,
        non_saturating: bool = True,
        smoothing: float = 0.1,  # ε
        color_weight: float = 10.0,  # λ
        lr: float = 1e-3,
        weight_decay: float = 1e-2,
        seed: int = 0,
    ) -> None:
        self.target = unwrap(target)
        self.device = next(self.target.parameters()).device
        about = {"channels": channels, "classes": num_classes, "group": group}
        self.augmenter = new_augmenter(mix(seed, "augmenter"), augmenter, **about).to(self.device)
        self.teacher: Teacher = (
            EMATeacher(self.target, ema_decay, ema_warmup) if teacher is None else FrozenTeacher(teacher)
        )
        self.replay = Replay(self.augmenter, replay_decay)
        self.optimizer = torch.optim.AdamW(self.augmenter.parameters(), lr=lr, weight_decay=weight_decay)
        self.normalize = normalize or nn.Identity()
        self.objective, self.loss = objective, loss
        self.target_loss = target_loss or default_target_loss(loss, non_saturating, smoothing)
        self.n_inner, self.n_buffer, self.color_weight = n_inner, n_buffer, color_weight
        self.fraction, self.at_once = fraction, at_once
        self.seed, self.steps, self.epochs = seed, 0, 0
        self.generator = torch.Generator(device=self.device)
        self.draws: Counter[tuple[str, int]] = Counter()  # since the last step
        # Asked before each update of the augmenter, with what was measured for it, whether to make it.
        self.permit: Callable[[dict[str, Tensor]], bool] = lambda measured: True
        distributed.broadcast_(self.augmenter, self.teacher.model)

    def __call__(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        """Images for the target's next update, augmented, still in [0, 1]."""
        return self.augment(Batch(images, labels)).image

    @torch.no_grad()
    def augment(self, batch: Batch) -> Batch:
        """a_φ(x) with φ drawn from the replay, without gradient (line 7)."""
        if self.steps == 0:
            check(batch, self.augmenter.settings.channels, self.augmenter.settings.classes)
        self._reseed("augment", batch.part)
        return replayed(self.augmenter, self.replay, batch, self.generator)

    @torch.no_grad()
    def current(self, batch: Batch, generator: torch.Generator) -> Batch:
        """a_φ(x) with φ as it is now, for pictures."""
        return self.augmenter(batch, generator)

    def step(self, images: Tensor | Batch, labels: Tensor | None = None) -> dict[str, Tensor] | None:
        """To be called after each update of the target with the batch before augmentation.

        Updates the teacher (lines 3-5) and, every n_inner calls, the augmenter (lines 10-12). Returns what the
        augmenter's update measured, as tensors on the device, or None when there was none.
        """
        batch = images if isinstance(images, Batch) else Batch(images, labels)
        self.teacher.update(self.target)
        self.steps += 1
        measured = None
        if self.steps % self.n_inner == 0:
            part = max(2, math.ceil(self.fraction * len(batch)))  # batch norm knows no variance of one image
            measured = self.update_augmenter(batch[:part])
        self.draws.clear()
        return measured

    def update_augmenter(self, batch: Batch) -> dict[str, Tensor] | None:
        """One step of gradient ascent on Eq. 1 minus the colour distance, and what it measured, if it was permitted."""
        self.optimizer.zero_grad()
        distributed.average_buffers(self.teacher.model)  # one teacher for all
        parts = batch.split(self.at_once or len(batch))
        found = [self.backward(part, len(part) / len(batch)) for part in parts]
        distributed.average_gradients(self.optimizer)
        measured = {name: torch.stack([part[name] for part in found]).sum(0) for name in found[0]}
        if not self.permit(measured):
            return None
        self.optimizer.step()
        self.replay.refresh()
        return measured

    def backward(self, batch: Batch, weight: float = 1.0) -> dict[str, Tensor]:
        """Add the gradient of the augmenter's loss on these images, and return its terms, both times ``weight``."""
        self._reseed("update", batch.part)
        with torch.enable_grad():
            draw = self.augmenter.sample(len(batch), batch.label, self.generator)
            colored = self.augmenter.color(batch, draw)  # x̃ = c(x), Eq. 4
            augmented = self.augmenter.warp(colored, draw)  # x̂ = g(x̃), Eq. 5
            image = self.normalize(augmented.image)
            label = augmented.label if augmented.mask is None else augmented.mask
            outputs = frozen(self.target, image), frozen(self.teacher.model, image)
            terms = self.objective(*outputs, label, self.target_loss, self.loss, partial(self.plain, batch))  # Eq. 1
            distance = color_distance(batch.image, colored.image, generator=self.generator)
            loss = self.color_weight * distance - terms.objective
        (weight * loss).backward()
        return {
            "objective": weight * terms.objective.detach(),
            "target_term": weight * terms.target.detach(),
            "teacher_term": weight * terms.teacher.detach(),
            "color_distance": weight * distance.detach(),
        }

    @torch.no_grad()
    def plain(self, batch: Batch) -> tuple[Any, Any]:
        """f_θ(x) and y without augmentation: PointAugment's point of comparison. A third pass, so only on demand."""
        return frozen(self.target, self.normalize(batch.image)), batch.label if batch.mask is None else batch.mask

    def end_epoch(self) -> None:
        """To be called after each epoch: every n_buffer epochs a snapshot of the augmenter enters the replay."""
        self.epochs += 1
        if self.n_buffer and self.epochs % self.n_buffer == 0:
            self.replay.push()

    def probabilities(self) -> dict[str, float]:
        """The learned p_c and p_g, averaged over the classes."""
        return {f"p_{name}": float(value.mean()) for name, value in self.augmenter.probabilities().items()}

    @property
    def snapshots(self) -> int:
        return len(self.replay)

    @property
    def pairs(self) -> list[tuple[Augmenter, Replay]]:
        """Each augmenter with its replay."""
        return [(self.augmenter, self.replay)]

    @property
    def learners(self) -> nn.Module:
        """All that the augmenter's optimiser updates."""
        return self.augmenter

    def policy(self, *, classes: Sequence[str] | None = None, snapshots: bool = False, **provenance: Any) -> Policy:
        """What has been learned, frozen, to be saved and used without target or teacher.

        ``classes`` are the names of the classes, ``snapshots`` takes the replay along, and anything else is kept
        with it, e.g. ``data="my photographs"``.
        """
        return Policy.of(self.augmenter, self.replay if snapshots else None, classes=classes, provenance=provenance)

    def state_dict(self) -> dict[str, Any]:
        """Everything owned here, for an exact resume: the random numbers are a function of seed and steps."""
        return {
            "kind": self.augmenter.name,
            "settings": self.augmenter.describe(),
            "augmenter": self.augmenter.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "teacher": self.teacher.state_dict(),
            "replay": self.replay.state_dict(),
            "seed": self.seed,
            "steps": self.steps,
            "epochs": self.epochs,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.augmenter.load_state_dict(state["augmenter"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.teacher.load_state_dict(state["teacher"])
        self.replay.load_state_dict(state["replay"])
        self.seed, self.steps, self.epochs = state["seed"], state["steps"], state["epochs"]
        self.draws.clear()

    def _reseed(self, purpose: str, part: int) -> None:
        """Random numbers depend on the seed, the number of steps and the part of the batch, and on nothing else."""
        self.draws[purpose, part] += 1  # a second view of a part is another one
        self.generator.manual_seed(mix(self.seed, purpose, self.steps, part, self.draws[purpose, part]))


def default_target_loss(loss: Loss, use_non_saturating: bool, smoothing: float) -> Loss:
    """The target's term of Eq. 1 for cross-entropy; any other loss is maximised as it is."""
    if loss not in (cross_entropy, F.cross_entropy):
        return loss
    return partial(non_saturating if use_non_saturating else cross_entropy, smoothing=smoothing)


def new_augmenter(seed: int, name: str, **about: Any) -> Augmenter:
    """An augmenter whose initial weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return create(name, **about)


def replayed(augmenter: Augmenter, replay: Replay, batch: Batch, generator: torch.Generator) -> Batch:
    """a_φ(x) with φ drawn from the replay."""
    snapshots = replay.draw(len(batch), generator)
    draw = augmenter.sample(len(batch), batch.label, generator, snapshots)
    return augmenter.warp(augmenter.color(batch, draw), draw)


def frozen(model: nn.Module, image: Tensor) -> Any:
    """f(x) with gradients to the image only: no weight gradient is computed, no weight or buffer changes."""
    weights = {name: value.detach() for name, value in model.named_parameters()}
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    return functional_call(model, {**weights, **buffers}, (image,))


def unwrap(model: nn.Module) -> nn.Module:
    """The module inside DataParallel, DistributedDataParallel or torch.compile."""
    while True:
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            return model
        model = inner
