"""One class per image: cross-entropy, accuracy and calibration, and the fixed augmentation of the paper's baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from teachaugment import data, models
from teachaugment.augment import fixed
from teachaugment.augment.mixing import mix_images
from teachaugment.batch import Batch
from teachaugment.config.sections import Config
from teachaugment.data.files import image_files
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.tasks.classification.meter import ClassificationMeter, labels
from teachaugment.tasks.classification.prediction import ClassPrediction
from teachaugment.tasks.reading import reading
from teachaugment.tasks.task import Task


class Classification(Task):
    """Flip, colour jitter and lighting, then the strategy, then crop, normalise and Cutout, then Mixup or CutMix.

    The crop comes after the strategy, so that its black padding never passes through the colour augmentation and
    needs no guess about which black pixels are padding.
    """

    metric = "accuracy"
    counts_images = True
    shown = ("loss", "accuracy")

    def __init__(
        self,
        dataset: DataSet,
        *,
        area: float = 1.0,
        flip: bool = True,
        crop: int = 4,
        cutout: int = 0,
        jitter: float = 0.0,
        lighting: float = 0.0,
        mix: str = "none",
        mix_alpha: float = 1.0,
        label_smoothing: float = 0.0,
    ):
        if lighting and dataset.channels != 3:
            raise UserError(f"augment.lighting needs images of 3 channels; {dataset.name} has {dataset.channels}")
        super().__init__(dataset)
        self.area = 1.0 if dataset.train.cropped else area
        self.flip, self.crop, self.cutout = flip, crop, cutout
        self.jitter, self.lighting = jitter, lighting
        self.mix, self.mix_alpha = mix, mix_alpha
        self.label_smoothing = label_smoothing

    @classmethod
    def load_data(cls, config: Config, training: bool = True) -> DataSet:
        area = config.augment.area if training else 1.0
        return data.load(config.data.path, reading(config, area=area, partial=not training), data.CLASSES)

    @classmethod
    def settle(cls, config: Config) -> Config:
        """Images are read as those that the weights have learned from; data in memory have a size of their own."""
        m, d = config.model, config.data
        known = models.pretraining(m.name) if m.pretrained or m.weights else None
        if known is None:
            return config
        changed: dict[str, Any] = {} if d.mean else {"mean": known.mean, "std": known.std}
        key = data.find(d.path, data.CLASSES, d.root is not None)
        if key is not None and data.CLASSES[key].streams:
            own = {"size": known.size, "centre": known.centre, "interpolation": known.interpolation}
            changed |= {name: value for name, value in own.items() if getattr(d, name) is None}
        return replace(config, data=replace(d, **changed))

    @classmethod
    def from_config(cls, config: Config, dataset: DataSet) -> Classification:
        a = config.augment
        names = ("area", "flip", "crop", "cutout", "jitter", "lighting", "mix", "mix_alpha")
        own = {name: getattr(a, name) for name in names}
        return cls(dataset, **own, label_smoothing=config.optim.label_smoothing)

    def teaching(self, config: Config) -> dict[str, Any]:
        return {"num_classes": len(self.classes)}

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        batch = batch.replace(mask=None)  # the class is all that is learned here
        if self.area < 1:
            batch = batch.replace(image=fixed.resized_crop(batch.image, self.area, generator))
        if self.flip:
            batch = fixed.flip(batch, generator)
        if self.jitter:
            batch = batch.replace(image=fixed.color_jitter(batch.image, self.jitter, generator))
        if self.lighting:
            batch = batch.replace(image=fixed.lighting(batch.image, self.lighting, generator))
        return batch

    def after(self, batch: Batch, generator: torch.Generator) -> Batch:
        if self.crop:
            batch = fixed.crop(batch, self.crop, generator)
        image = self.normalize(batch.image)
        if self.cutout:  # zero after normalising: the mean colour
            image = fixed.cutout(image, self.cutout, generator)
        seen = batch.replace(image=image)
        if self.mix == "none":
            return seen
        return mix_images(self.mix, seen, len(self.classes), self.mix_alpha, generator)

    def loss(self, output: Tensor, seen: Batch) -> Tensor:
        return F.cross_entropy(output.float(), labels(seen), label_smoothing=self.label_smoothing)

    def meter(self, device: torch.device) -> ClassificationMeter:
        return ClassificationMeter(len(self.classes), device)

    def answers(self, output: Tensor) -> Tensor:
        return output.float().softmax(1)

    def count_right(self, output: Tensor, batch: Batch) -> tuple[Tensor, Tensor] | None:
        if batch.label is None or batch.label.is_floating_point():
            return None
        right = output.argmax(1) == batch.label
        return right.sum(), torch.ones_like(right).sum()

    def predictions(self, output: Tensor) -> list[ClassPrediction]:
        return [ClassPrediction(each, self.classes) for each in self.answers(output).cpu()]

    def find_images(self, folder: Path) -> tuple[list[str], list[str | None]]:
        """An image in a folder with the name of a class is of that class."""
        found, known = image_files(folder), set(self.classes)
        return found, [next((part for part in Path(file).parts[:-1] if part in known), None) for file in found]

    @classmethod
    def describe(cls, result: Mapping[str, Any], images: str = "test images") -> str:
        return (
            f"{100 * result['accuracy']:5.1f} % of {result['images']:,} {images}, loss {result['loss']:.3f}, "
            f"top-5 {100 * result['top5']:.1f} %, calibration error {100 * result['calibration_error']:.1f} %"
        )
