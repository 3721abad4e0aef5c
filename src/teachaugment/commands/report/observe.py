"""What can be seen only with the networks and the images at hand: pictures, what was learned, who recognises what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from teachaugment.batch import Batch
from teachaugment.commands.report import transform
from teachaugment.commands.report.frames import Film, film
from teachaugment.commands.report.transform import Quantity
from teachaugment.data.loader import batches
from teachaugment.engine.trainer import Trainer
from teachaugment.networks import evaluating
from teachaugment.seeds import derive

LARGE = 128 * 128  # pixels of an image; of larger ones fewer are looked at
LARGE_LOOKED_AT = 64  # training images, at most, that are large
DRAWN = 1024  # augmentations from which distributions are made
PIXELS = 1200  # in a picture of colours
WORST = 8


@dataclass(frozen=True)
class Disagreement:
    """An augmented image about which target and teacher think differently."""

    original: Tensor  # [C, H, W]
    augmented: Tensor
    label: str
    target: tuple[str, float]  # the class it chooses, and how sure it is
    teacher: tuple[str, float]
    distance: float  # half the sum of the differences of their probabilities


@dataclass(frozen=True)
class Observation:
    film: Film
    looked_at: int  # training images
    probabilities: dict[str, list[float]] = field(default_factory=dict)  # by part of the augmentation, of each class
    labels: list[int] = field(default_factory=list)  # of the draws below
    quantities: dict[str, Quantity] = field(default_factory=dict)  # NaN where the part was not applied
    colors: tuple[Tensor, Tensor] | None = None  # [P, 3] before and after
    change: float | None = None  # mean absolute change of a pixel
    variety: float | None = None  # of the warps over images, as a share of their mean size
    accuracy: dict[str, float] = field(default_factory=dict)  # "target plain", "teacher augmented", …
    disagreements: list[Disagreement] = field(default_factory=list)


@torch.no_grad()
def observe(trainer: Trainer) -> Observation:
    """Look at some training images. Nothing in the trainer changes but the state of torch's random numbers."""
    task, split, (height, width) = trainer.task, trainer.data.train, trainer.data.size
    count = task.observed if height * width <= LARGE else min(task.observed, LARGE_LOOKED_AT)
    seed, size = trainer.config.seed, min(count, len(split))
    batch = task.examples(next(batches(split, size, seed=seed, epoch=0, shuffle=True, device=trainer.device)))
    return Observation(film(trainer, batch), len(batch), **_learned(trainer, batch), **_recognised(trainer, batch))


