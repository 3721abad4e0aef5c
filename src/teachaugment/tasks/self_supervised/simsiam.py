"""Representations without labels: two views of an image must be told to be the same (SimSiam, Chen and He 2021).

Labels are used to measure only: by nearest neighbours, while a network trains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment import data
from teachaugment.augment import fixed
from teachaugment.batch import Batch
from teachaugment.config.sections import Config
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError
from teachaugment.losses import negative_cosine
from teachaugment.models.resnet import zero_last_norms
from teachaugment.models.simsiam import Embedding, SimSiam
from teachaugment.tasks.reading import reading
from teachaugment.tasks.self_supervised import collapse
from teachaugment.tasks.self_supervised.neighbours import NeighbourMeter
from teachaugment.tasks.task import Network, Task

Pair = tuple[Embedding, Embedding]  # of the two views
VIEWS = 2
JITTERED = 0.8  # share of the views whose colours are jittered, as in MoCo v2 and SimSiam


def distance(views: Pair, others: Pair) -> Tensor:
    """The symmetrised negative cosine: the prediction of each view against the projection of the other one."""
    first = negative_cosine(views[0].prediction, others[1].projection)
    return (first + negative_cosine(views[1].prediction, others[0].projection)) / 2


def found_again(outputs: Pair, _: Any) -> Tensor:
    """Mastery without labels: how many images have their other view as their nearest neighbour among all of these."""
    first, second = (F.normalize(output.projection.float(), dim=1) for output in outputs)
    nearest = (first @ second.mT).argmax(1)
    right = (nearest == torch.arange(len(nearest), device=nearest.device)).sum()
    return torch.stack([right, torch.full_like(right, len(nearest))]).to(torch.float32)[:, None]


class SelfSupervised(Task):
    """SimSiam: two random views, the strategy on each of them, and the loss between them.

    area:     least share of an image that a view shows.
    jitter:   brightness, contrast and saturation by 1 ± this, hue by a quarter of it, of most views.
    grey:     share of the views without colour.
    blur:     share of the views that are blurred.
    """

    metric = "knn"
    counts_images = True
    shown = ("loss", "spread", "rank")
    refers = True
    zero_init = True  # residual blocks begin as their shortcuts, as in SimSiam's and BYOL's code

    def __init__(
        self,
        dataset: DataSet,
        *,
        flip: bool = True,
        area: float = 0.2,
        jitter: float = 0.4,
        grey: float = 0.2,
        blur: float = 0.5,
    ):
        super().__init__(dataset)
        self.flip, self.area, self.jitter, self.grey, self.blur = flip, area, jitter, grey, blur

    # --- from settings -------------------------------------------------------------------------------------------

    @classmethod
    def load_data(cls, config: Config, training: bool = True) -> DataSet:
        crops = {"area": config.views.area, "views": VIEWS} if training else {}
        return data.load(config.data.path, reading(config, partial=not training, **crops), data.CLASSES)

    @classmethod
    def from_config(cls, config: Config, dataset: DataSet) -> SelfSupervised:
        a = config.augment
        for name in ("crop", "cutout", "jitter", "lighting"):
            if getattr(a, name):
                raise UserError(
                    f"augment.{name} is not for {config.task}; its views are set by views.area, views.jitter …"
                )
        return cls(dataset, flip=a.flip, **cls.view_settings(config))

    @classmethod
    def view_settings(cls, config: Config) -> dict[str, Any]:
        return {name: getattr(config.views, name) for name in ("area", "jitter", "grey", "blur")}

    def network(self, config: Config, dataset: DataSet, begin: bool = False) -> nn.Module:
        """Without its classifier, and with heads instead."""
        network, v = super().network(config, dataset, begin), config.views
        if self.zero_init:
            zero_last_norms(network)
        features, width = super().features(network, config.model.name)
        return SimSiam(features, width, dim=v.dim, hidden=self.predictor_width(config), layers=v.layers)

    def predictor_width(self, config: Config) -> int:
        return config.views.hidden

    def constant_rate(self, config: Config, target: nn.Module) -> Iterable[nn.Parameter]:
        return target.get_submodule("predictor").parameters() if config.views.fixed_lr else ()

    def teaching(self, config: Config) -> dict[str, Any]:
        """Two augmenters, which maximise how far apart the target finds the views minus how far the teacher does.

        There is no context, and neither the non-saturating loss nor label smoothing applies to a distance. It needs no
        stop-gradient: that protects the target's weights, which do not move here, and would hide half of what an
        augmenter does to the distance.
        """
        if config.teach.teacher:
            raise UserError(f"--teacher is not for {config.task}, whose teacher is the moving average")
        if config.teach.objective == "pointaugment":
            raise UserError(f"teach.objective pointaugment needs classes, and {config.task} has none")
        return {"views": VIEWS, "loss": lambda outputs, _: distance(outputs, outputs), "mastery": found_again}

    # --- one training step ---------------------------------------------------------------------------------------

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Two views of each image. Images that stream from disk come as two crops already."""
        views = (batch.image, *batch.others)
        if len(views) == 1:
            views = tuple(self._crop(batch.image, generator) for _ in range(VIEWS))
        image, *others = (self._colored(view, generator) for view in views)
        return batch.replace(image=image, others=tuple(others), mask=None)

    def _crop(self, image: Tensor, generator: torch.Generator) -> Tensor:
        return fixed.resized_crop(image, self.area, generator) if self.area < 1 else image

    def _colored(self, image: Tensor, generator: torch.Generator) -> Tensor:
        if self.jitter:
            changed = fixed.color_jitter(image, self.jitter, generator, hue=self.jitter / 4)
            image = fixed.sometimes(changed, image, JITTERED, generator)
        if self.grey:
            image = fixed.sometimes(fixed.grey(image), image, self.grey, generator)
        if self.blur:
            image = fixed.blur(image, self.blur, generator)
        return fixed.flip(Batch(image), generator).image if self.flip else image

    def after(self, batch: Batch, generator: torch.Generator) -> Batch:
        return batch.replace(image=self.normalize(batch.image), others=tuple(map(self.normalize, batch.others)))

    def forward(self, network: Network, seen: Batch) -> Any:
        """What the network makes of each view."""
        return tuple(network(view.image) for view in seen.each_view())

    def loss(self, output: Any, seen: Batch) -> Tensor:
        # The projections stand still: without that the network would call all images the same.
        return distance(output, (output[0].detach(), output[1].detach()))

    # --- evaluation ----------------------------------------------------------------------------------------------

    def meter(self, device: torch.device) -> NeighbourMeter:
        return NeighbourMeter(len(self.classes), device)

    def warning(self, metrics: Mapping[str, float]) -> str | None:
        """A line about a network that has collapsed."""
        return collapse.warning(metrics["spread"], metrics["rank"])

    def features(self, network: nn.Module, name: str) -> tuple[nn.Module, int]:
        """The network without its heads."""
        assert isinstance(network, SimSiam)
        return network.backbone, network.features

    @classmethod
    def describe(cls, result: Mapping[str, Any], images: str = "test images") -> str:
        return (
            f"{100 * result['knn']:5.1f} % of {result['images']:,} {images} by nearest neighbours (kNN); spread of "
            f"the outputs {result['spread']:.2f} of 1, effective rank {result['rank']:.1f}"
        )
