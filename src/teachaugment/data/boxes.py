"""Images with boxes: from what a format has found to a data set, with every box checked against its image."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from teachaugment import seeds
from teachaugment.data import cache
from teachaugment.data.decode import ADVICE, BadImage, open_image, pixels
from teachaugment.data.finish import TEST_FRACTION, fits_in_memory
from teachaugment.data.reading import Reading
from teachaugment.data.source import Source
from teachaugment.data.splits import STATISTICS, DataSet, Split, hold_out_validation, statistics
from teachaugment.data.streamed import Sample, StreamedSplit, stacked
from teachaugment.data.threads import in_threads
from teachaugment.errors import UserError

LONGER_SIDE = 512  # of images whose size nobody has set: larger ones are made smaller
ROUNDING = 1.0  # pixels by which a box may stick out of its image: it is cut there
MEASURED_IMAGES = 200  # of a streamed split, for mean and standard deviation


class Box(NamedTuple):
    """One box as a file says it."""

    corners: tuple[float, float, float, float]  # left, upper, right, lower, in pixels or ``relative`` to the image
    kind: str | int  # the name of its class, or its number
    where: str  # file and line, for messages
    relative: bool = False


class Scene(NamedTuple):
    """One image with its boxes, as a format finds them."""

    image: Path
    boxes: list[Box | BadImage]  # a box that cannot be read is what is wrong with it
    bad: BadImage | None = None  # why nothing is known about the image


@dataclass(eq=False)
class BoxSource(Source):
    """Image files with boxes; the keys are the images' paths."""

    boxes: list[Tensor] = field(repr=False)  # [n, 5] each, in pixels of the file

    def open(self, index: int) -> Image.Image:
        return open_image(Path(self.keys[index]))

    def name(self, index: int) -> str:
        return self.keys[index]

    def select(self, rows: Tensor) -> BoxSource:
        return replace(super().select(rows), boxes=[self.boxes[i] for i in rows.tolist()])


@dataclass
class BoxSplit(StreamedSplit):
    """Whole images, made smaller or larger until they just fit into ``size``, and black beside that."""

    source: BoxSource

    def read(self, index: int, seed: int, epoch: int) -> Sample:
        image = pixels(self.source.open(index), self.source.name(index))
        made, scale = fit(image, self.size)
        boxes = self.source.boxes[index]
        return Sample([made], boxes=torch.cat([boxes[:, :4] * scale, boxes[:, 4:]], 1))


def fit(image: Tensor, size: tuple[int, int], fill: Tensor | float = 0.0) -> tuple[Tensor, float]:
    """Images [..., C, H, W] in the upper left corner of ``size``, as large as fits into it, and how much they grew."""
    height, width = image.shape[-2:]
    if (height, width) == tuple(size):
        return image, 1.0
    scale = min(size[0] / height, size[1] / width)
    inner = [max(1, min(limit, round(scale * side))) for side, limit in zip((height, width), size, strict=True)]
    whole = image if image.ndim == 4 else image[None]
    small = F.interpolate(whole.float(), inner, mode="bilinear", antialias=True, align_corners=False)
    if not image.is_floating_point():
        small = small.round().clamp(0, 255)
    canvas = torch.zeros(*small.shape[:2], *size, device=image.device, dtype=small.dtype) + fill
    canvas[..., : inner[0], : inner[1]] = small
    return canvas.to(image.dtype).view(*image.shape[:-2], *size), scale


# --- from scenes to a data set ---------------------------------------------------------------------------------------


def finish_boxes(
    name: str, where: object, found: dict[str, list[Scene]], classes: list[str], reading: Reading
) -> DataSet:
    """The data set of these scenes, which are found by split: train, and val or test or both, or neither."""
    if reading.per_class is not None:
        raise UserError("data.per_class is for classification; an image with boxes has no class of its own")
    if not found.get("train"):
        raise UserError(f"{where} has no training images")
    if reading.val_fraction and len(found) == 3:
        raise UserError(f"{where} has a validation split of its own; leave val_fraction at 0")
    if len(found) == 1:
        found = _divided(found["train"], where, reading.seed)
    bad: list[BadImage] = []
    checked = {split: _checked(scenes, classes, bad) for split, scenes in found.items()}
    _complain(bad, reading.bad_images)
    sizes = [size for _, split in checked.values() for size in split]
    for split, (source, _) in checked.items():
        if not len(source):
            raise UserError(f"{where} has no readable image in its {split} split")
    size = canvas(sizes, reading.shape)
    splits = {split: BoxSplit(source, size, bad_images=reading.bad_images) for split, (source, _) in checked.items()}
    train, held_out = hold_out_validation(splits["train"].source, reading.val_fraction, reading.seed)
    splits["train"] = replace(splits["train"], source=train)
    test = splits["test" if "test" in splits else "val"]
    val = splits["val"] if len(splits) == 3 else None
    if held_out is not None:
        val = replace(splits["train"], source=held_out)
    chosen = [splits["train"], test] if val is None else [splits["train"], test, val]
    made: Sequence[Split | BoxSplit] = chosen
    if fits_in_memory(sum(map(len, chosen)) * 3 * size[0] * size[1], reading.in_memory):
        made = [in_one(split) for split in chosen]
    mean, std = _statistics(name, made[0])
    last = made[2] if val is not None else None
    return DataSet(name, made[0], made[1], classes, 3, size, mean, std, last)


