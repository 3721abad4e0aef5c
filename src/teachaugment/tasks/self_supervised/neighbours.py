"""Accuracy by nearest neighbours: how good features are, without training anything on them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from teachaugment.batch import Batch
from teachaugment.models.simsiam import Embedding
from teachaugment.tasks.self_supervised.collapse import effective_rank, spread

NEIGHBOURS, TEMPERATURE = 20, 0.07  # weighted vote as in Wu et al. 2018, with as many neighbours as in DINO (2021)


class NeighbourMeter:
    """Mean loss, spread and rank of the outputs in training; the share that nearest neighbours classify correctly.

    For the latter ``refer`` must have seen images whose classes are known.
    """

    def __init__(self, classes: int, device: torch.device):
        self.classes = classes
        self.images = torch.zeros((), dtype=torch.int64, device=device)
        self.loss, self.spread, self.rank = (torch.zeros((), device=device) for _ in range(3))
        self.right = torch.zeros(classes, dtype=torch.int64, device=device)
        self.seen = torch.zeros(classes, dtype=torch.int64, device=device)
        self.bank: list[tuple[Tensor, Tensor]] = []  # features and classes

    def refer(self, output: Embedding, batch: Batch) -> None:
        """Remember images that others are compared with."""
        assert batch.label is not None
        self.bank.append((F.normalize(output.features.float(), dim=1), batch.label))

    def update(self, output: Embedding | tuple[Embedding, ...], batch: Batch, loss: Tensor | None = None) -> None:
        """Count a batch. In training, where there are several views, the first one counts."""
        if not isinstance(output, Embedding):
            output = output[0]
        outputs = output.projection.detach()
        self.images += len(batch)
        self.spread += spread(outputs) * len(batch)
        self.rank += effective_rank(outputs) * len(batch)
        if loss is not None:
            self.loss += loss.detach() * len(batch)
        if self.bank:
            assert batch.label is not None
            if len(self.bank) > 1:
                features, labels = zip(*self.bank, strict=True)
                self.bank = [(torch.cat(features), torch.cat(labels))]
            right = vote(output.features, *self.bank[0], self.classes) == batch.label
            self.right.scatter_add_(0, batch.label, right.long())
            self.seen.scatter_add_(0, batch.label, torch.ones_like(batch.label))

    def compute(self) -> dict[str, Any]:
        """Shares in [0, 1]."""
        images = max(int(self.images), 1)
        found: dict[str, Any] = {"spread": float(self.spread) / images, "rank": float(self.rank) / images}
        if not self.bank:
            return {"loss": float(self.loss) / images, **found, "images": images}
        right, seen = self.right.tolist(), self.seen.tolist()
        by_class = [r / n if n else None for r, n in zip(right, seen, strict=True)]
        return {"knn": sum(right) / images, **found, "images": images, "class_accuracy": by_class}


def vote(features: Tensor, bank: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The class [B] that the nearest of the bank's rows [N, F], normalised, say; near ones have more to say."""
    near = (F.normalize(features.float(), dim=1) @ bank.T).topk(min(NEIGHBOURS, len(bank)), dim=1)
    weights = torch.exp((near.values - 1) / TEMPERATURE)
    return (
        torch.zeros(len(features), classes, device=bank.device).scatter_add_(1, labels[near.indices], weights).argmax(1)
    )
