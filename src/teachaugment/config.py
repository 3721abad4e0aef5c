"""Every setting of a run in typed sections: defaults < preset < YAML file < flags, and nothing unknown gets through.

Some defaults are other ones for another task than classification (``TASK_DEFAULTS``).

Nothing here imports torch: a mistake in a setting is reported before anything slow starts.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import yaml

from teachaugment.errors import UserError, nearest
from teachaugment.settings import Setting, setting


@dataclass(frozen=True)
class DataConfig:
    path: str = setting(
        "shapes",
        "shapes, cifar10, cifar100, imagenet, cityscapes, hf:NAME, wds:SHARDS, a folder of images or an .npz file",
        flag="data",
    )
    root: str | None = setting(
        None, "where cifar10, cifar100, imagenet, cityscapes and hf: data are kept; none: ~/.cache/teachaugment"
    )
    size: int | None = setting(None, "side of the square images; none: the data's own", low=8)
    per_class: int | None = setting(None, "use only the first N training images of each class", low=1)
    val_fraction: float = setting(
        0.0, "part of the training split held out for validation", flag="val-fraction", low=0, below=1
    )
    balance: bool = setting(False, "draw all classes equally often in training", flag="balance")
    workers: int = setting(0, "processes that read images from disk; 0: this one", flag="workers", low=0)
    bad_images: str = setting(
        "error", "what to do with a file that cannot be decoded", flag="bad-images", choices=("error", "skip")
    )
    in_memory: str = setting(
        "auto", "hold the decoded images in memory; auto: when they are small", choices=("auto", "always", "never")
    )
    crop: int | None = setting(
        None, "segmentation: side of random crops of the training images; none: whole images", low=8
    )
    scale: float = setting(
        1.0, "segmentation: magnify training images at random between 1/this and this; 1: off", low=1, high=10
    )
    ignore: int | None = setting(
        None, "segmentation: a value of masks that counts for nothing, as 255 does", low=0, high=255
    )


@dataclass(frozen=True)
class ModelConfig:
    name: str = setting("cnn-4", "the network to train; see teachaugment models", flag="model")
    pretrained: bool = setting(
        False, "segmentation: start the backbone with ImageNet weights, which are downloaded", flag="pretrained"
    )


@dataclass(frozen=True)
class OptimConfig:
    lr: float = setting(0.1, "peak learning rate of the target", flag="lr", above=0)
    momentum: float = setting(0.9, "momentum of SGD", low=0, below=1)
    nesterov: bool = setting(True, "Nesterov's momentum")
    weight_decay: float = setting(5e-4, "weight decay; never on biases and normalisation layers", low=0)
    schedule: str = setting("cosine", "learning rate over the steps", choices=("cosine", "step", "poly", "constant"))
    milestones: tuple[int, ...] = setting(
        (), "epochs after which schedule 'step' divides by ten; empty: 1/3, 2/3 and 8/9 of the training", low=1
    )
    warmup_epochs: float = setting(5.0, "epochs of linear warm-up, at most half of the training", low=0)
    clip: float = setting(0.0, "largest norm of the target's gradient; 0: no clipping", low=0)


@dataclass(frozen=True)
class TrainConfig:
    epochs: int = setting(40, "passes over the training split", flag="epochs", low=1)
    batch_size: int = setting(64, "images that pass through the networks at once", flag="batch-size", low=1)
    accumulate: int = setting(1, "batches whose gradients make one step of the target", flag="accumulate", low=1)
    sync_bn: bool = setting(
        False, "batch norm over the images of all processes (GPUs only); false: of each process's own", flag="sync-bn"
    )
    amp: str = setting(
        "off", "precision of the networks' passes; off: 32 bits", flag="amp", choices=("off", "bf16", "fp16")
    )
    channels_last: bool = setting(False, "keep the target's weights in channels-last order", flag="channels-last")
    compile: bool = setting(False, "compile the target's update with torch.compile", flag="compile")
    eval_every: int = setting(5, "epochs between two evaluations", flag="eval-every", low=1)
    window: int | None = setting(
        None, "segmentation: side of the sliding window in evaluations; none: whole images", low=8
    )
    save_every: int = setting(1, "epochs between two checkpoints", low=1)
    save_minutes: float = setting(10.0, "minutes between two checkpoints within an epoch; 0: none", low=0)
    tensorboard: bool = setting(True, "write TensorBoard scalars and image grids")


@dataclass(frozen=True)
class AugmentConfig:
    strategy: str = setting(
        "teachaugment",
        "what is done to a training image besides flip, crop and cutout",
        flag="strategy",
        choices=(
            *("teachaugment", "policy", "none", "unaugmented", "crop-flip", "cutout"),
            *("trivialaugment", "randaugment", "autoaugment", "autoaugment-cifar10", "autoaugment-imagenet", "augmix"),
            *("policy-file", "consistency-kld", "consistency-mse"),
        ),
    )
    policy: str | None = setting(
        None, "train with this learned policy, a file or a run; no teacher is needed then", flag="policy"
    )
    copies: int = setting(
        1, "augmented copies of each batch, whose mean loss makes one step of the target", flag="copies", low=1
    )
    mix: str = setting("none", "mix pairs of images and labels after all else", choices=("none", "mixup", "cutmix"))
    mix_alpha: float = setting(1.0, "the proportion of a mix is drawn from Beta(alpha, alpha)", above=0)
    policy_file: str | None = setting(
        None, "strategy policy-file: FILE.json, FILE.py#NAME, or FILE.txt#EPOCHS with a schedule of PBA"
    )
    num_ops: int = setting(2, "RandAugment: operations for each image (N)", low=0)
    magnitude: int = setting(9, "RandAugment: strength of its operations (M)", low=0, high=30)
    flip: bool = setting(True, "mirror half of the images")
    crop: int = setting(4, "random crop after zero padding of this many pixels; 0: off", low=0)
    cutout: int = setting(0, "side of the Cutout square in pixels; 0: off", low=0)
    jitter: float = setting(0.0, "colour jitter: brightness, contrast and saturation by 1 ± this", low=0, high=1)
    lighting: float = setting(0.0, "standard deviation of noise along ImageNet's principal colours", low=0)


@dataclass(frozen=True)
class TeachConfig:
    objective: str = setting(
        "teachaugment",
        "what the augmenter maximises: Eq. 1, or its rival of Adversarial AutoAugment or of PointAugment",
        choices=("teachaugment", "adversarial", "pointaugment"),
    )
    augmenter: str = setting(
        "neural",
        "what learns to augment: the paper's networks, or their rival of Faster AutoAugment (dda) or OnlineAugment",
        choices=("neural", "dda", "online"),
    )
    n_inner: int = setting(5, "target steps for each step of the augmenter", low=1)
    fraction: float = setting(1.0, "share of a batch on which the augmenter is updated", above=0, high=1)
    n_buffer: int = setting(10, "epochs between two snapshots for the replay", low=1)
    smoothing: float = setting(0.1, "label smoothing of the target's term", low=0, below=1)
    color_weight: float = setting(10.0, "weight of the colour distance; 0: off", low=0)
    replay: bool = setting(True, "train the target with earlier augmenters too")
    replay_decay: float = setting(0.99, "priority of a snapshot against the next newer one", above=0, high=1)
    group: int = setting(8, "images that share one draw from the replay", low=1)
    non_saturating: bool = setting(True, "non-saturating loss in the target's term")
    teacher: str | None = setting(
        None, "a run, a checkpoint or a pretrained network as the teacher; none: the moving average", flag="teacher"
    )
    ema_decay: float = setting(0.999, "decay of the teacher's moving average", low=0, below=1)
    lr: float = setting(1e-3, "learning rate of the augmenter", above=0)
    weight_decay: float = setting(1e-2, "weight decay of the augmenter", low=0)


@dataclass(frozen=True)
class Config:
    task: str = setting("classification", "what is learned", flag="task", choices=("classification", "segmentation"))
    seed: int = setting(0, "all randomness follows from this number", flag="seed", low=0)
    output: str | None = setting(None, "the run directory, new or empty; none: a fresh one under runs/", flag="output")
    device: str = setting("auto", "cpu, cuda, cuda:1, mps, …; auto: the accelerator if there is one", flag="device")
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    teach: TeachConfig = field(default_factory=TeachConfig)


# What a task changes among the defaults.
TASK_DEFAULTS: dict[str, dict[str, Any]] = {
    "segmentation": {
        "model.name": "unet-16",
        "optim.lr": 0.05,
        "optim.warmup_epochs": 1.0,
        "train.epochs": 20,
        "train.batch_size": 8,
        "augment.crop": 0,
        "augment.num_ops": 1,  # RandAugment's settings are those of the paper's appendix
        "augment.magnitude": 5,
    },
}
SEGMENTATION_ONLY = ("data.crop", "data.scale", "data.ignore", "model.pretrained", "train.window")
# The settings a resumed run may change; accumulate only with the number of processes, so that steps stay the same.
MAY_CHANGE = (
    *("train.epochs", "output", "data.workers", "device"),
    *("train.accumulate", "train.save_every", "train.save_minutes"),
)
MAY_DIFFER = ("output", "data.workers", "device", "data.root")  # between the processes of one run


def settings(section: type = Config, prefix: str = "") -> Iterator[Setting]:
    """All settings, depth first."""
    kinds = typing.get_type_hints(section)
    for f in fields(section):
        if is_dataclass(kinds[f.name]):
            yield from settings(kinds[f.name], f"{prefix}{f.name}.")
        else:
            yield Setting(prefix + f.name, kinds[f.name], f.default, f.metadata)


SETTINGS: dict[str, Setting] = {s.key: s for s in settings()}
SECTIONS = tuple(f.name for f in fields(Config) if f.default is dataclasses.MISSING)


def default(key: str, task: str = "classification") -> Any:
    """What a setting is when nobody says anything about it."""
    return TASK_DEFAULTS.get(task, {}).get(key, SETTINGS[key].default)


@dataclass(frozen=True)
class Layer:
    """Settings from one place. ``names`` says how that place calls each of them, for messages."""

    values: Mapping[str, Any]  # "optim.lr" -> raw value
    names: Mapping[str, str]  # "optim.lr" -> "--lr", or "file.yaml: optim.lr"


def resolve(*layers: Layer) -> Config:
    """One configuration from the defaults and the layers, the later ones stronger."""
    chosen: dict[str, Any] = {}
    names: dict[str, str] = {}
    for layer in layers:
        for key, raw in layer.values.items():
            where = layer.names[key]
            if key not in SETTINGS:
                raise UserError(f"{where} is not a setting{nearest(key, SETTINGS)}")
            try:
                chosen[key] = SETTINGS[key].parse(raw)
            except ValueError:
                wrong = f"{where} must be {SETTINGS[key].expected()}, not {raw!r}"
                choices = SETTINGS[key].metadata["choices"] or ()
                close = nearest(str(raw), choices) if choices else ""
                raise UserError(wrong + (close if "did you mean" in close else "")) from None
            names[key] = where
        if "augment.policy" in layer.values and chosen["augment.policy"] and "augment.strategy" not in layer.values:
            chosen["augment.strategy"] = "policy"  # to name a policy is to choose it
    config = unflatten({**TASK_DEFAULTS.get(chosen.get("task", ""), {}), **chosen})
    _check_together(config, names)
    return config


def _check_together(config: Config, names: Mapping[str, str]) -> None:
    """What no single setting can tell."""
    for key, where in names.items():
        if key in SEGMENTATION_ONLY and config.task != "segmentation" and attrgetter(key)(config) != default(key):
            raise UserError(f"{where} is for segmentation; leave it out, or add --task segmentation")
    steps = config.optim.milestones
    where = names.get("optim.milestones", "optim.milestones")
    if list(steps) != sorted(set(steps)):
        raise UserError(f"{where} must rise, such as 90,180,240, not {','.join(map(str, steps))}")
    if steps and steps[-1] >= config.train.epochs:
        raise UserError(f"{where} must end before the last epoch ({config.train.epochs}), not at {steps[-1]}")
    strategy, policy = config.augment.strategy, config.augment.policy
    if strategy == "policy" and policy is None:
        where = names.get("augment.strategy", "augment.strategy")
        raise UserError(f"{where} policy needs a policy: --policy FILE, such as policy.safetensors of an earlier run")
    if strategy != "policy" and policy is not None:
        where = names["augment.policy"]
        raise UserError(f"{where} {policy} is not used with the strategy {strategy}; leave one of the two out")
    if config.optim.nesterov and config.optim.momentum == 0:
        where = names.get("optim.momentum", "optim.momentum")
        raise UserError(f"{where} must be above 0 with Nesterov's momentum; or set optim.nesterov to false")
    augment = config.augment
    if augment.strategy == "policy-file" and augment.policy_file is None:
        raise UserError(
            "--strategy policy-file needs --augment.policy_file FILE; docs/strategies.md says what it may be"
        )
    if augment.mix != "none" and config.task != "classification":
        where = names.get("augment.mix", "augment.mix")
        raise UserError(f"{where} mixes the labels of whole images: there are none in the task {config.task}")
    if augment.strategy.startswith("consistency-") and config.task != "classification":
        raise UserError(f"--strategy {augment.strategy} is for classification, not for the task {config.task}")


def read_yaml(path: str | Path) -> Layer:
    """The settings in a YAML file, nested in sections or written as ``optim.lr``."""
    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not a YAML text"
        raise UserError(f"{path}{line}: {problem}; a configuration is YAML such as 'train: {{epochs: 10}}'") from None
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise UserError(f"{path} must hold settings such as 'train: {{epochs: 10}}', not a {type(tree).__name__}")
    values = flatten(tree, str(path))
    return Layer(values, {key: f"{path}: {key}" for key in values})


def flatten(tree: Mapping[Any, Any], where: str, prefix: str = "") -> dict[str, Any]:
    """Nested sections as ``section.field`` keys."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in SECTIONS and not isinstance(value, dict):
            raise UserError(f"{where}: {key} is a section; write '{key}:' and its settings indented below it")
        if isinstance(value, dict) and key not in SETTINGS:
            if key not in SECTIONS:
                raise UserError(f"{where}: {key} is not a section{nearest(key, SECTIONS)}")
            flat.update(flatten(value, where, f"{key}."))
        else:
            flat[key] = value
    return flat