def _divided(scenes: list[Scene], where: object, seed: int) -> dict[str, list[Scene]]:
    """A fifth of the images, chosen by a stable hash, is what is tested on."""
    if len(scenes) < 2:
        raise UserError(f"{where} has one image; a test split needs a second one")
    ranked = sorted(scenes, key=lambda scene: seeds.derive(seed, "test", scene.image.name))
    n = max(1, round(TEST_FRACTION * len(scenes)))
    return {"train": sorted(ranked[n:]), "test": sorted(ranked[:n])}


def _checked(scenes: list[Scene], classes: list[str], bad: list[BadImage]) -> tuple[BoxSource, list[tuple[int, int]]]:
    """The images that are there with those of their boxes that are right, and height and width of each image.

    What is wrong is appended to ``bad``.
    """
    paths = [str(scene.image) for scene in scenes]
    every = BoxSource(paths, torch.zeros(len(paths), dtype=torch.int64), [torch.empty(0, 5)] * len(paths))
    rows, boxes, sizes = [], [], []
    found = in_threads(every.dimensions, range(len(every)), "decoding", "image headers")
    for i, (scene, size) in enumerate(zip(scenes, found, strict=True)):
        if (wrong := scene.bad or size) and isinstance(wrong, BadImage):
            bad.append(wrong)
            continue
        assert not isinstance(size, BadImage)
        right = list(_right(scene.boxes, size, classes, bad))
        rows.append(i)
        boxes.append(torch.tensor(right).view(-1, 5))
        sizes.append(size)
    return replace(every.select(torch.tensor(rows, dtype=torch.int64)), boxes=boxes), sizes


def _right(
    boxes: list[Box | BadImage], size: tuple[int, int], classes: list[str], bad: list[BadImage]
) -> Iterable[tuple[float, ...]]:
    """The boxes that are right, in pixels and cut where they stick out a little, with the number of the class."""
    height, width = size
    for box in boxes:
        if isinstance(box, BadImage):
            bad.append(box)
            continue
        factor = (width, height, width, height) if box.relative else (1, 1, 1, 1)
        corners = [value * side for value, side in zip(box.corners, factor, strict=True)]
        left, upper, right, lower = corners
        number = classes.index(box.kind) if box.kind in classes else box.kind
        reason = None
        if not isinstance(number, int) or not 0 <= number < len(classes):
            reason = f"class {box.kind!r} is unknown; the classes are {', '.join(classes[:12])}"
        elif not all(map(math.isfinite, corners)):
            reason = "the box has a corner that is no number"
        elif left > right or upper > lower:
            reason = "the box has swapped corners"
        elif left == right or upper == lower:
            reason = "the box is empty"
        elif left < -ROUNDING or upper < -ROUNDING or right > width + ROUNDING or lower > height + ROUNDING:
            reason = f"the box is outside its image of {width}×{height}"
        if reason is None:
            yield max(left, 0.0), max(upper, 0.0), min(right, width), min(lower, height), float(number)
        else:
            given = ", ".join(f"{value:g}" for value in box.corners)
            bad.append(BadImage(f"{box.where}: {reason} ({given}){ADVICE}"))


def _complain(bad: list[BadImage], bad_images: str) -> None:
    if bad and bad_images == "error":
        raise bad[0]
    if bad:
        warnings.warn(f"skipped {len(bad)} bad box(es) or image(s), the first: {bad[0]}", stacklevel=2)


def canvas(sizes: Sequence[tuple[int, int]], wanted: tuple[int, int] | None) -> tuple[int, int]:
    """The height and width that all images are fitted into.

    ``wanted``, of which the longer side counts, or at most LONGER_SIDE; of the images' proportions where these are the
    same for all, otherwise square.
    """
    longer = max(wanted) if wanted is not None else min(LONGER_SIDE, max(max(size) for size in sizes))
    made = {tuple(max(1, round(side * longer / max(size))) for side in size) for size in sizes}
    if len(made) > 1:
        return longer, longer
    height, width = made.pop()
    return height, width


def in_one(split: BoxSplit) -> Split:
    """All images of a split, decoded."""
    found = in_threads(lambda i: split.read(i, 0, 0), range(len(split)), "decoding", "images")
    rows, samples, bad = [], [], []
    for i, item in enumerate(found):
        if isinstance(item, BadImage):
            bad.append(item)
        else:
            rows.append(i)
            samples.append(item)
    _complain(bad, split.bad_images)
    if not samples:
        raise UserError(f"no image can be read; the first: {bad[0]}")
    boxes = stacked([sample.boxes for sample in samples if sample.boxes is not None])
    label = split.label[torch.tensor(rows, dtype=torch.int64)]
    return Split(torch.stack([sample.views[0] for sample in samples]), label, boxes=boxes)


def _statistics(name: str, train: Split | BoxSplit) -> cache.Statistics:
    """Mean and standard deviation of the training images, or of some where they stream."""
    if name in STATISTICS:
        return STATISTICS[name]
    if isinstance(train, Split):
        return statistics(name, train.image)
    some = train.select(torch.linspace(0, len(train) - 1, min(len(train), MEASURED_IMAGES)).long())
    return statistics(name, some.read_parts(list(range(len(some))), 0, 0)[0].views[0])
