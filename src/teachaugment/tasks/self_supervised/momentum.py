"""BYOL (Grill et al., 2020) and MoCo v2 (Chen et al., 2020): views are compared with what a moving average says.

The average is in eval mode, with averaged statistics of batch norm (EMAN, Cai et al. 2021): no image can tell from its
batch which one it belongs to, so MoCo needs no shuffling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment import distributed
from teachaugment.batch import Batch
from teachaugment.config.sections import Config
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.models.simsiam import Embedding
from teachaugment.networks import frozen
from teachaugment.seeds import generator
from teachaugment.tasks.self_supervised.simsiam import Pair, SelfSupervised, distance
from teachaugment.tasks.task import Network
from teachaugment.teachers import EMATeacher


class BYOL(SelfSupervised):
    """The prediction of each view against the average's projection of the other one.

    momentum:  of the average, constant; it begins as a copy of the target.
    """

    average: EMATeacher

    def __init__(self, dataset: DataSet, *, momentum: float = 0.99, **options: Any):
        super().__init__(dataset, **options)
        self.momentum = momentum

    @classmethod
    def view_settings(cls, config: Config) -> dict[str, Any]:
        return {**super().view_settings(config), "momentum": config.views.momentum}

    def teaching(self, config: Config) -> dict[str, Any]:
        """The target's views are compared with the average's, the teacher's with its own."""
        momentum, decay = config.views.momentum, config.teach.ema_decay
        if decay <= momentum:
            raise UserError(
                f"teach.ema_decay must be above views.momentum ({momentum:g}) for {config.task}, whose own average "
                f"would else be the teacher, not {decay:g}"
            )
        # The method has an average of its own: the teacher is a slower one from the first steps on.
        return {**super().teaching(config), "target_loss": self.distance_to_average, "ema_warmup": 2}

    def distance_to_average(self, outputs: Pair, views: tuple[Tensor, ...]) -> Tensor:
        first, second = (frozen(self.average.model, view) for view in views)
        return distance(outputs, (first, second))

    def begin(self, target: nn.Module) -> None:
        self.average = EMATeacher(target, self.momentum, warmup=1)

    def update(self, target: nn.Module) -> None:
        self.average.update(target)

    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.average.load_state_dict(state["average"])

    def loss(self, output: Any, seen: Batch) -> Tensor:
        with torch.no_grad():
            first, second = (self.average.model(view.image) for view in seen.each_view())
        return distance(output, (first, second))


class MoCo(BYOL):
    """The first view must be told from images before it by its likeness to the average's projection of the second.

    dim:          of the projections.
    queue:        projections of earlier images that are kept as negatives.
    temperature:  by which likenesses are divided.
    """

    zero_init = False  # the network begins as torchvision makes it, as in MoCo's code

    def __init__(
        self,
        dataset: DataSet,
        *,
        dim: int,
        queue: int = 4096,
        temperature: float = 0.2,
        seed: int = 0,
        **options: Any,
    ):
        super().__init__(dataset, **options)
        self.temperature = temperature
        self.queue = F.normalize(torch.randn(queue, dim, generator=generator("cpu", seed, "queue")), dim=1)
        self.oldest = 0  # the place of the next projection
        self.newest: list[Tensor] = []  # of this step

    @classmethod
    def view_settings(cls, config: Config) -> dict[str, Any]:
        v = config.views
        queue = {"dim": v.dim, "queue": v.queue, "temperature": v.temperature, "seed": config.seed}
        return {**super().view_settings(config), **queue}

    def predictor_width(self, config: Config) -> int:
        return 0

    def begin(self, target: nn.Module) -> None:
        super().begin(target)
        self.queue = self.queue.to(next(target.parameters()).device)

    def update(self, target: nn.Module) -> None:
        """The newest projections take the place of the oldest; not before, because the loss still needs those."""
        super().update(target)
        # Of a step that was skipped they may not be finite: a key that is all zero is like no other.
        newest = torch.cat(self.newest).nan_to_num(0, 0, 0)
        keys, size = distributed.gather(newest)[-len(self.queue) :], len(self.queue)
        rows = (self.oldest + torch.arange(len(keys), device=keys.device)) % size
        self.queue.index_copy_(0, rows, keys)
        self.oldest, self.newest = (self.oldest + len(keys)) % size, []

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "queue": self.queue, "oldest": self.oldest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.queue.copy_(state["queue"])
        self.oldest = state["oldest"]

    def forward(self, network: Network, seen: Batch) -> Any:
        """The first view alone: the second is the average's."""
        return (network(seen.image),)

    def loss(self, output: Any, seen: Batch) -> Tensor:
        view: Embedding = output[0]
        with torch.no_grad():
            key = F.normalize(self.average.model(seen.others[0]).projection.float(), dim=1)
        query = F.normalize(view.prediction.float(), dim=1)
        alike, others = (query * key).sum(1, keepdim=True), query @ self.queue.T
        logits = torch.cat([alike, others], 1) / self.temperature
        loss = F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64, device=logits.device))
        self.newest.append(key)
        return loss
