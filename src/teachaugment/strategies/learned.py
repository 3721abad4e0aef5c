"""The strategies ``adaptive`` and ``teachaugment``: the class TeachAugment in a training run."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from teachaugment.algorithm import TeachAugment
from teachaugment.batch import Batch
from teachaugment.config.sections import TeachConfig
from teachaugment.errors import UserError
from teachaugment.governor import SHARE
from teachaugment.hyperparameters import Hyperparameters, epochs_between_snapshots
from teachaugment.objectives import OBJECTIVES
from teachaugment.policy.policy import Policy
from teachaugment.strategies.strategy import Guard, Setup, Strategy


def adaptive(setup: Setup) -> Learned:
    """One operation for each image, as strong as the target can bear."""
    t = setup.config.teach
    if t.teacher:
        raise UserError("--teacher is not used with the strategy adaptive; add --strategy teachaugment or leave it out")
    h = Hyperparameters(
        ema_decay=t.ema_decay,
        ema_warmup=t.ema_warmup,
        teacher_statistics=t.teacher_statistics,
        seed=setup.config.seed,
    )
    return Learned(following(setup, h), setup.guard)


def learned(setup: Setup) -> Learned:
    """Algorithm 1."""
    config, t = setup.config, setup.config.teach
    teach = following(
        setup,
        hyperparameters(t, config.train.epochs, seed=config.seed, at_once=config.train.batch_size),
        objective=OBJECTIVES.load(t.objective),
        teacher=setup.pretrained(t.teacher) if t.teacher else None,
    )
    return Learned(teach, setup.guard, t.begin)


def following(setup: Setup, h: Hyperparameters, **own: Any) -> TeachAugment:
    """TeachAugment as it follows the training of this target."""
    of_task = {"normalize": setup.task.normalize, **setup.task.teaching(setup.config)}
    target = torch.compile(setup.target) if setup.config.train.compile else setup.target
    return TeachAugment(
        cast(nn.Module, target),
        channels=setup.data.channels,
        total_steps=setup.total_steps,
        hyperparameters=h,
        **of_task,
        **own,
    )


def hyperparameters(t: TeachConfig, epochs: int, **own: Any) -> Hyperparameters:
    """Those of the settings that are TeachAugment's own, under the same names."""
    same = {field.name: getattr(t, field.name) for field in fields(Hyperparameters) if hasattr(t, field.name)}
    n_buffer = (t.n_buffer or epochs_between_snapshots(epochs)) if t.replay else 0
    return Hyperparameters(**{**same, "n_buffer": n_buffer, **own})


class Learned(Strategy):
    """TeachAugment, with every update of its augmenters guarded against numbers that are not finite.

    Until the share ``begin`` of the training is done, images stay as they are and only the teacher learns: a network
    whose head is new can judge nothing yet.
    """

    key = "teach"

    def __init__(self, teach: TeachAugment, guard: Guard, begin: float = 0.0) -> None:
        self.teach, self.guard, self.begin = teach, guard, begin
        teach.check = partial(teach.check, values=False)  # runs have engine/finite.py
        self.waits = False
        self.teacher, self.views = teach.teacher, teach.views
        self.snapshot_every = teach.hyperparameters.n_buffer

    @property
    def found(self) -> float:
        return self.teach.strength

    def at(self, progress: float) -> None:
        self.waits = progress < self.begin

    def augment(self, batch: Batch) -> Batch:
        return batch if self.waits else self.teach.augment(batch)

    def observe(self, output: Any, seen: Batch) -> None:
        if not self.waits:
            self.teach.observe(output, seen)

    @property
    def due(self) -> bool:
        return self.teach.due and not self.waits

    def step(self, batch: Batch) -> dict[str, Tensor] | None:
        if self.waits:
            self.teach.teacher.update(self.teach.target)
            return None
        measured = self.teach.step(batch, permit=lambda found: self.guard.update("augmenter", self.augmenters, found))
        if measured is not None:
            self.guard.weights("augmenter", self.augmenters)
        return measured

    @property
    def augmenters(self) -> nn.Module:
        """All that the augmenter's optimiser updates."""
        if len(self.views) == 1:
            return self.views[0].augmenter
        return nn.ModuleList([view.augmenter for view in self.views])

    def end_epoch(self) -> None:
        if not self.waits:
            self.teach.end_epoch()

    def current(self, batch: Batch, generator: torch.Generator) -> Batch:
        return self.teach.current(batch, generator)

    def learned(self) -> dict[str, float]:
        governor, arms = self.teach.governor, self.teach.augmenter.arms
        if governor is None:
            return self.teach.probabilities()
        shares = {f"{SHARE}{name}": share for name, share in governor.shared(arms).items()}
        return {**governor.numbers(), **shares, **self.teach.probabilities()}

    def policies(self, **about: Any) -> list[Policy]:
        return self.teach.policies(**about)

    def state_dict(self) -> dict[str, Any]:
        return self.teach.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.teach.load_state_dict(state)
