"""Pictures of a run: training images beside what the augmentation makes of them, and predictions of masks."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from teachaugment.data.loader import batches
from teachaugment.engine.evaluate import evaluating
from teachaugment.engine.trainer import Trainer
from teachaugment.losses import main_head
from teachaugment.seeds import mix
from teachaugment.show import overlay, pictures


@torch.no_grad()
def augmented(trainer: Trainer, count: int = 8, versions: int = 4) -> pictures.Picture:
    """Training images, of as many classes as possible, beside what the current augmentation makes of them.

    The same images and random numbers every time, so that the pictures of a run can be compared.
    """
    seed, segments, device = trainer.config.seed, trainer.config.task == "segmentation", trainer.device
    look = count if segments else 16 * count
    batch = next(batches(trainer.data.train, look, seed=seed, epoch=0, shuffle=True, device=device))
    batch = batch[:count] if batch.label is None else batch[mixed(batch.label)[:count]]
    if segments:
        batch = batch.replace(label=None)
    generator = torch.Generator(device=device).manual_seed(mix(seed, "picture"))
    torch.manual_seed(mix(seed, "picture"))  # from which torchvision's strategies draw
    made = []
    for _ in range(versions):
        shown = trainer.task.before(batch, generator)
        if trainer.teach is None:
            shown = trainer.augment(shown)
        else:  # of single views, what was learned and nothing else
            shown = trainer.teach.current(shown if shown.others else batch, generator)
        made += shown.each_view()
    made = made[:versions]
    if segments:
        return overlay.augmented(batch, made, trainer.data.classes, colors(trainer))
    names = [trainer.data.classes[k] for k in batch.label.tolist()] if batch.label is not None else [""] * len(batch)
    return pictures.comparison(batch.image, [version.image for version in made], names)


def mixed(label: Tensor) -> Tensor:
    """An order of the images in which the first ones are of as many classes as possible."""
    labels, seen, rank = label.tolist(), Counter[int](), []
    for k in labels:
        rank.append(seen[k])
        seen[k] += 1
    return torch.tensor(sorted(range(len(labels)), key=lambda i: (rank[i], labels[i])), device=label.device)


@torch.no_grad()
def predictions(trainer: Trainer, count: int = 12) -> pictures.Picture:
    """Test images from all over the split, those of the first one's size, with their masks and the target's choice."""
    data, task, model = trainer.data, trainer.task, trainer.precision.wrap(trainer.target)
    size = trainer.config.train.batch_size
    few = data.test.select(torch.linspace(0, len(data.test) - 1, min(count, len(data.test))).long())
    batch = next(batches(few, count, seed=0, epoch=0, shuffle=False, device=trainer.device))
    with evaluating(model):
        parts = [task.predict(model, task.normalize(part.image)) for part in batch.split(size)]
    choice = torch.cat([main_head(part).argmax(1) for part in parts])
    return overlay.predictions(batch, choice, data.classes, colors(trainer))


def colors(trainer: Trainer) -> list[overlay.Color]:
    """Of the classes."""
    return trainer.data.colors or overlay.palette(len(trainer.data.classes))
