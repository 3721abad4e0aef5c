"""What a segmenter says about an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from PIL import Image
from torch import Tensor

from teachaugment.show.pictures import Picture
from teachaugment.tasks.segmentation.overlay import Color


@dataclass(frozen=True, eq=False, repr=False)
class MaskPrediction:
    """The most probable class of every pixel."""

    mask: Tensor  # [H, W] uint8, in memory of the CPU: the numbers of the classes
    classes: Sequence[str]
    colors: Sequence[Color]

    number: ClassVar[str] = "share"
    shown: ClassVar[int] = 3

    def top(self, count: int) -> list[tuple[str, float]]:
        """The ``count`` classes that cover most of the image, each with its share of the pixels."""
        pixels = self.mask.flatten().bincount(minlength=len(self.classes)).tolist()
        covered = sorted(((n, k) for k, n in enumerate(pixels) if n), key=lambda pair: (-pair[0], pair[1]))
        return [(self.classes[k], n / self.mask.numel()) for n, k in covered[:count]]

    def picture(self) -> Picture:
        """The mask as an image with a palette: its values are the numbers of the classes, its colours theirs."""
        image = Image.fromarray(self.mask.numpy())
        image.putpalette([part for color in self.colors for part in color])
        return image

    def more(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        return f"<{', '.join(f'{name} {100 * share:.1f} %' for name, share in self.top(self.shown))}>"
