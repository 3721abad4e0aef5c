"""What a strategy does: the one owner of what happens to an image between the task's fixed augmentations.

Every way to augment is one object of a subclass: learned while the model trains, fixed, a policy of an earlier run, or
a regularisation that leaves images alone. The training loop, pictures, reports and checkpoints know it by this class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from teachaugment.batch import Batch
from teachaugment.config.sections import Config
from teachaugment.data.splits import DataSet
from teachaugment.policy.policy import Policy
from teachaugment.tasks.task import Task
from teachaugment.teachers import Teacher
from teachaugment.view import View


class Guard(Protocol):
    """Watches over the numbers of updates (engine/finite.py)."""

    def update(self, network: str, module: nn.Module, losses: dict[str, Tensor]) -> bool:
        """Whether an update of ``module`` may be made from these losses and its gradients."""
        ...

    def weights(self, network: str, module: nn.Module) -> None:
        """Raise if a weight has become useless."""
        ...


@dataclass(frozen=True)
class Setup:
    """All that a strategy may be made from."""

    config: Config
    data: DataSet
    task: Task
    target: nn.Module  # as an augmenter's update calls it
    device: torch.device
    pretrained: Callable[[str], nn.Module]  # a teacher by the name of its run, its checkpoint or its network
    guard: Guard
    total_steps: int = 0  # of the whole training

    @property
    def name(self) -> str:
        return self.config.augment.strategy


class Strategy:
    """Does nothing; subclasses say what differs."""

    key: ClassVar[str | None] = None  # under which a checkpoint keeps its state
    teacher: Teacher | None = None
    views: Sequence[View] = ()  # augmenters that learn, with their replays

    @property
    def found(self) -> float:
        """How strong the training lets those be, from 0 to 1."""
        return 1.0

    snapshot_every: int = 0  # epochs between two snapshots in those replays

    def augment(self, batch: Batch) -> Batch:
        """Images in [0, 1] to images in [0, 1], for an update of the target."""
        return batch

    def observe(self, output: Any, seen: Batch) -> None:
        """What the target says in its own update about what ``augment`` gave, after the task's last augmentations."""

    def loss(self, output: Any, seen: Batch) -> Tensor | None:
        """A further term of the target's loss."""
        return None

    @property
    def due(self) -> bool:
        """Whether the coming ``step`` learns from its batch."""
        return False

    def step(self, batch: Batch) -> dict[str, Tensor] | None:
        """Called after each update of the target with the batch as ``augment`` got it, or, where it is ``due``, maybe
        with one that was drawn for it; returns what was measured."""
        return None

    def end_epoch(self) -> None:
        """Called after each epoch."""

    def at(self, progress: float) -> None:
        """Called before each epoch with the share of the training that is done."""

    def current(self, batch: Batch, generator: torch.Generator) -> Batch:
        """What it does now, for pictures."""
        return self.augment(batch)

    def learned(self) -> dict[str, float]:
        """What is learned, in numbers, for the log."""
        return {}

    def policies(self, **about: Any) -> list[Policy]:
        """What can be saved and used again, one policy for each view; ``about`` is where they come from."""
        return []

    def describe(self, config: Config, data: DataSet) -> str:
        """Its name, for a person, with what is special about it here."""
        return config.augment.strategy

    def state_dict(self) -> Any:
        return None

    def load_state_dict(self, state: Any) -> None:
        pass
