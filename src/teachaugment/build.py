"""From a configuration to the objects of a run: the only place that resolves names."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from teachaugment import checkpoint, data, distributed, logs, models
from teachaugment.algorithm import TeachAugment
from teachaugment.config import MAY_CHANGE, MAY_DIFFER, Config, changes, flatten, from_dict, to_dict, to_yaml
from teachaugment.consistency import DISTANCES, Consistency
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.files import write_atomically
from teachaugment.objectives import Objective, adversarial, point_augment, teach_augment
from teachaugment.optim import sgd
from teachaugment.policy import Policy
from teachaugment.precision import Precision
from teachaugment.pretrained import load_teacher
from teachaugment.seeds import mix
from teachaugment.strategies import PLAIN, STRATEGIES, fixed_augmentation
from teachaugment.tasks import Task
from teachaugment.tasks.classification import Classification
from teachaugment.tasks.segmentation import Segmentation
from teachaugment.teachers import EMATeacher, FrozenTeacher, Teacher
from teachaugment.train import Trainer


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
        mix=a.mix,
        mix_alpha=a.mix_alpha,
    )


def segmentation(config: Config, dataset: DataSet) -> Task:
    a = config.augment
    for name in ("cutout", "jitter", "lighting"):
        if getattr(a, name):
            raise UserError(f"augment.{name} is for classification; leave it at 0 for segmentation")
    return Segmentation(
        dataset.classes, dataset.mean, dataset.std, flip=a.flip, crop=a.crop, window=config.train.window
    )


def teachaugment(config: Config, dataset: DataSet, task: Task, target: nn.Module, precision: Precision) -> TeachAugment:
    t = config.teach
    return TeachAugment(
        target,
        teacher=pretrained(t.teacher, dataset, precision) if t.teacher else None,
        num_classes=task.contexts,
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


def consistency(config: Config, dataset: DataSet, target: nn.Module, precision: Precision) -> Consistency:
    t = config.teach
    teacher: Teacher = EMATeacher(target, t.ema_decay)
    if t.teacher:
        teacher = FrozenTeacher(pretrained(t.teacher, dataset, precision))
    return Consistency(target, teacher, DISTANCES[config.augment.strategy])


def pretrained(source: str, dataset: DataSet, precision: Precision) -> nn.Module:
    return precision.wrap(distributed.in_turn(lambda: load_teacher(source, dataset)).to(precision.device))


OBJECTIVES: dict[str, Objective] = {
    "teachaugment": teach_augment,
    "adversarial": adversarial,
    "pointaugment": point_augment,
}
TASKS: dict[str, Callable[[Config, DataSet], Task]] = {
    "classification": classification,
    "segmentation": segmentation,
}


def device(name: str) -> torch.device:
    """``auto`` is the accelerator if there is one, otherwise the CPU. Of several processes each has one of its own."""
    if name == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        name = found.type if found is not None else "cpu"
    if distributed.launched() and name != "cpu":
        if ":" in name:
            kind = name.partition(":")[0]
            raise UserError(f"--device {name} is one device for several processes; --device {kind} gives each its own")
        name = f"{name}:{distributed.local_rank()}"
    try:
        chosen = torch.device(name)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise UserError(f"--device {name} cannot be used: {reason}; 'auto' or 'cpu' always works") from None
    return chosen


def load_data(config: Config) -> DataSet:
    d = config.data
    options: dict[str, Any] = {
        "root": d.root,
        "size": d.size,
        "seed": config.seed,
        "per_class": d.per_class,
        "val_fraction": d.val_fraction,
        "in_memory": d.in_memory,
        "bad_images": d.bad_images,
    }
    if config.task == "segmentation":
        return data.load_masks(d.path, crop=d.crop, scale=d.scale, ignore=d.ignore, **options)
    return data.load(d.path, **options)


def build(config: Config, dataset: DataSet | None = None, restored: bool = False) -> Trainer:
    """Everything that a run needs, at its first step, or ``restored``: its weights will come from a checkpoint."""
    place = device(config.device)
    distributed.agree({key: value for key, value in flatten(to_dict(config), "").items() if key not in MAY_DIFFER})
    models.check(config.model.name, config.task)  # complains before the data are read
    precision = Precision(config.train.amp, place)
    dataset = dataset or distributed.in_turn(lambda: load_data(config))
    distributed.agree({"the number of training images": len(dataset.train), "the list of classes": dataset.classes})
    if len(dataset.train) < distributed.world():
        raise UserError(f"{len(dataset.train)} training images are too few for {distributed.world()} processes")
    settings, dataset = fixed_augmentation(config.augment, dataset)
    task = TASKS[config.task](replace(config, augment=settings), dataset)
    torch.manual_seed(mix(config.seed, "init"))
    name, pretrained = config.model.name, config.model.pretrained and not restored
    target = models.create(name, len(dataset.classes), dataset.channels, dataset.size, pretrained).to(place)
    if config.train.sync_bn and distributed.world() > 1:
        if place.type == "cpu":
            raise UserError("--sync-bn needs a GPU for each process; torch has no such batch norm for CPUs")
        target = nn.SyncBatchNorm.convert_sync_batchnorm(target)
    if config.train.channels_last:
        target = target.to(memory_format=torch.channels_last)
    o = config.optim
    optimizer = sgd(target, o.lr, o.momentum, o.nesterov, o.weight_decay)
    strategy, wrapped = config.augment.strategy, precision.wrap(target)
    teach = teachaugment(config, dataset, task, wrapped, precision) if strategy == "teachaugment" else None
    augment = teach.augment if teach is not None else STRATEGIES[strategy](settings, dataset)
    if isinstance(augment, Policy):
        augment.to(place)
    regular = consistency(config, dataset, wrapped, precision) if strategy in DISTANCES else None
    return Trainer(config, task, dataset, target, optimizer, augment, teach, place, precision, consistency=regular)


def resume(config: Config, path: Path, into: Path | None = None, force: bool = False) -> tuple[Trainer, Path]:
    """The run in ``path`` as its last checkpoint left it, to go on there, or in a copy of it, ``into``.

    Other settings or other data than the run began with are refused; with ``force`` they are only told. A run that was
    stopped before its first checkpoint starts again from the beginning.
    """
    state, file = distributed.share(lambda: checkpoint.newest(path) if checkpoint.exists(path) else (None, path))
    if state is not None:
        different = changes(from_dict(state["config"], str(file)), config)
        if different:
            _refuse(
                f"{path} was trained with other settings ({'; '.join(different)})",
                f"a resumed run may change only {', '.join(MAY_CHANGE)}",
                force,
            )
        _same_parts(state, config, path)
        if state["epoch"] > config.train.epochs:
            raise UserError(f"{path} has {state['epoch']} epochs done already; --epochs {config.train.epochs} is fewer")
    where = path if into is None or into.resolve() == path.resolve() else into
    if where != path:
        distributed.share(lambda: logs.check_output(config))
    trainer = build(config, restored=state is not None)
    if state is not None:
        if other := _other_data(state["data"], trainer.data):
            _refuse(f"{path} was trained on {other}", "name the data it began with", force)
        if trainer.policy is not None and state.get("policy") != trainer.policy_fingerprint:
            raise UserError(f"{config.augment.policy} is not the policy that {path} was trained with; it has changed")
        trainer.load_state_dict(state, file)

    def prepare() -> None:
        if where != path:
            shutil.copytree(path, where, dirs_exist_ok=True)
        if file.name == checkpoint.PREVIOUS:
            checkpoint.set_aside(where)
        write_atomically(where / logs.CONFIG, lambda file: file.write(to_yaml(config).encode()))

    distributed.share(prepare)
    return trainer, where


def _same_parts(state: dict[str, Any], config: Config, path: Path) -> None:
    """A run may go on with another number of processes if its steps stay the same, part by part."""
    before = state.get("parts", state["config"]["train"]["accumulate"])
    now = config.train.accumulate * distributed.world()
    if before != now:
        size, world = config.train.batch_size, distributed.world()
        fits = f" with --accumulate {before // world}" if before % world == 0 else f" in 1 or {before} processes"
        raise UserError(
            f"{path} was trained in steps of {before} × {size} images, and {world} process(es) × accumulate "
            f"{config.train.accumulate} make {now} × {size}; continue it{fits}"
        )


def _refuse(wrong: str, right: str, force: bool) -> None:
    if not force:
        raise UserError(f"{wrong}; {right}, or add --force to go on all the same")
    warnings.warn(f"{wrong}; going on all the same", stacklevel=2)


def _other_data(saved: dict[str, Any], dataset: DataSet) -> str | None:
    """The images a run goes on with must be those it began with: how they differ, or None."""
    if saved["classes"] != list(dataset.classes):
        return f"the classes {_few(saved['classes'])}, not {_few(dataset.classes)}"
    if saved["train_images"] != len(dataset.train):
        return f"{saved['train_images']} images; now there are {len(dataset.train)}"
    for name in ("mean", "std"):
        before, now = saved[name], list(getattr(dataset, name))
        if max(abs(a - b) for a, b in zip(before, now, strict=True)) > 1e-3:  # decoders differ by less
            return f"images whose {name} was {_numbers(before)}; now it is {_numbers(now)}"
    return None


def _numbers(values: list[float]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def evaluate_run(config: Config, path: Path, which: str, other: str | None) -> dict[str, Any]:
    """Metrics of a run's target and teacher on its test split, or on ``other`` images of the same classes.

    Without a validation split no best checkpoint was chosen, and the last one is the best there is.
    """
    if config.augment.strategy in STRATEGIES.keys() - PLAIN:  # its file, for one, may be gone
        config = replace(config, augment=replace(config.augment, strategy="none"))
    best = path / checkpoint.BEST
    state, file = distributed.share(
        lambda: (checkpoint.load(best), best) if which == "best" and best.exists() else checkpoint.newest(path)
    )
    saved, splits = state["data"], ["test"]
    if other is not None:
        height, width = saved["size"]
        size = height if height == width else None
        config = replace(config, data=replace(config.data, path=other, size=size, per_class=None, val_fraction=0.0))
        if Path(other).is_dir() and not any((Path(other) / part / "train").is_dir() for part in ("", "images")):
            splits = ["train", "test"]  # a folder without splits: all the images
    dataset = distributed.in_turn(lambda: load_data(config))
    for what, mine, theirs in (
        ("classes", _few(dataset.classes), _few(saved["classes"])),
        *([("size", _by(dataset.size), _by(saved["size"]))] if config.task == "classification" else []),
        ("number of channels", dataset.channels, saved["channels"]),
    ):
        if mine != theirs:
            raise UserError(f"the {what} of {config.data.path} must be that of {path}, {theirs}, not {mine}")
    dataset = replace(dataset, train=dataset.train.whole(), mean=tuple(saved["mean"]), std=tuple(saved["std"]))
    trainer = build(config, dataset, restored=True)
    trainer.load_state_dict(state, file)
    about = {"run": str(path), "checkpoint": file.name, "epoch": trainer.epoch, "data": config.data.path}
    return {**about, "metric": trainer.task.metric, "classes": dataset.classes, "test": trainer.evaluate(*splits)}


def _few(names: list[str]) -> str:
    """Names for a message: all that fit."""
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:12])}, … ({len(names)})"


def _by(size: Any) -> str:
    return "×".join(map(str, size))


def strategy_text(trainer: Trainer) -> str:
    """The strategy, for a person; of a policy also how many classes it knows here."""
    policy, name = trainer.policy, trainer.config.augment.strategy
    if policy is None:
        return name
    known, classes = policy.known(), len(trainer.data.classes)
    if policy.augmenter.settings.classes is None:
        detail = "the same for all classes"
    else:
        detail = f"it knows {classes if known is None else known} of {classes} classes by name"
    return f"{name} {trainer.config.augment.policy} of {policy.provenance.get('data', 'unknown data')} ({detail})"


def place(trainer: Trainer) -> str:
    """How far a run has come."""
    epochs = f"epoch {trainer.epoch} of {trainer.config.train.epochs}"
    return epochs if trainer.progress is None else f"{epochs}, at step {trainer.step:,} of {trainer.total_steps:,}"


def describe(trainer: Trainer, path: Path) -> str:
    """One line about what is going to happen."""
    data, config = trainer.data, trainer.config
    parameters = sum(p.numel() for p in trainer.target.parameters())
    val = f", {len(data.val):,} validation" if data.val is not None else ""
    return (
        f"{config.model.name} ({parameters:,} parameters) on {data.name}: {len(data.train):,} training{val} and "
        f"{len(data.test):,} test images of {len(data.classes)} classes, {strategy_text(trainer)}, "
        f"{_step(config)}, {trainer.device}; writing to {path}"
    )


def _step(config: Config) -> str:
    """How large a step is and how fast. The learning rate is never changed to fit the number of processes."""
    size, several = config.train.batch_size, []
    if distributed.world() > 1:
        several.append(f"{distributed.world()} processes × ")
    if config.train.accumulate > 1:
        several.append(f"{config.train.accumulate} × ")
    images = size * config.train.accumulate * distributed.world()
    return f"{''.join(several)}{size}{f' = {images:,}' if several else ''} images per step, lr {config.optim.lr:g}"
