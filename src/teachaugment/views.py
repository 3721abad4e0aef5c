"""TeachAugment for two views of each image, as in SimSiam: an augmenter for each view, and no labels.

    teach = TeachAugmentViews(model, distance, normalize=normalize)
    for first, second in loader:                                     # two views, float images in [0, 1]
        one, two = (model(normalize(view)) for view in teach(first, second))
        loss = ...                                                   # of SimSiam, with its stop-gradient
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        teach.step(Batch(first, others=(second,)))
    teach.end_epoch()

Both augmenters maximise the distance between the views as the target sees them minus the distance as the teacher sees
them (the paper's appendix; the second term is printed there with the target's weights). They have no context, and
neither the non-saturating loss nor label smoothing applies to a distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment import distributed
from teachaugment.algorithm import TeachAugment, frozen, new_augmenter, replayed
from teachaugment.augment.augmenter import Augmenter
from teachaugment.batch import Batch, check
from teachaugment.losses import color_distance
from teachaugment.policy.policy import Policy
from teachaugment.replay import Replay
from teachaugment.seeds import mix

# (a network's outputs for the two views, the outputs that they are compared with) -> scalar
Distance = Callable[[tuple[Any, Any], tuple[Any, Any]], Tensor]


class TeachAugmentViews(TeachAugment):
    """TeachAugment with a second augmenter, which has a replay of its own, for the second view of a batch.

    distance:  how far apart a network finds two views; larger is harder. It needs no stop-gradient: that protects the
               target's weights, which do not move here, and would hide half of what an augmenter does to the distance.
    against:   the network whose outputs the target's are compared with, where that is another one (BYOL, MoCo).
    settings:  those of ``TeachAugment`` that are not about labels.
    """

    def __init__(
        self, target: nn.Module, distance: Distance, *, against: nn.Module | None = None, **settings: Any
    ) -> None:
        super().__init__(target, loss=lambda pairs, _: distance(*pairs), **settings)
        self.against = against
        seed, about = mix(self.seed, "augmenter", 2), self.augmenter.describe()
        self.second = new_augmenter(seed, self.augmenter.name, **about).to(self.device)
        self.second_replay = Replay(self.second, self.replay.decay)
        self.optimizer.add_param_group({"params": list(self.second.parameters())})
        distributed.broadcast_(self.second)

    @property
    def pairs(self) -> list[tuple[Augmenter, Replay]]:
        """The augmenters with their replays: the first view's, the second's."""
        return [(self.augmenter, self.replay), (self.second, self.second_replay)]

    def __call__(self, first: Tensor, second: Tensor | None = None) -> Any:
        """Both views for the target's next update, augmented, still in [0, 1]."""
        assert second is not None
        batch = self.augment(Batch(first, others=(second,)))
        return (batch.image, *batch.others)

    @torch.no_grad()
    def augment(self, batch: Batch) -> Batch:
        """Each view with an augmenter of its own, drawn from the replay."""
        if self.steps == 0:
            for view in views(batch):
                check(view, self.augmenter.settings.channels, None)
        self._reseed("augment", batch.part)
        both = zip(self.pairs, views(batch), strict=True)
        image, second = (replayed(a, replay, view, self.generator).image for (a, replay), view in both)
        return batch.replace(image=image, others=(second,))

    @torch.no_grad()
    def current(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Each view with its augmenter as it is now."""
        image, second = (a(view, generator).image for (a, _), view in zip(self.pairs, views(batch), strict=True))
        return batch.replace(image=image, others=(second,))

    @property
    def learners(self) -> nn.Module:
        return nn.ModuleDict({"first": self.augmenter, "second": self.second})

    def update_augmenter(self, batch: Batch) -> dict[str, Tensor] | None:
        measured = super().update_augmenter(batch)
        self.second_replay.refresh()
        return measured

    def backward(self, batch: Batch, weight: float = 1.0) -> dict[str, Tensor]:
        """Add the gradients of both augmenters' loss on these images, and return its terms, all times ``weight``."""
        self._reseed("update", batch.part)
        with torch.enable_grad():
            made, colors = [], []
            for (augmenter, _), view in zip(self.pairs, views(batch), strict=True):
                draw = augmenter.sample(len(view), None, self.generator)
                colored = augmenter.color(view, draw)
                made.append(self.normalize(augmenter.warp(colored, draw).image))
                colors.append(color_distance(view.image, colored.image, generator=self.generator))
            outputs = self._seen(self.target, self.against, made), self._seen(self.teacher.model, None, made)
            terms = self.objective(*outputs, None, self.target_loss, self.loss, self.unseen)
            distance = colors[0] + colors[1]
            loss = self.color_weight * distance - terms.objective
        (weight * loss).backward()
        return {
            "objective": weight * terms.objective.detach(),
            "target_term": weight * terms.target.detach(),
            "teacher_term": weight * terms.teacher.detach(),
            "color_distance": weight * distance.detach(),
        }

    def unseen(self) -> Any:
        raise ValueError("an objective that compares with the images as they were needs labels")

    def _seen(self, network: nn.Module, against: nn.Module | None, made: list[Tensor]) -> tuple[Any, Any]:
        """What ``distance`` takes, from frozen networks: gradients go to the views alone."""
        mine = tuple(frozen(network, view) for view in made)
        return mine, mine if against is None else tuple(frozen(against, view) for view in made)

    def end_epoch(self) -> None:
        before = len(self.replay)
        super().end_epoch()
        if len(self.replay) > before:
            self.second_replay.push()

    def probabilities(self) -> dict[str, float]:
        """The learned p_c and p_g of the first view's augmenter and of the second's."""
        found = [(number, augmenter.probabilities()) for number, (augmenter, _) in enumerate(self.pairs, 1)]
        return {f"p_{name}_{number}": float(p.mean()) for number, parts in found for name, p in parts.items()}

    def policies(self, **provenance: Any) -> list[Policy]:
        """What has been learned for the first view and for the second, as ``policy`` gives it for the first."""
        return [Policy.of(augmenter, provenance=provenance) for augmenter, _ in self.pairs]

    def state_dict(self) -> dict[str, Any]:
        own = {"second": self.second.state_dict(), "second_replay": self.second_replay.state_dict()}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.second.load_state_dict(state["second"])
        self.second_replay.load_state_dict(state["second_replay"])


def views(batch: Batch) -> tuple[Batch, Batch]:
    """The two views of a batch as batches of their own, without labels."""
    if len(batch.others) != 1:
        raise ValueError("a batch of two views is needed; its second one is missing")
    return Batch(batch.image), Batch(batch.others[0])
