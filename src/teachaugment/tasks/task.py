"""What a task must say so that one training loop, one report and one set of commands serve them all.

A task is a subclass of ``Task`` and a line in the table of ``tasks/__init__.py``. One training step asks it, in this
order, for ``before`` (fixed augmentation), then, after the strategy, for ``after`` (what the network sees), ``forward``
and ``loss``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from teachaugment import models
from teachaugment.batch import Batch
from teachaugment.config.sections import Config
from teachaugment.data.files import image_files
from teachaugment.data.splits import DataSet
from teachaugment.losses import main_head
from teachaugment.models.backbone import backbone
from teachaugment.show import pictures
from teachaugment.show.pictures import Picture
from teachaugment.tasks.normalize import Normalize
from teachaugment.tasks.prediction import Prediction

Network = Callable[..., Any]


class Meter(Protocol):
    """Metrics that grow batch by batch on the device; only ``compute`` waits for it.

    Its tensors are sums over the images: those of several processes are added up to the metrics of all images.
    """

    def update(self, output: Any, batch: Batch, loss: Tensor | None = None) -> None: ...

    def compute(self) -> dict[str, Any]: ...


@runtime_checkable
class GatheringMeter(Protocol):
    """Metrics that are no sums: before they are computed, what several processes have kept is brought together."""

    def gather(self) -> None: ...


class ReferringMeter(Meter, Protocol):
    """Metrics that compare with images it was shown before."""

    def refer(self, output: Any, batch: Batch) -> None: ...


class Task:
    """One kind of learning: its data, its network, its losses and metrics, its pictures and words."""

    metric: ClassVar[str]  # the name in a meter's result that says how good a model is; higher is better
    counts_images: ClassVar[bool] = False  # it is the share of images that are right, whose chance is known
    shown: ClassVar[tuple[str, ...]] = ("loss",)  # the numbers of a training epoch that a person wants to see
    refers: ClassVar[bool] = False  # its metrics compare with the training split, to which a meter must ``refer`` first
    predicts_pictures: ClassVar[bool] = False  # what it predicts for an image is a picture itself
    shows_predictions: ClassVar[bool] = False  # predictions can be shown over their images
    fixed_size: ClassVar[bool] = True  # a trained network takes images of one size only
    pool: ClassVar[int] = 16  # images from which each one of a picture is chosen
    observed: ClassVar[int] = 256  # training images that a report looks at

    def __init__(self, dataset: DataSet) -> None:
        self.classes = list(dataset.classes)
        self.normalize = Normalize(dataset.mean, dataset.std)

    # --- from settings -------------------------------------------------------------------------------------------

    @classmethod
    def load_data(cls, config: Config, training: bool = True) -> DataSet:
        """The data set that ``config.data`` names; only for ``training`` are its images cropped at random."""
        raise NotImplementedError

    @classmethod
    def settle(cls, config: Config) -> Config:
        """The settings of a new run with what follows from the network's pretraining, where nobody said otherwise."""
        return config

    @classmethod
    def other_size(cls, height: int, width: int) -> int | None:
        """The setting ``data.size`` with which a network trained on this size is evaluated on other data."""
        return height if height == width and cls.fixed_size else None

    @classmethod
    def from_config(cls, config: Config, dataset: DataSet) -> Task:
        raise NotImplementedError

    def network(self, config: Config, dataset: DataSet, begin: bool = False) -> nn.Module:
        """The network to train: with new weights, or to ``begin`` a training with those that the settings name."""
        model, classes = config.model, len(self.classes)
        regularization = (model.dropout, model.drop_path)
        shape = (dataset.channels, dataset.size)
        network = models.create(model.name, classes, *shape, begin and model.pretrained, *regularization)
        if begin and model.weights is not None:
            models.load_weights(network, model.weights, model.name)
        return network

    def constant_rate(self, config: Config, target: nn.Module) -> Iterable[nn.Parameter]:
        """Parameters whose learning rate stays at its peak."""
        return ()

    def teaching(self, config: Config) -> dict[str, Any]:
        """What ``TeachAugment`` is told about this task: its context, its losses, how many views there are."""
        return {}

    # --- one training step ---------------------------------------------------------------------------------------

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Fixed augmentation ahead of the strategy. The augmenter's own step sees its result too."""
        raise NotImplementedError

    def after(self, batch: Batch, generator: torch.Generator) -> Batch:
        """From the strategy's images to what the network sees."""
        return batch.replace(image=self.normalize(batch.image))

    def forward(self, network: Network, seen: Batch) -> Any:
        return network(seen.image)

    def loss(self, output: Any, seen: Batch) -> Tensor:
        raise NotImplementedError

    def begin(self, target: nn.Module) -> None:
        """Called once, before the first step."""

    def update(self, target: nn.Module) -> None:
        """Called after each step of the target."""

    def state_dict(self) -> dict[str, Any]:
        """What the task itself has learned, for an exact resume."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass

    # --- evaluation ----------------------------------------------------------------------------------------------

    def predict(self, model: Network, image: Tensor) -> Any:
        """The model's output for normalised images in an evaluation."""
        return model(image)

    def meter(self, device: torch.device) -> Meter:
        """Fresh metrics."""
        raise NotImplementedError

    def warning(self, metrics: Mapping[str, float]) -> str | None:
        """One line to say, once, when the numbers of a training epoch show that something is wrong."""
        return None

    def features(self, network: nn.Module, name: str) -> tuple[nn.Module, int]:
        """The part of a network that gives features, and how many they are; ``name`` is that of the network."""
        return backbone(network, len(self.classes), name)

    # --- pictures and words --------------------------------------------------------------------------------------

    def examples(self, batch: Batch) -> Batch:
        """A batch as pictures use it: the first images are of as many classes as possible."""
        batch = batch.replace(mask=None)
        return batch if batch.label is None else batch[mixed(batch.label)]

    def captions(self, batch: Batch) -> list[str]:
        """A name for each image."""
        labels = batch.label.tolist() if batch.label is not None else []
        return [self.classes[k] for k in labels] or [""] * len(batch)

    def paint(self, batch: Batch) -> Tensor:
        """Images as they are shown, RGB; there may be several for each."""
        return pictures.rgb(batch.image)

    def comparison(self, originals: Batch, made: Sequence[Batch]) -> Picture:
        """Originals beside augmented versions."""
        return pictures.comparison(
            self.paint(originals), [self.paint(version) for version in made], self.captions(originals)
        )

    def prediction_picture(self, batch: Batch, outputs: Sequence[Any]) -> Picture:
        """Images beside what a model makes of them, part by part of the batch, where it ``shows_predictions``."""
        raise NotImplementedError

    def answers(self, output: Any) -> Tensor | None:
        """The probabilities [B, K] of each image's classes, where an image has one."""
        return None

    def count_right(self, output: Any, batch: Batch) -> tuple[Tensor, Tensor] | None:
        """How many answers are right, and of how many; None without right answers."""
        return None

    # --- use -----------------------------------------------------------------------------------------------------

    def predictions(self, output: Any) -> Sequence[Prediction]:
        """What the output says about each image, unless the task's entry refuses predictions."""
        raise NotImplementedError

    def probabilities(self, output: Any) -> Tensor:
        """The probabilities of the classes, [B, K] or [B, K, H, W], as a deployed network gives them."""
        return main_head(output).float().softmax(1)

    def find_images(self, folder: Path) -> tuple[list[str], list[str | None]]:
        """The images to predict in a folder, as paths below it, and the class of each where the folder says it."""
        found = image_files(folder)
        return found, [None] * len(found)

    @classmethod
    def describe(cls, result: Mapping[str, Any], images: str = "test images") -> str:
        """The metrics of a model on the test split, or on other ``images``, in a line."""
        raise NotImplementedError


def mixed(label: Tensor) -> Tensor:
    """An order of the images in which the first ones are of as many classes as possible."""
    labels, seen, rank = label.tolist(), Counter[int](), []
    for k in labels:
        rank.append(seen[k])
        seen[k] += 1
    return torch.tensor(sorted(range(len(labels)), key=lambda i: (rank[i], labels[i])), device=label.device)
