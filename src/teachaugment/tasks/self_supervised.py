"""Representations without labels: two views of an image must be told to be the same (SimSiam, Chen and He 2021).

Labels are used to measure only: by nearest neighbours, while a network trains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from teachaugment.augment import fixed
from teachaugment.batch import Batch
from teachaugment.losses import negative_cosine
from teachaugment.models.simsiam import Embedding
from teachaugment.tasks import Augment, Stateless, collapse
from teachaugment.tasks.neighbours import NeighbourMeter
from teachaugment.tasks.normalize import Normalize

Pair = tuple[Embedding, Embedding]  # of the two views
JITTERED = 0.8  # share of the views whose colours are jittered, as in MoCo v2 and SimSiam


def distance(views: Pair, others: Pair) -> Tensor:
    """The symmetrised negative cosine: the prediction of each view against the projection of the other one."""
    first = negative_cosine(views[0].prediction, others[1].projection)
    return (first + negative_cosine(views[1].prediction, others[0].projection)) / 2


class SelfSupervised(Stateless):
    """SimSiam: two random views, the strategy on each of them, and the loss between them.

    classes:  their names, to measure with.
    area:     least share of an image that a view shows.
    jitter:   brightness, contrast and saturation by 1 ± this, hue by a quarter of it, of most views.
    grey:     share of the views without colour.
    blur:     share of the views that are blurred.
    """

    metric = "knn"
    shown: tuple[str, ...] = ("loss", "spread", "rank")
    reference = True
    contexts: int | None = None

    def __init__(
        self,
        classes: Sequence[str],
        mean: Sequence[float],
        std: Sequence[float],
        *,
        flip: bool = True,
        area: float = 0.2,
        jitter: float = 0.4,
        grey: float = 0.2,
        blur: float = 0.5,
    ):
        self.classes = list(classes)
        self.normalize = Normalize(mean, std)
        self.flip, self.area, self.jitter, self.grey, self.blur = flip, area, jitter, grey, blur

    def before(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Two views of each image. Images that stream from disk come as two crops already."""
        views = (batch.image, *batch.others)
        if len(views) == 1:
            views = tuple(self._crop(batch.image, generator) for _ in range(2))
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

    def forward(
        self, model: Callable[[Tensor], Embedding], batch: Batch, augment: Augment, generator: torch.Generator
    ) -> tuple[Tensor, Embedding, Batch]:
        seen = augment(batch)
        first, second = (self.normalize(view) for view in (seen.image, *seen.others))
        loss, output = self.compare(model, first, second)
        return loss, output, seen.replace(image=first, others=(second,))

    def compare(self, model: Callable[[Tensor], Embedding], first: Tensor, second: Tensor) -> tuple[Tensor, Embedding]:
        """The loss between two views, and what the model makes of the first."""
        views = model(first), model(second)
        # The projections stand still: without that the network would call all images the same.
        return distance(views, (views[0].detach(), views[1].detach())), views[0]

    @property
    def against(self) -> nn.Module | None:
        """The network whose projections the target is compared with, where that is not the target itself."""
        return None

    def predict(self, model: Callable[[Tensor], Embedding], image: Tensor) -> Embedding:
        return model(image)

    def meter(self, device: torch.device) -> NeighbourMeter:
        return NeighbourMeter(len(self.classes), device)

    def warning(self, metrics: dict[str, float]) -> str | None:
        """A line about a network that has collapsed."""
        return collapse.warning(metrics["spread"], metrics["rank"])
