"""Boxes with classes: the detector's own losses, and average precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from teachaugment import data
from teachaugment.augment import fixed
from teachaugment.batch import NO_BOX, Batch
from teachaugment.config.sections import Config
from teachaugment.data.boxes import fit
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.models.detection import Losses
from teachaugment.show.pictures import Picture
from teachaugment.tasks.detection import overlay
from teachaugment.tasks.detection.meter import DetectionMeter, boxes_of
from teachaugment.tasks.detection.prediction import BoxPrediction
from teachaugment.tasks.detection.recall import BoxRecall, recall_of_boxes
from teachaugment.tasks.reading import reading
from teachaugment.tasks.segmentation.overlay import legend, palette
from teachaugment.tasks.task import Network, Task


class Detection(Task):
    """Flip and zoom, then the strategy, then shift and normalise; boxes follow all of it.

    The augmenter has no context: an image has many classes. Its objective takes the sum of the detector's losses, on
    the target with a class part that does not saturate, where the detector has one.
    """

    metric = "map"
    fixed_size = False
    shows_predictions = True
    pool, observed = 1, 64

    def __init__(self, dataset: DataSet, *, flip: bool = True, crop: int = 0, area: float = 1.0):
        super().__init__(dataset)
        self.size = dataset.size
        self.flip, self.crop, self.area = flip, crop, area
        self.colors = dataset.colors or palette(len(self.classes))

    @classmethod
    def load_data(cls, config: Config, training: bool = True) -> DataSet:
        return data.load(config.data.path, reading(config), data.BOXES)

    @classmethod
    def other_size(cls, height: int, width: int) -> int:
        return max(height, width)

    @classmethod
    def from_config(cls, config: Config, dataset: DataSet) -> Detection:
        a = config.augment
        return cls(dataset, flip=a.flip, crop=a.crop, area=a.area)

    def teaching(self, config: Config) -> dict[str, Any]:
        if config.teach.objective == "pointaugment":
            raise UserError("teach.objective pointaugment compares the classes of whole images; detection has none")
        hard = config.teach.non_saturating
        return {
            "forward": self.frozen_forward,
            "loss": lambda losses, boxes: losses.minimised,
            "target_loss": lambda losses, boxes: losses.maximised if hard else losses.minimised,
            "mastery": BoxRecall(len(self.classes)),
        }

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        batch = batch.replace(label=None)  # the boxes are all that is learned here
        batch = fixed.flip(batch, generator) if self.flip else batch
        return fixed.zoom(batch, self.area, generator) if self.area < 1 else batch

    def after(self, batch: Batch, generator: torch.Generator) -> Batch:
        return super().after(fixed.crop(batch, self.crop, generator) if self.crop else batch, generator)

    def forward(self, network: Network, seen: Batch) -> Losses:
        return network(seen.image, boxes_of(seen))

    def frozen_forward(self, network: Network, seen: Batch) -> Any:
        """The same in the augmenter's update. A detector in eval mode, as the governor calls it, says what it finds."""
        if isinstance(network, nn.Module) and not network.training:
            return self.predict(network, seen.image)
        return self.forward(network, seen)

    def loss(self, output: Losses, seen: Batch) -> Tensor:
        return output.minimised

    def predict(self, model: Network, image: Tensor) -> Tensor:
        """What is found in images of any size, in their own pixels: they are fitted into the size of the training."""
        height, width = image.shape[-2:]
        black = self.normalize(torch.zeros_like(image[:1, :, :1, :1]))
        made, scale = fit(image, self.size, black)
        found = model(made)
        if scale == 1:
            return found
        limit = found.new_tensor([width, height, width, height])
        return torch.cat([torch.minimum(found[..., :4] / scale, limit), found[..., 4:]], -1)

    def meter(self, device: torch.device) -> DetectionMeter:
        return DetectionMeter(len(self.classes), device)

    def examples(self, batch: Batch) -> Batch:
        return batch.replace(label=None)

    def captions(self, batch: Batch) -> list[str]:
        return [overlay.classes_in(rows, self.classes) for rows in boxes_of(batch)]

    def paint(self, batch: Batch) -> Tensor:
        return overlay.drawn(batch.image, boxes_of(batch), self.colors)

    def comparison(self, originals: Batch, made: Sequence[Batch]) -> Picture:
        return legend(super().comparison(originals, made), self.classes, self.colors)

    def prediction_picture(self, batch: Batch, outputs: Sequence[Any]) -> Picture:
        return overlay.predictions(batch, torch.cat(list(outputs)), self.classes, self.colors)

    def count_right(self, output: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        """How many of the true boxes are found."""
        right, seen = recall_of_boxes(output, boxes_of(batch), len(self.classes))
        return right.sum(), seen.sum()

    def predictions(self, output: Tensor) -> list[BoxPrediction]:
        rows = [found[found[:, 5] != NO_BOX].cpu() for found in output.float()]
        return [BoxPrediction(own[:, :4], own[:, 4], own[:, 5].long(), self.classes) for own in rows]

    def probabilities(self, output: Tensor) -> Tensor:
        """What was found, as it is: a deployed network gives boxes."""
        return output

    @classmethod
    def describe(cls, result: Mapping[str, Any], images: str = "test images") -> str:
        return (
            f"{100 * result['map']:5.1f} % mAP on {result['images']:,} {images}, {100 * result['map_50']:.1f} % at "
            f"an overlap of 0.5, {100 * result['recall']:.1f} % of {result['boxes']:,} boxes found"
        )
