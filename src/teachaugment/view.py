"""One view of TeachAugment: an augmenter with its replay. There is one, or one for each of the views compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from teachaugment.augment import create
from teachaugment.augment.augmenter import Augmenter
from teachaugment.augment.mlp import Sources
from teachaugment.batch import Batch
from teachaugment.hyperparameters import Hyperparameters
from teachaugment.policy.policy import Policy
from teachaugment.replay import Replay
from teachaugment.seeds import derive


@dataclass(frozen=True)
class View:
    augmenter: Augmenter
    replay: Replay

    @classmethod
    def new(cls, k: int, h: Hyperparameters, settings: Mapping[str, Any], device: torch.device) -> View:
        """View number k, from 0; its initial weights depend on the seed and the number alone."""
        seed = derive(h.seed, "augmenter", *([k + 1] if k else []))
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            augmenter = create(h.augmenter, **settings).to(device)
        return cls(augmenter, Replay(augmenter, h.replay_decay))

    def replayed(self, batch: Batch, generator: torch.Generator, strength: float = 1.0) -> Batch:
        """a_φ(x) with φ drawn from the replay."""
        return self.augmented(batch, generator, strength, self.replay.draw(len(batch), generator))

    def augmented(
        self, batch: Batch, generator: torch.Generator, strength: float = 1.0, snapshots: Sources | None = None
    ) -> Batch:
        """a_φ(x) with φ as it is now, or with that of each image's snapshot."""
        draw = self.augmenter.sample(len(batch), batch.label, generator, snapshots)
        if strength < 1:
            draw = self.augmenter.weakened(draw, strength)
        made = self.augmenter.warp(self.augmenter.color(batch, draw), draw)
        return made.replace(arm=self.augmenter.arm(draw))

    def policy(self, snapshots: bool = False, classes: Sequence[str] | None = None, **about: Any) -> Policy:
        """A copy, frozen; ``snapshots`` takes the replay along. Without a context it has no classes."""
        known = classes if self.augmenter.settings.classes else None
        return Policy.of(self.augmenter, self.replay if snapshots else None, classes=known, **about)

    def describe(self) -> dict[str, Any]:
        """What kind of augmenter it is, as a state has it."""
        return {"kind": self.augmenter.name, "settings": self.augmenter.describe()}

    def state(self, k: int) -> dict[str, Any]:
        """The part of a state that is view number k's."""
        augmenter, replay = state_names(k)
        return {augmenter: self.augmenter.state_dict(), replay: self.replay.state_dict()}

    def load_state(self, k: int, state: Mapping[str, Any]) -> None:
        augmenter, replay = state_names(k)
        self.augmenter.load_state_dict(state[augmenter])
        self.replay.load_state_dict(state[replay])


def state_names(k: int) -> tuple[str, str]:
    """What a state calls the augmenter and the replay of view number k."""
    named = [("augmenter", "replay"), ("second", "second_replay")]
    return named[k] if k < len(named) else (f"augmenter_{k + 1}", f"replay_{k + 1}")


def probabilities(views: Sequence[View]) -> dict[str, float]:
    """How often each part acts, averaged over the classes; of several views, numbered."""
    suffixes = [""] if len(views) == 1 else [f"_{k}" for k in range(1, len(views) + 1)]
    found = [(suffix, view.augmenter.probabilities()) for suffix, view in zip(suffixes, views, strict=True)]
    return {f"p_{name}{suffix}": float(p.mean()) for suffix, parts in found for name, p in parts.items()}


def saved_views(state: Mapping[str, Any], replay_decay: float) -> list[View]:
    """The views in a state of TeachAugment, without the rest of it."""
    views: list[View] = []
    while state_names(len(views))[0] in state:
        with torch.random.fork_rng(devices=[]):
            augmenter = create(state["kind"], **state["settings"])
        view = View(augmenter, Replay(augmenter, replay_decay))
        view.load_state(len(views), state)
        views.append(view)
    return views
