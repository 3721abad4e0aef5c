"""From a configuration to the objects of a run: the only place that resolves names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from teachaugment import checkpoint, data, logs, models
from teachaugment.algorithm import TeachAugment
from teachaugment.augment.published import PUBLISHED, PerImage, published
from teachaugment.batch import Batch
from teachaugment.config import MAY_CHANGE, Config, changes, from_dict, to_yaml
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.objectives import Objective, adversarial, point_augment, teach_augment
from teachaugment.optim import sgd
from teachaugment.precision import Precision
from teachaugment.pretrained import load_teacher
from teachaugment.seeds import mix
from teachaugment.tasks import Augment, Task
from teachaugment.tasks.classification import Classification
from teachaugment.train import Trainer

SMALL = 64  # pixels a side: up to here AutoAugment's policy is that of CIFAR-10


def classification(config: Config, dataset: DataSet) -> Task:
    a = config.augment
    if a.lighting and dataset.channels != 3:
        raise UserError(f"augment.lighting needs images of 3 channels; {dataset.name} has {dataset.channels}")
    return Classification(
        dataset.classes,
        dataset.mean,
        dataset.std,
        flip=a.flip,
        crop=a.crop,
        cutout=a.cutout,
        jitter=a.jitter,
        lighting=a.lighting,
    )


def teachaugment(config: Config, dataset: DataSet, task: Task, target: nn.Module, precision: Precision) -> TeachAugment:
    t = config.teach
    device = next(target.parameters()).device
    return TeachAugment(
        target,
        teacher=precision.wrap(load_teacher(t.teacher, dataset).to(device)) if t.teacher else None,
        num_classes=len(dataset.classes),
        channels=dataset.channels,
        augmenter=t.augmenter,
        normalize=task.normalize,
        objective=OBJECTIVES[t.objective],
        ema_decay=t.ema_decay,
        n_inner=t.n_inner,
        fraction=t.fraction,
        at_once=config.train.batch_size,
        n_buffer=t.n_buffer if t.replay else 0,
        replay_decay=t.replay_decay,
        group=t.group,
        non_saturating=t.non_saturating,
        smoothing=t.smoothing,
        color_weight=t.color_weight,
        lr=t.lr,
        weight_decay=t.weight_decay,
        seed=config.seed,
    )


def unchanged(batch: Batch) -> Batch:
    return batch


def from_torchvision(name: str, config: Config, dataset: DataSet) -> PerImage:
    if dataset.channels not in (1, 3):
        raise UserError(f"--strategy {name} needs images of 1 or 3 channels; {dataset.name} has {dataset.channels}")
    return PerImage(published(name, config.augment.num_ops, config.augment.magnitude))


def autoaugment(config: Config, dataset: DataSet) -> PerImage:
    """The policy that was found on images of this kind."""
    return from_torchvision(f"autoaugment-{'cifar10' if max(dataset.size) <= SMALL else 'imagenet'}", config, dataset)


OBJECTIVES: dict[str, Objective] = {
    "teachaugment": teach_augment,
    "adversarial": adversarial,
    "pointaugment": point_augment,
}
TASKS: dict[str, Callable[[Config, DataSet], Task]] = {"classification": classification}
STRATEGIES: dict[str, Callable[[Config, DataSet], Augment] | None] = {
    "none": lambda config, dataset: unchanged,
    "teachaugment": None,  # it is learned
    "autoaugment": autoaugment,
    **{name: partial(from_torchvision, name) for name in PUBLISHED},
}


def device(name: str) -> torch.device:
    """``auto`` is the accelerator if there is one, otherwise the CPU."""
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found or torch.device("cpu")
    try:
        chosen = torch.device(name)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise UserError(f"--device {name} cannot be used: {reason}; 'auto' or 'cpu' always works") from None
    return chosen


def load_data(config: Config) -> DataSet:
    d = config.data
    return data.load(
        d.path,
        root=d.root,
        size=d.size,
        seed=config.seed,
        per_class=d.per_class,
        val_fraction=d.val_fraction,
        in_memory=d.in_memory,
        bad_images=d.bad_images,
    )


def build(config: Config, dataset: DataSet | None = None) -> Trainer:
    """Everything that a run needs, at its first step."""
    place = device(config.device)
    models.check(config.model.name)  # complains before the data are read
    precision = Precision(config.train.amp, place)
    dataset = dataset or load_data(config)
    task = TASKS[config.task](config, dataset)
    torch.manual_seed(mix(config.seed, "init"))
    target = models.create(config.model.name, len(dataset.classes), dataset.channels, dataset.size).to(place)
    if config.train.channels_last:
        target = target.to(memory_format=torch.channels_last)
    o = config.optim
    optimizer = sgd(target, o.lr, o.momentum, o.nesterov, o.weight_decay)
    fixed = STRATEGIES[config.augment.strategy]
    teach: TeachAugment | None = None
    augment: Augment
    if fixed is None:
        teach = teachaugment(config, dataset, task, precision.wrap(target), precision)
        augment = teach.augment
    else:
        augment = fixed(config, dataset)
    return Trainer(config, task, dataset, target, optimizer, augment, teach, place, precision)


def resume(config: Config, path: Path, into: Path | None = None) -> tuple[Trainer, Path]:
    """The run in ``path`` as its last checkpoint left it, to go on there, or in a copy of it, ``into``.

    A run that was stopped before its first checkpoint starts again from the beginning.
    """
    state = checkpoint.load(path / checkpoint.LAST) if (path / checkpoint.LAST).exists() else None
    if state is not None:
        before = from_dict(state["config"], str(path / checkpoint.LAST))
        if different := changes(before, config):
            raise UserError(
                f"{path} was trained with other settings ({'; '.join(different)}); "
                f"a resumed run may change only {', '.join(MAY_CHANGE)}"
            )
        if state["epoch"] > config.train.epochs:
            raise UserError(f"{path} has {state['epoch']} epochs done already; --epochs {config.train.epochs} is fewer")
    if into is not None and into.resolve() != path.resolve():
        logs.check_output(config)
    trainer = build(config)
    if state is not None:
        _same_data(state["data"], trainer.data, path)
        trainer.load_state_dict(state, path / checkpoint.LAST)
    if into is not None and into.resolve() != path.resolve():
        shutil.copytree(path, into, dirs_exist_ok=True)
        path = into
    checkpoint.write_atomically(path / logs.CONFIG, lambda file: file.write(to_yaml(config).encode()))
    return trainer, path


def _same_data(saved: dict[str, Any], dataset: DataSet, path: Path) -> None:
    """The images a run goes on with must be those it began with."""
    if saved["classes"] != list(dataset.classes):
        raise UserError(f"{path} was trained on the classes {_few(saved['classes'])}, not {_few(dataset.classes)}")
    if saved["train_images"] != len(dataset.train):
        raise UserError(f"{path} was trained on {saved['train_images']} images; now there are {len(dataset.train)}")


def evaluate_run(config: Config, path: Path, which: str, other: str | None) -> dict[str, Any]:
    """Metrics of a run's target and teacher on its test split, or on ``other`` images of the same classes.

    Without a validation split no best checkpoint was chosen, and the last one is the best there is.
    """
    name = checkpoint.BEST if which == "best" and (path / checkpoint.BEST).exists() else checkpoint.LAST
    state = checkpoint.load(path / name)
    saved, splits = state["data"], ["test"]
    if other is not None:
        height, width = saved["size"]
        size = height if height == width else None
        config = replace(config, data=replace(config.data, path=other, size=size, per_class=None, val_fraction=0.0))
        if Path(other).is_dir() and not (Path(other) / "train").is_dir():
            splits = ["train", "test"]  # class folders without splits: all the images
    dataset = load_data(config)
    for what, mine, theirs in (
        ("classes", _few(dataset.classes), _few(saved["classes"])),
        ("size", _by(dataset.size), _by(saved["size"])),
        ("number of channels", dataset.channels, saved["channels"]),
    ):
        if mine != theirs:
            raise UserError(f"the {what} of {config.data.path} must be that of {path}, {theirs}, not {mine}")
    train = replace(dataset.train, crop=False) if isinstance(dataset.train, data.FolderSplit) else dataset.train
    dataset = replace(dataset, train=train, mean=tuple(saved["mean"]), std=tuple(saved["std"]))
    trainer = build(config, dataset)
    trainer.load_state_dict(state, path / name)
    about = {"run": str(path), "checkpoint": name, "epoch": trainer.epoch, "data": config.data.path}
    return {**about, "classes": dataset.classes, "test": trainer.evaluate(*splits)}


def _few(names: list[str]) -> str:
    """Names for a message: all that fit."""
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])}, … ({len(names)})"


def _by(size: Any) -> str:
    return "×".join(map(str, size))


def describe(trainer: Trainer, path: Path) -> str:
    """One line about what is going to happen."""
    data, config = trainer.data, trainer.config
    parameters = sum(p.numel() for p in trainer.target.parameters())
    val = f", {len(data.val):,} validation" if data.val is not None else ""
    return (
        f"{config.model.name} ({parameters:,} parameters) on {data.name}: {len(data.train):,} training{val} and "
        f"{len(data.test):,} test images of {len(data.classes)} classes, {config.augment.strategy}, "
        f"{trainer.device}; writing to {path}"
    )
