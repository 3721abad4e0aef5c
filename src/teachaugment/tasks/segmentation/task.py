"""One class per pixel: cross-entropy and intersection over union, pixels of unknown class left out of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from teachaugment import data
from teachaugment.augment import fixed
from teachaugment.batch import IGNORE, Batch
from teachaugment.config.sections import Config
from teachaugment.data.files import image_files
from teachaugment.data.folders import IMAGE_FOLDERS, MASK_FOLDERS, one_of
from teachaugment.data.splits import DataSet
from teachaugment.losses import cross_entropy, highest, main_head
from teachaugment.show.pictures import Picture
from teachaugment.tasks.reading import reading
from teachaugment.tasks.segmentation import overlay
from teachaugment.tasks.segmentation.meter import SegmentationMeter, masks
from teachaugment.tasks.segmentation.prediction import MaskPrediction
from teachaugment.tasks.segmentation.sliding import sliding
from teachaugment.tasks.task import Network, Task

AUXILIARY = 0.4  # weight of an auxiliary head's loss, as in PSPNet


class Segmentation(Task):
    """Flip, then the strategy, then shift and normalise; random scales and crops are made where images are read.

    The augmenter has no context. Its update looks at the main head alone: the auxiliary one serves the training of the
    target's early layers and is thrown away after it, and the teacher, which is in eval mode, has none.
    """

    metric = "miou"
    shown = ("loss", "miou")
    fixed_size = False
    predicts_pictures = shows_predictions = True
    pool, observed = 1, 64

    def __init__(
        self,
        dataset: DataSet,
        *,
        flip: bool = True,
        crop: int = 0,
        window: int | None = None,
        label_smoothing: float = 0.0,
    ):
        super().__init__(dataset)
        self.label_smoothing = label_smoothing
        self.flip, self.crop, self.window = flip, crop, window
        self.colors = dataset.colors or overlay.palette(len(self.classes))

    @classmethod
    def load_data(cls, config: Config, training: bool = True) -> DataSet:
        d = config.data
        own: dict[str, Any] = {name: getattr(d, name) for name in ("crop", "scale", "images", "masks", "ignore")}
        own |= {"whole": not training, "partial": not training}
        return data.load(d.path, reading(config, **own), data.MASKS)

    @classmethod
    def from_config(cls, config: Config, dataset: DataSet) -> Segmentation:
        a = config.augment
        smoothing = config.optim.label_smoothing
        return cls(dataset, flip=a.flip, crop=a.crop, window=config.train.window, label_smoothing=smoothing)

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        batch = batch.replace(label=None)  # the mask is all that is learned here
        return fixed.flip(batch, generator) if self.flip else batch

    def after(self, batch: Batch, generator: torch.Generator) -> Batch:
        return super().after(fixed.crop(batch, self.crop, generator) if self.crop else batch, generator)

    def loss(self, output: Any, seen: Batch) -> Tensor:
        loss = cross_entropy(output, masks(seen), self.label_smoothing)
        if isinstance(output, tuple):
            loss = loss + AUXILIARY * cross_entropy(output[1], masks(seen), self.label_smoothing)
        return loss

    def predict(self, model: Network, image: Tensor) -> Any:
        return model(image) if self.window is None else sliding(model, image, self.window)

    def meter(self, device: torch.device) -> SegmentationMeter:
        return SegmentationMeter(len(self.classes), device)

    def examples(self, batch: Batch) -> Batch:
        return batch.replace(label=None)

    def captions(self, batch: Batch) -> list[str]:
        """The classes in each image; of the two pictures of an image the second one has them."""
        return [name for mask in masks(batch) for name in ("", overlay.classes_in(mask, self.classes))]

    def paint(self, batch: Batch) -> Tensor:
        """Each image, and beside it the same with its mask over it."""
        return overlay.beside(batch, self.colors)

    def comparison(self, originals: Batch, made: Sequence[Batch]) -> Picture:
        return overlay.legend(super().comparison(originals, made), self.classes, self.colors)

    def prediction_picture(self, batch: Batch, outputs: Sequence[Any]) -> Picture:
        choice = torch.cat([highest(main_head(output)) for output in outputs])
        return overlay.predictions(batch, choice, self.classes, self.colors)

    def count_right(self, output: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        """Pixels of unknown class do not count."""
        mask = masks(batch)
        known = mask != IGNORE
        return ((highest(main_head(output)) == mask) & known).sum(), known.sum()

    def predictions(self, output: Any) -> list[MaskPrediction]:
        choice = highest(main_head(output)).to(torch.uint8).cpu()
        return [MaskPrediction(mask, self.classes, self.colors) for mask in choice]

    def find_images(self, folder: Path) -> tuple[list[str], list[str | None]]:
        """Masks beside the images, as a training has them, are no images."""
        found = [file for file in image_files(folder) if not _is_mask(folder, file)]
        return found, [None] * len(found)

    @classmethod
    def describe(cls, result: Mapping[str, Any], images: str = "test images") -> str:
        return (
            f"{100 * result['miou']:5.1f} % mIoU on {result['images']:,} {images}, loss {result['loss']:.3f}, "
            f"pixel accuracy {100 * result['pixel_accuracy']:.1f} %"
        )


def _is_mask(folder: Path, file: str) -> bool:
    """Whether a file below ``folder`` is in a folder for masks with one for images beside it."""
    above = [parent for parent in Path(file).parents if parent.name.lower() in MASK_FOLDERS]
    return any(one_of(folder / parent.parent, IMAGE_FOLDERS) is not None for parent in above)
