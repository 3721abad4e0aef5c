"""From a configuration to the objects of a run: the only place that resolves names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from teachaugment import data, distributed, models
from teachaugment.algorithm import TeachAugment
from teachaugment.config.resolve import MAY_DIFFER, Config, flatten, to_dict
from teachaugment.config.sections import SELF_SUPERVISED
from teachaugment.data.reading import Reading
from teachaugment.data.splits import DataSet
from teachaugment.engine import processes
from teachaugment.engine.optim import sgd
from teachaugment.engine.precision import Precision
from teachaugment.engine.pretrained import load_teacher
from teachaugment.engine.trainer import Trainer
from teachaugment.errors import UserError
from teachaugment.models.backbone import backbone
from teachaugment.models.simsiam import SimSiam
from teachaugment.objectives import Objective, adversarial, point_augment, teach_augment
from teachaugment.policy.policy import Policy
from teachaugment.seeds import mix
from teachaugment.strategies.consistency import DISTANCES, Consistency
from teachaugment.strategies.named import STRATEGIES, OnEachView, fixed_augmentation
from teachaugment.tasks import Task
from teachaugment.tasks.classification import Classification
from teachaugment.tasks.momentum import BYOL, MoCo
from teachaugment.tasks.segmentation import Segmentation
from teachaugment.tasks.self_supervised import SelfSupervised, distance
from teachaugment.teachers import EMATeacher, FrozenTeacher, Teacher
from teachaugment.views import TeachAugmentViews


def classification(config: Config, dataset: DataSet) -> Task:
    a = config.augment
    if a.lighting and dataset.channels != 3:
        raise UserError(f"augment.lighting needs images of 3 channels; {dataset.name} has {dataset.channels}")
    return Classification(
        dataset.classes,
        dataset.mean,
        dataset.std,
        flip=a.flip,
        area=1.0 if dataset.train.cropped else a.area,
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
    if a.area != 1:
        raise UserError("augment.area is for classification; for segmentation see data.crop and data.scale")
    return Segmentation(
        dataset.classes, dataset.mean, dataset.std, flip=a.flip, crop=a.crop, window=config.train.window
    )


def self_supervised(config: Config, dataset: DataSet) -> Task:
    a, v = config.augment, config.views
    for name in ("crop", "cutout", "jitter", "lighting"):
        if getattr(a, name):
            raise UserError(f"augment.{name} is not for {config.task}; its views are set by views.area, views.jitter …")
    if a.area != 1:
        raise UserError(f"augment.area is not for {config.task}; its views are set by views.area, views.jitter …")
    about = dataset.classes, dataset.mean, dataset.std
    views: dict[str, Any] = {"flip": a.flip, "area": v.area, "jitter": v.jitter, "grey": v.grey, "blur": v.blur}
    if config.task == "simsiam":
        return SelfSupervised(*about, **views)
    if a.strategy == "teachaugment" and config.teach.ema_decay <= v.momentum:
        raise UserError(
            f"teach.ema_decay must be above views.momentum ({v.momentum:g}) for {config.task}, whose own average "
            f"would else be the teacher, not {config.teach.ema_decay:g}"
        )
    if config.task == "byol":
        return BYOL(*about, momentum=v.momentum, **views)
    queue: dict[str, Any] = {"dim": v.dim, "queue": v.queue, "temperature": v.temperature, "seed": config.seed}
    return MoCo(*about, momentum=v.momentum, **queue, **views)


def new_target(config: Config, dataset: DataSet, pretrained: bool = False) -> nn.Module:
    """The network to train; for a self-supervised task without its classifier and with heads instead."""
    name, classes, v = config.model.name, len(dataset.classes), config.views
    network = models.create(name, classes, dataset.channels, dataset.size, pretrained)
    if config.task not in SELF_SUPERVISED:
        return network
    hidden = 0 if config.task == "moco" else v.hidden
    return SimSiam(*backbone(network, classes, name), dim=v.dim, hidden=hidden, layers=v.layers)


def teachaugment(config: Config, dataset: DataSet, task: Task, target: nn.Module, precision: Precision) -> TeachAugment:
    t = config.teach
    settings: dict[str, Any] = dict(
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
        color_weight=t.color_weight,
        lr=t.lr,
        weight_decay=t.weight_decay,
        seed=config.seed,
    )
    if isinstance(task, SelfSupervised):
        if t.teacher:
            raise UserError(f"--teacher is not for {config.task}, whose teacher is the moving average")
        if t.objective == "pointaugment":
            raise UserError(f"teach.objective pointaugment needs classes, and {config.task} has none")
        # Where the method has an average of its own, the teacher is a slower one from the first steps on.
        warmup = {} if task.against is None else {"ema_warmup": 2}
        return TeachAugmentViews(target, distance, against=task.against, **warmup, **settings)
    return TeachAugment(
        target,
        teacher=pretrained(t.teacher, dataset, precision) if t.teacher else None,
        num_classes=task.contexts,
        non_saturating=t.non_saturating,
        smoothing=t.smoothing,
        **settings,
    )


def consistency(config: Config, dataset: DataSet, target: nn.Module, precision: Precision) -> Consistency:
    t = config.teach
    teacher: Teacher = EMATeacher(target, t.ema_decay)
    if t.teacher:
        teacher = FrozenTeacher(pretrained(t.teacher, dataset, precision))
    return Consistency(target, teacher, DISTANCES[config.augment.strategy])


def pretrained(source: str, dataset: DataSet, precision: Precision) -> nn.Module:
    return precision.wrap(processes.in_turn(lambda: load_teacher(source, dataset)).to(precision.device))


OBJECTIVES: dict[str, Objective] = {
    "teachaugment": teach_augment,
    "adversarial": adversarial,
    "pointaugment": point_augment,
}
TASKS: dict[str, Callable[[Config, DataSet], Task]] = {
    "classification": classification,
    "segmentation": segmentation,
    **dict.fromkeys(SELF_SUPERVISED, self_supervised),
}


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
    """The data of a run; without ``training`` there are no random crops of whole images among them."""
    d, table, area, views = config.data, data.CLASSES, config.augment.area, 1
    if config.task == "segmentation":
        table = data.MASKS
    elif config.task in SELF_SUPERVISED:
        area, views = config.views.area, 2
    if config.augment.strategy == "unaugmented" or not training:
        area = 1.0
    reading = Reading(
        root=d.root,
        size=d.size,
        seed=config.seed,
        per_class=d.per_class,
        val_fraction=d.val_fraction,
        in_memory=d.in_memory,
        bad_images=d.bad_images,
        area=area,
        views=views,
        crop=d.crop,
        scale=d.scale,
        ignore=d.ignore,
    )
    return data.load(d.path, reading, table)


def build(config: Config, dataset: DataSet | None = None, restored: bool = False) -> Trainer:
    """Everything that a run needs, at its first step, or ``restored``: its weights will come from a checkpoint."""
    place = device(config.device)
    processes.agree({key: value for key, value in flatten(to_dict(config), "").items() if key not in MAY_DIFFER})
    kind = "classification" if config.task in SELF_SUPERVISED else config.task  # of network
    models.check(config.model.name, kind)  # complains before the data are read
    precision = Precision(config.train.amp, place)
    dataset = dataset or processes.in_turn(lambda: load_data(config))
    processes.agree({"the number of training images": len(dataset.train), "the list of classes": dataset.classes})
    if len(dataset.train) < distributed.world():
        raise UserError(f"{len(dataset.train)} training images are too few for {distributed.world()} processes")
    settings, dataset = fixed_augmentation(config.augment, dataset)
    task = TASKS[config.task](replace(config, augment=settings), dataset)
    torch.manual_seed(mix(config.seed, "init"))
    target = new_target(config, dataset, config.model.pretrained and not restored).to(place)
    if config.train.sync_bn and distributed.world() > 1:
        if place.type == "cpu":
            raise UserError("--sync-bn needs a GPU for each process; torch has no such batch norm for CPUs")
        target = nn.SyncBatchNorm.convert_sync_batchnorm(target)
    if config.train.channels_last:
        target = target.to(memory_format=torch.channels_last)
    task.begin(precision.wrap(target))
    o = config.optim
    steady = target.predictor.parameters() if isinstance(target, SimSiam) and config.views.fixed_lr else ()
    optimizer = sgd(target, o.lr, o.momentum, o.nesterov, o.weight_decay, steady)
    strategy, wrapped = config.augment.strategy, precision.wrap(target)
    teach = teachaugment(config, dataset, task, wrapped, precision) if strategy == "teachaugment" else None
    augment = teach.augment if teach is not None else STRATEGIES[strategy](settings, dataset)
    if isinstance(augment, Policy):
        augment.to(place)
    if teach is None and isinstance(task, SelfSupervised):
        augment = OnEachView(augment)
    regular = consistency(config, dataset, wrapped, precision) if strategy in DISTANCES else None
    return Trainer(config, task, dataset, target, optimizer, augment, teach, place, precision, consistency=regular)


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
