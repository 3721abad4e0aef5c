"""Pictures of a run: training images beside what the augmentation makes of them, and predictions."""

from __future__ import annotations

import torch

from teachaugment.batch import Batch
from teachaugment.data.loader import batches
from teachaugment.engine.trainer import Trainer
from teachaugment.networks import evaluating
from teachaugment.seeds import derive
from teachaugment.show.pictures import Picture


@torch.no_grad()
def augmented(trainer: Trainer, count: int = 8, versions: int = 4) -> Picture:
    """Training images, of as many classes as possible, beside what the current augmentation makes of them.

    The same images and random numbers every time, so that the pictures of a run can be compared.
    """
    seed, task = trainer.config.seed, trainer.task
    look = task.pool * count
    batch = next(batches(trainer.data.train, look, seed=seed, epoch=0, shuffle=True, device=trainer.device))
    batch = task.examples(batch)[:count]
    generator = torch.Generator(device=trainer.device).manual_seed(derive(seed, "picture"))
    torch.manual_seed(derive(seed, "picture"))  # from which torchvision's strategies draw
    made: list[Batch] = []
    for _ in range(versions):
        made += now(trainer, batch, generator).each_view()
    return task.comparison(batch, made[:versions])


def now(trainer: Trainer, batch: Batch, generator: torch.Generator) -> Batch:
    """What the augmentation makes of a batch now."""
    return trainer.strategy.current(before_strategy(trainer, batch, generator), generator)


def before_strategy(trainer: Trainer, batch: Batch, generator: torch.Generator) -> Batch:
    """A batch as the strategy gets it in a picture: where augmentation is learned, single images come as they are, so
    that what is seen was learned; otherwise the task's own augmentation is seen too."""
    prepared = trainer.task.before(batch, generator)
    return batch if trainer.strategy.views and not prepared.others else prepared


@torch.no_grad()
def predictions(trainer: Trainer, count: int = 12) -> Picture:
    """Test images from all over the split, those of the first one's size, with what the target makes of them."""
    data, task, model = trainer.data, trainer.task, trainer.precision.wrap(trainer.target)
    few = data.test.select(torch.linspace(0, len(data.test) - 1, min(count, len(data.test))).long())
    batch = next(batches(few, count, seed=0, epoch=0, shuffle=False, device=trainer.device))
    with evaluating(model):
        parts = batch.split(trainer.config.train.batch_size)
        outputs = [task.predict(model, task.normalize(part.image)) for part in parts]
    return task.prediction_picture(batch, outputs)
