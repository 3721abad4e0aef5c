"""The same images with the same random numbers, augmented by each snapshot of the replay: a film of the training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from teachaugment.algorithm import TeachAugment
from teachaugment.augment.mlp import Sources
from teachaugment.batch import Batch
from teachaugment.engine.pictures import colors
from teachaugment.engine.trainer import Trainer
from teachaugment.replay import Replay, Slots
from teachaugment.seeds import mix
from teachaugment.show import overlay

IMAGES, DRAWS = 8, 4
MOST = 16  # frames; of more snapshots, some from all over the training


@dataclass(frozen=True)
class Film:
    """RGB images in [0, 1]: originals [N, 3, H, W] and for each frame draws [D, N, 3, H, W]."""

    names: list[str]
    originals: Tensor
    frames: list[tuple[str, Tensor]]  # what to call it, and the draws


def film(trainer: Trainer, batch: Batch) -> Film:
    """Of the first images of ``batch``; one frame for each snapshot, the last one for the augmentation as it is now."""
    segments = batch.mask is not None
    batch = batch[: IMAGES // 2 if segments else IMAGES]
    frames = []
    if trainer.teach is not None:
        for epoch, slot in moments(trainer.teach, trainer.epoch):
            frames.append((f"epoch {epoch}", draws(trainer, batch, slot)))
    else:
        frames.append((trainer.config.augment.strategy, draws(trainer, batch, None)))
    labels = batch.label.tolist() if batch.label is not None and not segments else []
    names = [trainer.data.classes[k] for k in labels]
    return Film(names, shown(trainer, batch), frames)


def moments(teach: TeachAugment, epoch: int) -> list[tuple[int, int | None]]:
    """(epoch, slot of the replay) of the frames; None is the augmenter as it is now."""
    snapshots = [((k + 1) * teach.n_buffer, k) for k in range(len(teach.replay))]
    earlier = [moment for moment in snapshots if moment[0] < epoch]
    if len(earlier) > MOST - 1:
        chosen = torch.linspace(0, len(earlier) - 1, MOST - 1).round().long().tolist()
        earlier = [earlier[k] for k in chosen]
    return [*earlier, (epoch, None)]


@torch.no_grad()
def draws(trainer: Trainer, batch: Batch, slot: int | None) -> Tensor:
    """Augmented versions [D, N, 3, H, W], two views one after the other; random numbers are the same for every slot."""
    made: list[Batch] = []
    for number in range(DRAWS):
        seed = mix(trainer.config.seed, "report", number)
        generator = torch.Generator(device=trainer.device).manual_seed(seed)
        torch.manual_seed(seed)  # from which torchvision's strategies draw
        before = trainer.task.before(batch, generator)
        if trainer.teach is None:
            version = trainer.augment(before)
            made += version.each_view()
        else:  # of single views, what was learned and nothing else
            starts = before.each_view() if before.others else [batch]
            for (augmenter, replay), start in zip(trainer.teach.pairs, starts, strict=True):
                sources = None if slot is None else snapshot(replay, slot, len(start))
                context = start.label if augmenter.settings.classes else None
                draw = augmenter.sample(len(start), context, generator, sources)
                made.append(augmenter.warp(augmenter.color(start, draw), draw))
    return torch.stack([shown(trainer, version) for version in made[:DRAWS]])


def snapshot(replay: Replay, slot: int, n: int) -> Sources:
    """The weights of one snapshot for ``n`` images."""
    group, device = replay.augmenter.settings.group, replay.augmenter.device
    groups, images = (torch.full((count,), slot, device=device) for count in (-(-n // group), n))
    return Sources(Slots(replay, groups), Slots(replay, images))


def shown(trainer: Trainer, batch: Batch) -> Tensor:
    """Images as they are shown: RGB, and beside each the same with its mask where there is one."""
    if batch.mask is None:
        return overlay.rgb(batch.image)
    both = [overlay.rgb(batch.image), overlay.overlay(batch.image, batch.mask, colors(trainer))]
    return torch.stack(both, 1).flatten(0, 1)
