"""The same images with the same random numbers, augmented by each snapshot of the replay: a film of the training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from teachaugment import overlay
from teachaugment.algorithm import TeachAugment
from teachaugment.augment.mlp import Sources
from teachaugment.batch import Batch
from teachaugment.replay import Replay, Slots
from teachaugment.seeds import mix
from teachaugment.showing import colors
from teachaugment.train import Trainer

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
    """Augmented versions [D, N, 3, H, W]; the random numbers are the same for every slot."""
    made = []
    for number in range(DRAWS):
        seed = mix(trainer.config.seed, "report", number)
        generator = torch.Generator(device=trainer.device).manual_seed(seed)
        torch.manual_seed(seed)  # from which torchvision's strategies draw
        if trainer.teach is None:
            version = trainer.augment(trainer.task.before(batch, generator))
        else:
            pairs = trainer.teach.pairs  # with two of them, for two views, the draws show both in turn
            augmenter, replay = pairs[number % len(pairs)]
            sources = None if slot is None else snapshot(replay, slot, len(batch))
            draw = augmenter.sample(len(batch), batch.label if augmenter.settings.classes else None, generator, sources)
            version = augmenter.warp(augmenter.color(batch, draw), draw)
        made.append(shown(trainer, version))
    return torch.stack(made)


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
