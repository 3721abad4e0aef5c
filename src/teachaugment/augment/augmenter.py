"""What every augmenter provides: all that the algorithm, the replay and the policy know of one.

An augmentation happens in two halves, so that the colour distance can be measured between them and a mask can follow
the second. ``sample`` draws everything random and reads the weights, from a snapshot if one is given; ``color`` changes
what the pixels look like; ``warp`` changes where they are, and takes mask and boxes along. Images stay in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from teachaugment.augment.mlp import Live, Sources
from teachaugment.batch import Batch

LARGEST_GROUP = 2**16  # a file of a stranger must not ask for all memory


@dataclass(frozen=True)
class Settings:
    """What defines an augmenter's shape; each kind adds its own."""

    channels: int = 3
    classes: int | None = None  # None: no context
    group: int = 8  # images that share a snapshot of the replay, and whatever else a kind shares

    def __post_init__(self) -> None:
        if not (
            self.channels >= 1 and (self.classes is None or self.classes >= 1) and 1 <= self.group <= LARGEST_GROUP
        ):
            raise ValueError(f"group must be at most {LARGEST_GROUP:,}")


class Augmenter(nn.Module):
    """a_φ = g ∘ c. A kind defines ``_draw`` (or ``sample``), ``color``, ``warp`` and ``probabilities``.

    Its parameters are all that it learns: a snapshot is a copy of them, read by name through a ``Source``.
    """

    name: ClassVar[str]
    bends: ClassVar[bool] = False  # whether the warp follows the image and is no matrix
    learns: ClassVar[bool] = True  # whether it has parameters, which the gradient of an objective moves
    arms: ClassVar[tuple[str, ...]] = ()  # the names of the operations, where an image gets one of them
    settings: Settings

    def _draw(self, n: int, context: Tensor | None, generator: torch.Generator | None, sources: Sources) -> Any:
        """One augmentation for each of ``n`` images from the weights in ``sources``: relaxed, so that gradients reach
        them, where gradients are enabled, and otherwise hard."""
        raise NotImplementedError

    def color(self, batch: Batch, draw: Any) -> Batch:
        """x̃ = c(x): the image only."""
        raise NotImplementedError

    def warp(self, batch: Batch, draw: Any) -> Batch:
        """x̂ = g(x̃): image, mask and boxes alike; mask pixels about which nothing is known become IGNORE."""
        raise NotImplementedError

    def weakened(self, draw: Any, strength: float) -> Any:
        """The same draw, scaled towards no change: as often, but less."""
        raise NotImplementedError

    def arm(self, draw: Any) -> Tensor | None:
        """[B] int64: 0 for the images that a draw leaves as they are; for the others which of ``arms`` it has, counted
        from 1, or 1 where there are no arms. None, if that cannot be told from the draw."""
        return None

    def share(self, shares: Sequence[float]) -> None:
        """How much of the strength each of ``arms`` gets from now on, from 0 to 1."""
        raise NotImplementedError

    def matrix(self, draw: Any, size: tuple[int, int]) -> Tensor:
        """The warp as [B, 2, 3] in coordinates from -1 to 1, of images of this height and width, if it is affine."""
        raise NotImplementedError

    def ranges(self) -> dict[str, list[float]]:
        """How far each part can go, for those who read about a policy."""
        raise NotImplementedError

    def probabilities(self) -> dict[str, Tensor]:
        """How often each part acts, by name, for logs and reports; the mean of each tensor is what is shown."""
        raise NotImplementedError

    def sample(
        self,
        n: int,
        context: Tensor | None = None,
        generator: torch.Generator | None = None,
        snapshots: Sources | None = None,
    ) -> Any:
        """A draw for ``n`` images. With ``snapshots`` the weights come from there and not from this module."""
        with torch.autocast(self.device.type, enabled=False):
            return self._draw(n, context, generator, snapshots or Sources(live := Live(self), live))

    def forward(self, batch: Batch, generator: torch.Generator | None = None) -> Batch:
        draw = self.sample(len(batch), batch.label, generator)
        return self.warp(self.color(batch, draw), draw)

    def describe(self) -> dict[str, Any]:
        """The settings as plain data: ``type(self)(**describe())`` has the same shape."""
        return asdict(self.settings)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


def in_full_precision(function: Callable[..., Tensor], image: Tensor, argument: Any, dtype: torch.dtype) -> Tensor:
    """Half precision has too few digits for colours and positions, and full precision costs little here."""
    with torch.autocast(image.device.type, enabled=False):
        return function(image.to(dtype), argument).to(image.dtype)
