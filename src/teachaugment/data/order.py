"""In which order an epoch takes the images: a function of seed and epoch alone."""

from __future__ import annotations

import torch
from torch import Tensor

from teachaugment import seeds


def shuffled(n: int, seed: int, epoch: int) -> Tensor:
    """The permutation of ``n`` images in one epoch."""
    return torch.randperm(n, generator=seeds.generator("cpu", seed, "order", epoch))


def balanced(label: Tensor, seed: int, epoch: int) -> Tensor:
    """As many images as there are, all classes equally often, in an order that seed and epoch decide.

    Each class runs through shuffled passes over its images, so within an epoch none of them is drawn more than once
    more often than another.
    """
    n, classes = len(label), label.unique().tolist()
    shares = [n // len(classes)] * len(classes)
    random = seeds.generator("cpu", seed, "balance", epoch)
    for k in torch.randperm(len(classes), generator=random)[: n % len(classes)].tolist():
        shares[k] += 1
    rows = []
    for k, share in zip(classes, shares, strict=True):
        mine = (label == k).nonzero().flatten()
        passes = [mine[torch.randperm(len(mine), generator=random)] for _ in range(-(-share // len(mine)))]
        rows.append(torch.cat([*passes, mine[:0]])[:share])
    return torch.cat(rows)[shuffled(n, seed, epoch)]


def batches_of_rank(rows: Tensor, batch_size: int, even: bool, drop_last: bool, rank: int, world: int) -> list[Tensor]:
    """The batches of one rank. ``even``: every rank gets batches of the same sizes, and a few rows may be left over."""
    mine = []
    for together in rows.split(batch_size * world):
        if drop_last and len(together) < batch_size * world:
            break
        share = len(together) // world
        mine.append(together[rank * share : (rank + 1) * share] if even else together[rank::world])
    return [batch for batch in mine if len(batch)]


def count(n: int, batch_size: int, *, drop_last: bool = False, world: int = 1) -> int:
    """How many training batches each rank gets from ``n`` images in an epoch."""
    whole, rest = divmod(n, batch_size * world)
    return whole + int(not drop_last and rest >= world)
