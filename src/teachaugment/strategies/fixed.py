"""Strategies that are fixed beforehand, and the fixed augmentation that three names stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from teachaugment.batch import Batch
from teachaugment.config.sections import AugmentConfig
from teachaugment.data.splits import DataSet
from teachaugment.strategies.strategy import Setup, Strategy


class Fixed(Strategy):
    """Nothing besides the task's own augmentation."""

    def __init__(self, setup: Setup | None = None) -> None:
        pass


class EachView(Strategy):
    """A function of single batches, applied to each view for itself."""

    def __init__(self, function: Callable[[Batch], Batch]) -> None:
        self.function = function

    def augment(self, batch: Batch) -> Batch:
        return batch.with_views([self.function(view) for view in batch.each_view()])


def fixed_augmentation(settings: AugmentConfig, dataset: DataSet) -> tuple[AugmentConfig, DataSet]:
    """The settings as ``unaugmented``, ``crop-flip`` and ``cutout`` mean them; every other strategy keeps them.

    Sizes that are set stay, and images that must not be mirrored are not. Where a size is 0, it is that of CIFAR in
    proportion: a crop of 4 and a square of 16 in 32 pixels. Images that are cropped at random while they are decoded
    are not cropped again.
    """
    train, side = dataset.train, min(dataset.size)
    if settings.strategy == "unaugmented":
        plain = replace(settings, area=1.0, flip=False, crop=0, cutout=0, jitter=0.0, lighting=0.0)
        return plain, replace(dataset, train=train.whole())
    if settings.strategy not in ("crop-flip", "cutout"):
        return settings, dataset
    crop = settings.crop or (0 if train.cropped else max(1, side // 8))
    cutout = (settings.cutout or side // 2) if settings.strategy == "cutout" else 0
    return replace(settings, crop=crop, cutout=cutout), dataset