def _learned(trainer: Trainer, batch: Batch) -> dict[str, Any]:
    """Distributions of what the augmenter does now."""
    if not trainer.strategy.views:
        return {}
    augmenter, strength = trainer.strategy.views[0].augmenter, trainer.strategy.found
    generator = torch.Generator(device=trainer.device).manual_seed(derive(trainer.config.seed, "report", "draws"))
    again = max(1, DRAWN // len(batch)) if batch.image[0, 0].numel() <= LARGE else 4
    found: list[dict[str, Quantity]] = []
    labels: list[int] = []
    before: list[Tensor] = []
    after: list[Tensor] = []
    changes, warps = [], []
    for _ in range(again):
        draw = augmenter.sample(len(batch), batch.label if augmenter.settings.classes else None, generator)
        draw = augmenter.weakened(draw, strength) if strength < 1 else draw
        colored = augmenter.color(batch, draw)
        result = augmenter.warp(colored, draw)
        colors = transform.color(batch.image, colored.image)
        touched = (colored.image != batch.image).flatten(1).any(1)
        quantities = {name: only(quantity, touched) for name, quantity in colors.items()}
        if not augmenter.bends:
            matrix = augmenter.matrix(draw, (batch.image.shape[2], batch.image.shape[3]))
            identity = torch.eye(2, 3, device=matrix.device, dtype=matrix.dtype)
            moved = (matrix != identity).flatten(1).any(1)
            parts = transform.geometry(matrix, *batch.image.shape[2:])
            quantities = {**{name: only(quantity, moved) for name, quantity in parts.items()}, **quantities}
            warps.append((matrix - identity)[moved])
        found.append(quantities)
        labels += batch.label.tolist() if batch.label is not None else [0] * len(batch)
        changes.append((result.image - batch.image).abs().mean())
        if len(before) < 2:
            before.append(batch.image)
            after.append(colored.image)
    joined = {
        name: Quantity(q.unit, q.neutral, torch.cat([part[name].values for part in found]).float().cpu())
        for name, q in found[0].items()
    }
    warp = torch.cat(warps) if warps else torch.empty(0, 2, 3)
    return {
        "probabilities": {name: value.tolist() for name, value in augmenter.probabilities().items()},
        "labels": labels,
        "quantities": joined,
        "colors": pixels(torch.cat(before), torch.cat(after), trainer.config.seed)
        if trainer.data.channels == 3
        else None,
        "change": float(torch.stack(changes).mean()),
        "variety": float(warp.std(0).mean() / warp.abs().mean().clamp_min(1e-9)) if len(warp) > 7 else None,
    }


def only(quantity: Quantity, rows: Tensor) -> Quantity:
    """The quantity where the augmentation was applied, NaN elsewhere."""
    return quantity._replace(values=torch.where(rows, quantity.values, torch.nan))


def pixels(before: Tensor, after: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The same random pixels of images [B, 3, H, W] before and after, [P, 3] each."""
    generator = torch.Generator().manual_seed(derive(seed, "report", "pixels"))
    flat = [image.permute(0, 2, 3, 1).reshape(-1, 3).cpu() for image in (before, after)]
    rows = torch.randint(len(flat[0]), (PIXELS,), generator=generator)
    return flat[0][rows], flat[1][rows]


def _versions(trainer: Trainer, batch: Batch) -> dict[str, Batch]:
    """Images as they are and, where the augmentation is learned, augmented."""
    if not trainer.strategy.views:
        return {"plain": batch}
    generator = torch.Generator(device=trainer.device).manual_seed(derive(trainer.config.seed, "report", "harder"))
    view, strength = trainer.strategy.views[0], trainer.strategy.found
    return {"plain": batch, "augmented": view.augmented(batch, generator, strength)}


def _answers(trainer: Trainer, versions: dict[str, Batch]) -> Iterator[tuple[str, Batch, Any]]:
    """What target and teacher say to each version, a part of it at a time."""
    models = trainer.models()
    with evaluating(*models.values()):
        for name, model in models.items():
            for version, images in versions.items():
                for part in images.split(trainer.config.train.batch_size):
                    yield f"{name} {version}", part, trainer.task.predict(model, trainer.task.normalize(part.image))


def _recognised(trainer: Trainer, batch: Batch) -> dict[str, Any]:
    """How much of it target and teacher get right, as it is and augmented, and where they differ most."""
    versions = _versions(trainer, batch)
    right: dict[str, Tensor] = {}
    answers: dict[str, list[Tensor]] = {}
    for name, part, output in _answers(trainer, versions):
        counts = trainer.task.count_right(output, part)
        if counts is None:
            return {}
        right[name] = right.get(name, 0) + torch.stack(counts)
        if (probabilities := trainer.task.answers(output)) is not None:
            answers.setdefault(name, []).append(probabilities)
    accuracy = {name: float(counts[0] / counts[1].clamp_min(1)) for name, counts in right.items()}
    if "teacher augmented" not in answers:
        return {"accuracy": accuracy}
    target, teacher = (torch.cat(answers[f"{name} augmented"]) for name in ("target", "teacher"))
    return {
        "accuracy": accuracy,
        "disagreements": _disagreements(batch, versions["augmented"], target, teacher, trainer.data.classes),
    }


def _disagreements(
    batch: Batch, augmented: Batch, target: Tensor, teacher: Tensor, names: list[str]
) -> list[Disagreement]:
    """The images about which the probabilities [B, K] of target and teacher differ most."""
    distance = (target - teacher).abs().sum(1) / 2
    found, captions = [], [names[k] for k in batch.label.tolist()] if batch.label is not None else []
    for i in distance.topk(min(WORST, len(distance))).indices.tolist():
        (sure, choice), (teacher_sure, teacher_choice) = target[i].max(0), teacher[i].max(0)
        found.append(
            Disagreement(
                batch.image[i],
                augmented.image[i],
                captions[i],
                (names[int(choice)], float(sure)),
                (names[int(teacher_choice)], float(teacher_sure)),
                float(distance[i]),
            )
        )
    return found