def unflatten(values: Mapping[str, Any]) -> Config:
    """The configuration with these values, everything else at its default."""
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    top: dict[str, Any] = {}
    for key, value in values.items():
        section, dot, name = key.partition(".")
        (sections[section] if dot else top)[name if dot else section] = value
    kinds = typing.get_type_hints(Config)
    return Config(**top, **{name: kinds[name](**inner) for name, inner in sections.items()})


def to_dict(config: Config) -> dict[str, Any]:
    """Plain nested dictionaries, lists and numbers, for YAML and checkpoints."""
    tree = dataclasses.asdict(config)
    tree["optim"]["milestones"] = list(tree["optim"]["milestones"])
    return tree


def to_yaml(config: Config) -> str:
    return yaml.safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)


def from_dict(tree: Mapping[str, Any], where: str) -> Config:
    values = flatten(tree, where)
    return resolve(Layer(values, {key: f"{where}: {key}" for key in values}))


def changes(before: Config, after: Config) -> list[str]:
    """The settings that differ and may not differ in a resumed run, as ``optim.lr: 0.1 -> 0.2``."""
    old, new = flatten(to_dict(before), ""), flatten(to_dict(after), "")
    return [f"{key}: {old[key]} -> {new[key]}" for key in old if old[key] != new[key] and key not in MAY_CHANGE]
