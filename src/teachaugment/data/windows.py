"""Random windows of an image and its mask: both are magnified and cut alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F

from teachaugment.batch import IGNORE


class _Span(NamedTuple):
    """A random window along one axis: what is read, how long it becomes, and what is added before and after."""

    start: int
    end: int
    length: int
    before: int
    after: int


def random_window(
    image: Tensor, mask: Tensor, size: tuple[int, int], scale: float, random: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """A window of ``size`` from an image [C, H, W] and its mask, magnified between 1/scale and scale.

    ``random`` holds three numbers in [0, 1): magnification and position. Where the image ends, black and IGNORE begin.
    """
    factor = 1 / scale + random[0] * (scale - 1 / scale)
    y, x = (_span(n, want, factor, u) for n, want, u in zip(mask.shape, size, random[1:], strict=True))
    image, mask = (part[..., y.start : y.end, x.start : x.end] for part in (image, mask))
    if mask.shape != (y.length, x.length):
        shape = (y.length, x.length)
        image = F.interpolate(image[None], shape, mode="bicubic", align_corners=False, antialias=True)[0]
        mask = F.interpolate(mask[None, None], shape, mode="nearest-exact")[0, 0]
    around = (x.before, x.after, y.before, y.after)
    if any(around):
        image, mask = F.pad(image, around), F.pad(mask, around, value=IGNORE)
    return image, mask


def _span(length: int, want: int, factor: float, random: float) -> _Span:
    scaled = max(1, round(length * factor))
    if scaled < want:
        before = int(random * (want - scaled + 1))
        return _Span(0, length, scaled, before, want - scaled - before)
    offset = int(random * (scaled - want + 1))
    start = min(round(offset * length / scaled), length - 1)
    end = min(max(start + 1, round((offset + want) * length / scaled)), length)
    return _Span(start, end, want, 0, 0)
