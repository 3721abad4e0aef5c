"""From a configuration to the objects of a run: names are looked up in the tables, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from teachaugment import distributed, models
from teachaugment.config.defaults import begins_trained
from teachaugment.config.resolve import MAY_DIFFER, Config, default, flatten, to_dict
from teachaugment.data.splits import DataSet
from teachaugment.engine import processes
from teachaugment.engine.batch_norm import let_statistics_settle
from teachaugment.engine.finite import Finite
from teachaugment.engine.freezing import Freezing
from teachaugment.engine.input import steps_per_epoch
from teachaugment.engine.optim import optimizer
from teachaugment.engine.precision import Precision
from teachaugment.engine.pretrained import load_teacher
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.models.weights import weights_file
from teachaugment.seeds import derive
from teachaugment.strategies import STRATEGIES
from teachaugment.strategies.fixed import fixed_augmentation
from teachaugment.strategies.strategy import Setup
from teachaugment.tasks import TASKS

CUT = 1.25  # an image that is longer than wide by more than this loses something when it is cropped to a square


def device(name: str) -> torch.device:
    """``auto`` is the accelerator if there is one, otherwise the CPU. Of several processes each has one of its own."""
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        name = found.type if found is not None else "cpu"
    if processes.launched() and name != "cpu":
        if ":" in name:
            kind = name.partition(":")[0]
            raise UserError(f"--device {name} is one device for several processes; --device {kind} gives each its own")
        name = f"{name}:{processes.local_rank()}"
    try:
        chosen = torch.device(name)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise UserError(f"--device {name} cannot be used: {reason}; 'auto' or 'cpu' always works") from None
    return chosen


def load_data(config: Config, training: bool = True) -> DataSet:
    """The data of a run, as its task reads them to train with, or without random crops to be looked at."""
    dataset, d = TASKS.load(config.task).load_data(config, training), config.data
    if not d.mean:
        return dataset
    if len(d.mean) != dataset.channels:
        raise UserError(
            f"data.mean and data.std have {len(d.mean)} numbers, and the images {dataset.channels} channels"
        )
    return replace(dataset, mean=d.mean, std=d.std)


def build(config: Config, dataset: DataSet | None = None, from_checkpoint: bool = False) -> Trainer:
    """Everything that a run needs, at its first step, or ``from_checkpoint``: its weights will come from there."""
    chosen = device(config.device)
    if not from_checkpoint:
        config = TASKS.load(config.task).settle(config)
    processes.agree({key: value for key, value in flatten(to_dict(config), "").items() if key not in MAY_DIFFER})
    models.check(config.model.name, TASKS[config.task].networks)  # complains before the data are read
    if config.model.weights is not None and not from_checkpoint:
        weights_file(config.model.weights)
    precision = Precision(config.train.amp, chosen)
    dataset = dataset or processes.in_turn(lambda: load_data(config))
    processes.agree({"the number of training images": len(dataset.train), "the list of classes": dataset.classes})
    if config.train.patience is not None and dataset.val is None:
        raise UserError("--patience waits for a better epoch on a validation split; add --val-fraction 0.1")
    if len(dataset.train) < distributed.world():
        raise UserError(f"{len(dataset.train)} training images are too few for {distributed.world()} processes")
    augment, dataset = fixed_augmentation(config.augment, dataset)
    task = TASKS.load(config.task).from_config(replace(config, augment=augment), dataset)
    torch.manual_seed(derive(config.seed, "init"))
    begin, steps = not from_checkpoint, steps_per_epoch(config, len(dataset.train)) * config.train.epochs
    target = processes.in_turn(lambda: task.network(config, dataset, begin)).to(chosen)
    let_statistics_settle(target, steps)
    if config.train.sync_bn and distributed.world() > 1:
        if chosen.type == "cpu":
            raise UserError("--sync-bn needs a GPU for each process; torch has no such batch norm for CPUs")
        target = nn.SyncBatchNorm.convert_sync_batchnorm(target)
    if config.train.channels_last:
        target = target.to(memory_format=torch.channels_last)
    wrapped = precision.wrap(target)
    task.begin(wrapped)
    update = optimizer(config.optim, target, task.constant_rate(config, target))
    finite = Finite(config.train.on_nan, chosen)

    def pretrained(source: str) -> nn.Module:
        return precision.wrap(processes.in_turn(lambda: load_teacher(source, dataset, split_seed(config))).to(chosen))

    setup = Setup(config, dataset, task, wrapped, chosen, pretrained, finite, steps)
    strategy = STRATEGIES.load(config.augment.strategy)(setup)
    freezing = Freezing(target, config.optim.freeze, config.optim.freeze_norm)
    return Trainer(config, task, dataset, target, update, strategy, chosen, precision, finite, freezing)


def how_far(trainer: Trainer) -> str:
    """How far a run has come."""
    epochs = f"epoch {trainer.epoch} of {trainer.config.train.epochs}"
    return epochs if trainer.epoch_sums is None else f"{epochs}, at step {trainer.step:,} of {trainer.total_steps:,}"


def describe(trainer: Trainer, path: Path) -> str:
    """One line about what is going to happen."""
    data, config = trainer.data, trainer.config
    parameters = sum(p.numel() for p in trainer.target.parameters())
    val = f", {len(data.val):,} validation{_held_out(config)}" if data.val is not None else ""
    train = f"{len(data.train):,} training{val}"
    apart = "" if data.own_test else f" (a fifth, set apart by data.split_seed {split_seed(config)})"
    return (
        f"{config.model.name} ({parameters:,} parameters{_beginning(config)}) on {data.name}: {train} and "
        f"{len(data.test):,} test images{apart} of {len(data.classes)} classes, {_pixels(trainer)}, "
        f"{trainer.strategy.describe(config, data)}, {_step(config)}, {trainer.device}; writing to {path}"
    )


def split_seed(config: Config) -> int:
    """The seed by which images are set apart for testing and validation."""
    return config.seed if config.data.split_seed is None else config.data.split_seed


def _pixels(trainer: Trainer) -> str:
    """How large the images are, and what becomes of those of another size."""
    data, config = trainer.data, trainer.config
    want, cropped = _by(data.size), data.train.cropped or config.augment.area < 1
    if not data.found or (set(data.found) == {data.size} and not cropped):
        return f"{want} pixels"
    least, most = data.found
    files = _by(least) if least == most else f"{_by(least)} … {_by(most)}"
    whole = {"crop": "the middle of each", "squash": "squashed", "pad": "with black beside them"}[data.fit]
    if not trainer.task.fixed_size:
        return f"{files} pixels" + (f", in random crops of {want}" if cropped else "")
    if data.fit == "crop" and any(max(h, w) > CUT * min(h, w) for h, w in data.found) and data.size[0] == data.size[1]:
        whole += "; --data.fit squash or pad keeps all of it"
    return f"{files} pixels read as {want} ({f'random crops; in evaluations {whole}' if cropped else whole})"


def _by(size: tuple[int, int]) -> str:
    """Width by height, as people say it."""
    return f"{size[1]}×{size[0]}"


def _held_out(config: Config) -> str:
    """Where the validation split comes from, if nobody said that there should be one."""
    flat = flatten(to_dict(config), "")
    share = config.data.val_fraction
    if not share or share != default("data.val_fraction", flat):
        return ""
    return f" ({share:.0%} of the training images, to choose the epoch by; --val-fraction 0 trains on them)"


def _beginning(config: Config) -> str:
    """The weights that a network begins with."""
    if not begins_trained(flatten(to_dict(config), "")):
        return ""
    return f", fine-tuned from {config.model.weights or 'its pretrained weights'}"


def _step(config: Config) -> str:
    """How large a step is and how fast. The learning rate is never changed to fit the number of processes."""
    size, several = config.train.batch_size, []
    if distributed.world() > 1:
        several.append(f"{distributed.world()} processes × ")
    if config.train.accumulate > 1:
        several.append(f"{config.train.accumulate} × ")
    images = size * config.train.accumulate * distributed.world()
    rate = f"lr {config.optim.lr:g} ({config.optim.name})"
    return f"{''.join(several)}{size}{f' = {images:,}' if several else ''} images per step, {rate}"
