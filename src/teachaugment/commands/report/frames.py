"""The same images with the same random numbers, augmented by each snapshot of the replay: a film of the training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from teachaugment.augment.mlp import Sources
from teachaugment.batch import Batch
from teachaugment.engine import pictures
from teachaugment.engine.trainer import Trainer
from teachaugment.replay import Replay, Slots
from teachaugment.seeds import derive
from teachaugment.strategies.strategy import Strategy
from teachaugment.view import View

IMAGES, DRAWS = 8, 4
MOST = 16  # frames; of more snapshots, some from all over the training


@dataclass(frozen=True)
class Film:
    """RGB images in [0, 1]: originals [N, 3, H, W] and for each frame draws [D, N, 3, H, W]."""

    names: list[str]
    originals: Tensor
    frames: list[tuple[str, Tensor]]  # what to call it, and the draws


def film(trainer: Trainer, batch: Batch) -> Film:
    """The first images of ``batch``: a frame for each snapshot, and a last one for the augmentation as it is now."""
    task, strategy = trainer.task, trainer.strategy
    pictures_of_each = len(task.paint(batch[:1]))
    batch = batch[: IMAGES // pictures_of_each]
    if strategy.views:
        frames = [(f"epoch {epoch}", draws(trainer, batch, slot)) for epoch, slot in moments(strategy, trainer.epoch)]
    else:
        frames = [(trainer.config.augment.strategy, draws(trainer, batch, None))]
    return Film(task.captions(batch), task.paint(batch), frames)


def moments(strategy: Strategy, epoch: int) -> list[tuple[int, int | None]]:
    """(epoch, slot of the replay) of the frames; None is the augmenter as it is now."""
    snapshots = [((k + 1) * strategy.snapshot_every, k) for k in range(len(strategy.views[0].replay))]
    earlier = [moment for moment in snapshots if moment[0] < epoch]
    if len(earlier) > MOST - 1:
        chosen = torch.linspace(0, len(earlier) - 1, MOST - 1).round().long().tolist()
        earlier = [earlier[k] for k in chosen]
    return [*earlier, (epoch, None)]


@torch.no_grad()
def draws(trainer: Trainer, batch: Batch, slot: int | None) -> Tensor:
    """Augmented versions [D, N, 3, H, W], views one after the other; random numbers are the same for every slot."""
    made: list[Batch] = []
    for number in range(DRAWS):
        seed = derive(trainer.config.seed, "report", number)
        generator = torch.Generator(device=trainer.device).manual_seed(seed)
        torch.manual_seed(seed)  # from which torchvision's strategies draw
        if slot is None:
            made += pictures.now(trainer, batch, generator).each_view()
        else:
            images = pictures.before_strategy(trainer, batch, generator).each_view()
            made += [
                earlier(view, slot, image, generator)
                for view, image in zip(trainer.strategy.views, images, strict=True)
            ]
    return torch.stack([trainer.task.paint(version) for version in made[:DRAWS]])


def earlier(view: View, slot: int, batch: Batch, generator: torch.Generator) -> Batch:
    """Images as the augmenter of a snapshot would have augmented them."""
    augmenter, sources = view.augmenter, snapshot(view.replay, slot, len(batch))
    draw = augmenter.sample(len(batch), batch.label if augmenter.settings.classes else None, generator, sources)
    return augmenter.warp(augmenter.color(batch, draw), draw)


def snapshot(replay: Replay, slot: int, n: int) -> Sources:
    """The weights of one snapshot for ``n`` images."""
    group, device = replay.augmenter.settings.group, replay.augmenter.device
    groups, images = (torch.full((count,), slot, device=device) for count in (-(-n // group), n))
    return Sources(Slots(replay, groups), Slots(replay, images))
