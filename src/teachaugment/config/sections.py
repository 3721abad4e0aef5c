"""The sections of a configuration, every setting with its default, its help and the values it may take."""

from __future__ import annotations

from dataclasses import dataclass, field

from teachaugment import data, strategies, tasks
from teachaugment.augment import AUGMENTERS
from teachaugment.config.settings import setting
from teachaugment.hyperparameters import CHOICES, Hyperparameters
from teachaugment.objectives import OBJECTIVES
from teachaugment.strategies import STRATEGIES
from teachaugment.tasks import HELD_OUT, TASKS

_OURS = Hyperparameters(augmenter="neural")  # whose defaults are the settings'


@dataclass(frozen=True)
class DataConfig:
    path: str = setting(
        "shapes",
        f"the images: {', '.join(data.ways_to_name())}",
        flag="data",
    )
    root: str | None = setting(
        None, "where cifar10, cifar100, imagenet, cityscapes and hf: data are kept; none: ~/.cache/teachaugment"
    )
    size: int | None = setting(
        None,
        "side of the square images; none: their own if all are of one size up to 64, otherwise 224, with pretrained "
        "weights the network's",
        low=8,
    )
    fit: str = setting(
        "crop", "image files of other proportions: keep the middle, squash all of it, or pad it", choices=data.FITS
    )
    mean: tuple[float, ...] = setting(
        (), "mean of each channel in [0, 1]; empty: measured, with pretrained weights the network's"
    )
    std: tuple[float, ...] = setting((), "standard deviation of each channel, likewise", above=0)
    centre: float | None = setting(
        None, "share of the shorter side that is kept; none: 1, with pretrained weights the network's", above=0, high=1
    )
    interpolation: str | None = setting(
        None,
        "how images are resized; none: bicubic, with pretrained weights as the network's were",
        choices=data.INTERPOLATIONS,
    )
    split_seed: int | None = setting(
        0, "decides which images are set apart for testing and validation, whatever the seed; none: the seed", low=0
    )
    per_class: int | None = setting(None, "use only the first N training images of each class", low=1)
    val_fraction: float = setting(
        0.0,
        f"part of the training split held out for validation; of a folder without a validation split {HELD_OUT:g}",
        flag="val-fraction",
        low=0,
        below=1,
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
    images: str | None = setting(
        None, "segmentation: which files of the folder are images, such as photos/*.jpg; none: by names of folders"
    )
    masks: str | None = setting(
        None, "segmentation: which file is the mask of an image, such as photos/*_mask.png with the same * as there"
    )
    ignore: int | None = setting(
        None, "segmentation: a value of masks that counts for nothing, as 255 does", low=0, high=255
    )


@dataclass(frozen=True)
class ModelConfig:
    name: str = setting(
        "cnn-4",
        "the network to train; see teachaugment models; of a folder of images over 64 pixels torchvision/resnet18",
        flag="model",
    )
    pretrained: bool = setting(
        False,
        "begin with the pretrained weights of the network, for segmentation of its backbone, which are downloaded",
        flag="pretrained",
    )
    weights: str | None = setting(
        None,
        "begin with the weights in this file, .safetensors or .pth; a head for other classes is new",
        flag="weights",
    )
    dropout: float | None = setting(
        None, "networks of timm: dropout before the classifier; none: the network's own", low=0, below=1
    )
    drop_path: float | None = setting(
        None, "networks of timm: stochastic depth, the share of paths left out; none: the network's own", low=0, below=1
    )


@dataclass(frozen=True)
class OptimConfig:
    name: str = setting("sgd", "the optimiser of the target", choices=("sgd", "adamw"))
    lr: float = setting(0.1, "peak learning rate of the target", flag="lr", above=0)
    momentum: float = setting(0.9, "momentum of SGD", low=0, below=1)
    nesterov: bool = setting(True, "Nesterov's momentum")
    betas: tuple[float, ...] = setting((0.9, 0.999), "AdamW: decay of its two averages", low=0, below=1)
    weight_decay: float = setting(5e-4, "weight decay of the weights; of all else see optim.decay_norms", low=0)
    decay_norms: bool = setting(False, "weight decay on biases and normalisation layers too")
    layer_decay: float = setting(
        1.0, "factor of the learning rate from each layer to the one before it; 1: all learn alike", above=0, high=1
    )
    backbone_lr: float = setting(1.0, "factor of the learning rate of all but the head", above=0, high=1)
    freeze: int = setting(
        0, "epochs in which pretrained weights, all but the head, stay as they are; -1: for good", flag="freeze", low=-1
    )
    freeze_norm: bool = setting(False, "batch norm stays as the pretrained weights have it")
    label_smoothing: float = setting(0.0, "label smoothing of the target's own loss", low=0, below=1)
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
    compile: bool = setting(False, "compile both updates with torch.compile", flag="compile")
    eval_every: int = setting(5, "epochs between two evaluations", flag="eval-every", low=1)
    patience: int | None = setting(
        None, "end after this many evaluations without a better one on the validation split", flag="patience", low=1
    )
    window: int | None = setting(
        None, "segmentation: side of the sliding window in evaluations; none: whole images", low=8
    )
    on_nan: str = setting(
        "stop", "what to do about a loss or a gradient that is not finite", flag="on-nan", choices=("stop", "skip")
    )
    save_every: int = setting(1, "epochs between two checkpoints", low=1)
    save_minutes: float = setting(10.0, "minutes between two checkpoints within an epoch; 0: none", low=0)
    tensorboard: bool = setting(True, "write TensorBoard scalars and image grids")


@dataclass(frozen=True)
class AugmentConfig:
    strategy: str = setting(
        strategies.DEFAULT,
        "what is done to a training image besides flip, crop and cutout",
        flag="strategy",
        choices=STRATEGIES,
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
    area: float = setting(
        1.0, "least share of an image that a random crop, enlarged again, shows; 1: off", above=0, high=1
    )
    flip: bool = setting(True, "mirror half of the images")
    crop: int = setting(4, "random crop after zero padding of this many pixels; 0: off", low=0)
    cutout: int = setting(0, "side of the Cutout square in pixels; 0: off", low=0)
    jitter: float = setting(0.0, "colour jitter: brightness, contrast and saturation by 1 ± this", low=0, high=1)
    lighting: float = setting(0.0, "standard deviation of noise along ImageNet's principal colours", low=0)


@dataclass(frozen=True)
class ViewsConfig:
    """How the self-supervised tasks make two views of an image, and what they build on the network."""

    area: float = setting(0.2, "least share of an image that a view shows; 1: all of it", above=0, high=1)
    jitter: float = setting(
        0.4, "colour jitter of a view: brightness, contrast, saturation by 1 ± this, hue by a quarter", low=0, high=1
    )
    grey: float = setting(0.2, "share of the views without colour", low=0, high=1)
    blur: float = setting(0.5, "share of the views that are blurred", low=0, high=1)
    layers: int = setting(3, "layers of the projector", low=2)
    dim: int = setting(2048, "outputs of projector and predictor", low=1)
    hidden: int = setting(512, "hidden units of the predictor", low=1)
    fixed_lr: bool = setting(False, "keep the predictor's learning rate at its peak")
    momentum: float = setting(0.99, "decay of the average that BYOL and MoCo compare with", low=0, below=1)
    queue: int = setting(4096, "MoCo: earlier images kept as negatives", low=1)
    temperature: float = setting(0.2, "MoCo: temperature of its loss", above=0)


@dataclass(frozen=True)
class TeachConfig:
    objective: str = setting(
        "teachaugment",
        "what the augmenter maximises",
        choices=OBJECTIVES,
    )
    augmenter: str = setting(
        _OURS.augmenter,
        "what learns to augment",
        choices=AUGMENTERS,
    )
    governed: bool = setting(False, "bound its strength by what the target masters, as adaptive does")
    begin: float = setting(
        0.0, "share of the training after which learned augmentation begins: first a new head is fitted", low=0, below=1
    )
    n_inner: int = setting(_OURS.n_inner, "target steps for each step of the augmenter", low=1)
    fraction: float = setting(_OURS.fraction, "share of a batch on which the augmenter is updated", above=0, high=1)
    n_buffer: int | None = setting(
        None, "epochs between two snapshots for the replay; none: a twentieth of the training", low=1
    )
    smoothing: float = setting(_OURS.smoothing, "label smoothing of the target's term", low=0, below=1)
    color_weight: float = setting(_OURS.color_weight, "weight of the colour distance; 0: off", low=0)
    color_space: str = setting(
        _OURS.color_space,
        "the colours whose distance is measured: as the network sees them, or in [0, 1]",
        choices=CHOICES["color_space"],
    )
    replay: bool = setting(True, "train the target with earlier augmenters too")
    replay_decay: float = setting(
        _OURS.replay_decay, "priority of a snapshot against the next newer one", above=0, high=1
    )
    fresh_batch: bool = setting(
        False, "update the augmenter on a batch drawn for it alone, as in Algorithm 1, not on the target's last one"
    )
    group: int = setting(_OURS.group, "images that share one draw from the replay and the kept hidden units", low=1)
    context: str = setting(
        _OURS.context, "how the augmenter knows an image's class; none: not at all", choices=CHOICES["context"]
    )
    scale_width: float = setting(_OURS.scale_width, "search range of the colours' factors: 1 ± half of this", low=0)
    shift_width: float = setting(_OURS.shift_width, "search range of the colours' shifts: ± half of this", low=0)
    affine_width: float = setting(_OURS.affine_width, "search range of the affine matrix: ± half of this", low=0)
    noise: int = setting(_OURS.noise, "numbers in the noise that the augmenter draws from", low=1)
    dropout: float = setting(_OURS.dropout, "share of the augmenter's hidden units left out", low=0, below=1)
    temperature: float = setting(_OURS.temperature, "of the relaxed draws of colour and geometry", above=0)
    normalizer: str = setting(
        _OURS.normalizer, "the augmenter's networks with normalised hidden layers", choices=CHOICES["normalizer"]
    )
    non_saturating: bool = setting(_OURS.non_saturating, "non-saturating loss in the target's term")
    teacher: str | None = setting(
        None, "a run, a checkpoint or a pretrained network as the teacher; none: the moving average", flag="teacher"
    )
    ema_decay: float = setting(_OURS.ema_decay, "decay of the teacher's moving average", low=0, below=1)
    ema_warmup: int = setting(
        _OURS.ema_warmup, "the decay rises as (1 + t) / (this + t), t counting steps; 1: no warm-up", low=1
    )
    teacher_statistics: str = setting(
        _OURS.teacher_statistics, "what the averaged teacher's batch norm uses", choices=CHOICES["teacher_statistics"]
    )
    lr: float = setting(_OURS.lr, "learning rate of the augmenter", above=0)
    weight_decay: float = setting(_OURS.weight_decay, "weight decay of the augmenter", low=0)


@dataclass(frozen=True)
class Config:
    task: str = setting(tasks.DEFAULT, "what is learned", flag="task", choices=TASKS)
    seed: int = setting(0, "all randomness follows from this number", flag="seed", low=0)
    output: str | None = setting(None, "the run directory, new or empty; none: a fresh one under runs/", flag="output")
    device: str = setting("auto", "cpu, cuda, cuda:1, mps, …; auto: the accelerator if there is one", flag="device")
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    views: ViewsConfig = field(default_factory=ViewsConfig)
    teach: TeachConfig = field(default_factory=TeachConfig)
