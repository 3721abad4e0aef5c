"""The strategies that are not learned, by name, and the fixed augmentation that three of the names stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from teachaugment.batch import Batch
from teachaugment.config.sections import AugmentConfig
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.policy.policy import load_policy
from teachaugment.strategies import policy_files
from teachaugment.strategies.consistency import DISTANCES
from teachaugment.strategies.published import PUBLISHED, PerImage, published
from teachaugment.strategies.searched import OnSchedule, searched
from teachaugment.tasks import Augment, Scheduled

SMALL = 64  # pixels a side: up to here AutoAugment's policy is that of CIFAR-10


def unchanged(batch: Batch) -> Batch:
    return batch


class OnEachView:
    """A strategy for images as one for batches of two views, each drawn for itself."""

    def __init__(self, strategy: Augment) -> None:
        self.strategy = strategy

    def __call__(self, batch: Batch) -> Batch:
        return batch.with_views([self.strategy(view) for view in batch.each_view()])

    def at(self, progress: float) -> None:
        if isinstance(self.strategy, Scheduled):
            self.strategy.at(progress)


def from_torchvision(name: str, settings: AugmentConfig, dataset: DataSet) -> Augment:
    _one_or_three(name, dataset)
    return PerImage(published(name, settings.num_ops, settings.magnitude))


def autoaugment(settings: AugmentConfig, dataset: DataSet) -> Augment:
    """The policy that was found on images of this kind."""
    found = "cifar10" if max(dataset.size) <= SMALL else "imagenet"
    return from_torchvision(f"autoaugment-{found}", settings, dataset)


def policy_file(settings: AugmentConfig, dataset: DataSet) -> Augment:
    _one_or_three("policy-file", dataset)
    policy = policy_files.read(settings.policy_file or "")
    if isinstance(policy, policy_files.Schedule):
        return OnSchedule(policy, dataset.channels)
    return PerImage(searched(policy, dataset.channels))


def learned(settings: AugmentConfig, dataset: DataSet) -> Augment:
    """A policy of an earlier run. Classes are matched by name; for one that it does not know, it draws one."""
    try:
        policy = load_policy(settings.policy or "", classes=dataset.classes)
    except UserError as error:
        raise UserError(f"--policy: {error}") from None
    if (channels := policy.augmenter.settings.channels) != dataset.channels:
        raise UserError(
            f"--policy {settings.policy} was learned on images of {channels} channel(s); "
            f"those of {dataset.name} have {dataset.channels}"
        )
    return policy


def _one_or_three(name: str, dataset: DataSet) -> None:
    if dataset.channels not in (1, 3):
        raise UserError(f"--strategy {name} needs images of 1 or 3 channels; {dataset.name} has {dataset.channels}")


PLAIN = ("none", "unaugmented", "crop-flip", "cutout", *DISTANCES)  # nothing besides the fixed augmentation
STRATEGIES: dict[str, Callable[[AugmentConfig, DataSet], Augment]] = {
    **dict.fromkeys(PLAIN, lambda settings, dataset: unchanged),
    **{name: partial(from_torchvision, name) for name in PUBLISHED},
    "autoaugment": autoaugment,
    "policy-file": policy_file,
    "policy": learned,
}


def fixed_augmentation(settings: AugmentConfig, dataset: DataSet) -> tuple[AugmentConfig, DataSet]:
    """The settings as ``unaugmented``, ``crop-flip`` and ``cutout`` mean them; every other strategy keeps them.

    Sizes that are set stay. Where one is 0, it is that of CIFAR in proportion: a crop of 4 and a square of 16 in 32
    pixels. Images of which random parts are shown anyway are not cropped again.
    """
    train, side = dataset.train, min(dataset.size)
    if settings.strategy == "unaugmented":
        dataset = replace(dataset, train=train.whole())
        return replace(settings, flip=False, area=1.0, crop=0, cutout=0, jitter=0.0, lighting=0.0), dataset
    if settings.strategy not in ("crop-flip", "cutout"):
        return settings, dataset
    resized = train.cropped or settings.area < 1
    crop = settings.crop or (0 if resized else max(1, side // 8))
    cutout = (settings.cutout or side // 2) if settings.strategy == "cutout" else 0
    return replace(settings, flip=True, crop=crop, cutout=cutout), dataset
