"""From sources with a class for each image to a data set: choose, measure, and decode into memory what is small."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from teachaugment.data import SMALL, cache
from teachaugment.data.decode import BadImage, without_advice
from teachaugment.data.decode import skipped as unreadable
from teachaugment.data.reading import Reading
from teachaugment.data.source import Source
from teachaugment.data.splits import (
    STATISTICS,
    DataSet,
    Split,
    at_most_per_class,
    hold_out,
    hold_out_validation,
    statistics,
)
from teachaugment.data.streamed import StreamedSplit
from teachaugment.data.threads import in_threads
from teachaugment.errors import UserError

IN_MEMORY_BYTES = 10**9  # decoded; "auto" streams what is larger
TEST_FRACTION = 0.2  # of data that come without a test split
MEASURED_IMAGES = 1000  # of a streamed split, for mean and standard deviation
LARGE = 224  # images all of one size up to SMALL keep it; any others become so large
LOOKED_AT = 100  # training images whose headers say how large the files are


@dataclass
class Sources:
    """The splits of a data set as they were found; what is missing is taken from the training images."""

    train: Source
    test: Source | None = None
    val: Source | None = None
    own_val: str = "a validation split of its own"  # how a message calls ``val``
    own_test: bool = True  # ``test`` came with the data


def finish(
    name: str, where: object, found: Sources, classes: list[str], reading: Reading, *, centre: float = 1.0
) -> DataSet:
    """The data set of these sources, decoded into memory if that is wanted and loses nothing.

    ``where`` is what messages call the data, ``centre`` how much of an image's shorter side a centre crop
    keeps unless ``reading`` says it.
    """
    train, test, val = _divide(where, found, reading)
    sources = [train, test] if val is None else [train, test, val]
    size, seen = reading.shape or natural_size(sources, reading.bad_images), sizes_found(train)
    if reading.shape is None:
        _warn_about_enlarging(seen, size)
    own_test = found.test is not None and found.own_test
    read: dict[str, Any] = {"centre": reading.centre or centre, "interpolation": reading.interpolation}
    about = {**read, "fit": reading.fit, "found": (seen[0], seen[-1]) if seen else (), "own_test": own_test}
    splits = [StreamedSplit(s, size, bad_images=reading.bad_images, fit=reading.fit, **read) for s in sources]
    if _belongs_in_memory(splits, reading):
        first, *others = decode_all(splits, classes)
        mean, std = statistics(name, first.image)
        val_split = others[1] if len(others) > 1 else None
        return DataSet(name, first, others[0], classes, 3, size, mean, std, val_split, **about)
    mean, std = _streamed_statistics(name, splits[0])
    streamed = splits[0].with_crops(reading.area, reading.views)
    last = splits[2] if len(splits) > 2 else None
    return DataSet(name, streamed, splits[1], classes, 3, size, mean, std, last, **about)


def finish_in_memory(name: str, train: Split, test: Split, classes: list[str], reading: Reading) -> DataSet:
    """The data set of images that are in memory as they come."""
    rest, val = hold_out_validation(train, reading.val_fraction, reading.split_by)
    chosen = at_most_per_class(rest, reading.per_class, reading.seed)
    channels, height, width = chosen.image.shape[1:]
    mean, std = statistics(name, chosen.image)
    return DataSet(name, chosen, test, classes, channels, (height, width), mean, std, val)


def _divide(where: object, found: Sources, reading: Reading) -> tuple[Source, Source, Source | None]:
    """Training, test and perhaps validation images: as they were found, or held out of the training images."""
    train, test, val = found.train, found.test, found.val
    if test is None:
        train, test = hold_out(train, TEST_FRACTION, reading.split_by)
        assert test is not None
    if val is None:
        train, val = hold_out_validation(train, reading.val_fraction, reading.split_by)
    elif reading.val_fraction:
        raise UserError(f"{where} has {found.own_val}; leave val_fraction at 0")
    return at_most_per_class(train, reading.per_class, reading.seed), test, val


def natural_size(sources: Sequence[Source], bad_images: str) -> tuple[int, int]:
    """The size that all images have if it is one and small, otherwise 224.

    Stops at the first image that decides, and where opening an image is costly, after the first few.
    """
    common: tuple[int, int] | None = None
    rows = ((source, i) for source in sources for i in range(len(source)))
    for source, i in islice(rows, sources[0].looked_at):
        try:
            shape = source.dimensions(i)
        except BadImage:
            if bad_images == "error":
                raise
            continue
        if max(shape) > SMALL or (common is not None and shape != common):
            return LARGE, LARGE
        common = shape
    return common or (LARGE, LARGE)


def sizes_found(source: Source) -> list[tuple[int, int]]:
    """Height and width of some images, the smallest first, from their headers; unreadable ones do not count."""
    count = min(len(source), LOOKED_AT, source.looked_at or LOOKED_AT)
    found = []
    for i in torch.linspace(0, len(source) - 1, count).long().tolist():
        with suppress(BadImage):
            found.append(source.dimensions(i))
    return sorted(found, key=lambda size: size[0] * size[1])


def _warn_about_enlarging(seen: list[tuple[int, int]], size: tuple[int, int]) -> None:
    """Most images are smaller than what nobody asked for."""
    if seen and min(seen[len(seen) // 2]) < min(size):
        height, width = seen[len(seen) // 2]
        warnings.warn(
            f"images of {width}×{height} pixels are enlarged to {size[1]}×{size[0]}; "
            f"--data.size {max(8, min(height, width))} leaves them as large as they are",
            stacklevel=3,
        )


def fits_in_memory(decoded_bytes: int, in_memory: str) -> bool:
    """Whether data are to be decoded at once, as far as their size decides it."""
    return in_memory == "always" or (in_memory == "auto" and decoded_bytes <= IN_MEMORY_BYTES)


def _belongs_in_memory(splits: list[StreamedSplit], reading: Reading) -> bool:
    """Random crops are cut from whole images: these may be decoded before only if nothing is cut off by it."""
    height, width = size = splits[0].size
    if not fits_in_memory(sum(map(len, splits)) * 3 * height * width, reading.in_memory):
        return False
    if reading.area == 1 or (splits[0].centre == 1 and _all_of_size(splits[0].source, size, reading.bad_images)):
        return True
    if reading.in_memory == "always":
        raise UserError(
            f"random crops (area {reading.area:g}) are cut from whole images, and not all are {height} x {width}; "
            "leave in_memory at auto, or turn the random crops off with an area of 1"
        )
    return False


def _all_of_size(source: Source, size: tuple[int, int], bad_images: str) -> bool:
    """Whether every image has this size, from the headers; stops at the first that has not."""
    for i in range(len(source)):
        try:
            if source.dimensions(i) != size:
                return False
        except BadImage:
            if bad_images == "error":
                raise
    return True


def decode_all(splits: list[StreamedSplit], classes: list[str]) -> list[Split]:
    """All images of all splits, each decoded straight to where it stays."""
    images = [torch.empty(len(split), 3, *split.size, dtype=torch.uint8) for split in splits]
    readable = [torch.ones(len(split), dtype=torch.bool) for split in splits]
    rows = [(k, i) for k, split in enumerate(splits) for i in range(len(split))]
    skipped: list[BadImage] = []

    def decoded(row: tuple[int, int]) -> Tensor:
        return splits[row[0]].read(row[1], 0, 0).views[0]

    for (k, i), result in zip(rows, in_threads(decoded, rows, "decoding", "images"), strict=True):
        if isinstance(result, Tensor):
            images[k][i] = result
        elif splits[k].bad_images == "error":
            raise result
        else:
            readable[k][i] = False
            skipped.append(result)
    made = [Split(image, split.label) for split, image in zip(splits, images, strict=True)]
    if not skipped:
        return made
    warnings.warn(unreadable(skipped), stacklevel=2)
    left = [
        split if bool(kept.all()) else split.select(kept.nonzero().flatten())
        for split, kept in zip(made, readable, strict=True)
    ]
    for k in sorted(set(made[0].label.tolist()) - set(left[0].label.tolist())):
        raise UserError(f"class {classes[k]} has no readable training image; the first: {without_advice(skipped[0])}")
    return left


def _streamed_statistics(name: str, train: StreamedSplit) -> cache.Statistics:
    """Mean and standard deviation of images from all over the split, measured once."""
    if name in STATISTICS:
        return STATISTICS[name]
    sample = train.select(torch.linspace(0, len(train) - 1, min(len(train), MEASURED_IMAGES)).long())

    def measure() -> cache.Statistics:
        parts = sample.read_parts(list(range(len(sample))), 0, 0)
        if not parts:
            raise UserError(f"none of the {len(sample)} training images that were measured can be read")
        return statistics(name, parts[0].views[0])

    key = sample.fingerprint()
    return measure() if key is None else cache.measured_once(key, measure)
