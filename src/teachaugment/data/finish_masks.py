"""From pairs of images and masks to a data set: measure all of them, and decode into memory what is small."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from teachaugment.data import cache
from teachaugment.data.codes import Codes
from teachaugment.data.decode import BadImage, skipped, without_advice
from teachaugment.data.finish import fits_in_memory
from teachaugment.data.pairs import PairSource, PairSplit
from teachaugment.data.reading import Reading
from teachaugment.data.splits import STATISTICS, DataSet, Split, hold_out_validation, statistics
from teachaugment.data.threads import in_threads
from teachaugment.errors import UserError

MEASURED_IMAGES, MEASURED_SIDE = 200, 256  # for mean and standard deviation: images, and about as many rows of each
Pairs = list[tuple[str, str]]  # paths of image and mask below the root
Result = TypeVar("Result")


def finish_masks(
    name: str, root: Path, found: dict[str, Pairs], codes: Codes, reading: Reading, own_test: bool = True
) -> DataSet:
    """The data set of these pairs, which are found by split; ``own_test``: the test split came with the data."""
    if reading.size is not None:
        raise UserError("data.size is for classification and shapes; images with masks keep their size, see data.crop")
    if reading.per_class is not None:
        raise UserError("data.per_class is for classification and shapes; an image with a mask has no class")
    if reading.val_fraction and len(found) == 3:
        raise UserError(f"{root} has its own val/; leave val_fraction at 0")
    sources, sizes = {}, {}
    for split, pairs in found.items():
        sources[split], sizes[split] = _measured(_source(root, pairs, codes), reading.bad_images)
    size = _training_size(sources["train"], sizes["train"], reading)
    decoded_bytes = sum(4 * height * width for split in sizes.values() for height, width in split)
    if fits_in_memory(decoded_bytes, reading.in_memory):
        sources = {split: _decoded(source, reading.bad_images) for split, source in sources.items()}
    mean, std = _statistics(name, sources["train"], reading.bad_images)
    train, held_out = hold_out_validation(sources["train"], reading.val_fraction, reading.split_by)
    val = sources["val"] if len(sources) == 3 else held_out
    test = sources["test" if "test" in sources else "val"]
    windows = reading.crop is not None or reading.scale != 1

    def made(source: PairSource, windows: bool = False) -> Split | PairSplit:
        return _in_one(PairSplit(source, size, bad_images=reading.bad_images, windows=windows, scale=reading.scale))

    last = None if val is None else made(val)
    by_area = sorted(sizes["train"], key=lambda each: each[0] * each[1])
    about: dict[str, Any] = {"found": (by_area[0], by_area[-1]), "own_test": own_test}
    return DataSet(
        name, made(train, windows), made(test), codes.classes, 3, size, mean, std, last, codes.colors, **about
    )


def _source(root: Path, pairs: Pairs, codes: Codes) -> PairSource:
    images, masks = ([pair[i] for pair in pairs] for i in (0, 1))
    label = torch.zeros(len(pairs), dtype=torch.int64)  # the images have no class of their own
    return PairSource(images, label, root, masks, codes)


def _measured(source: PairSource, bad_images: str) -> tuple[PairSource, list[tuple[int, int]]]:
    """The pairs that can be read, and height and width of each, from the headers."""
    found = in_threads(source.dimensions, range(len(source)), "decoding", "image headers")
    return _readable(source, found, bad_images)


def _training_size(source: PairSource, sizes: list[tuple[int, int]], reading: Reading) -> tuple[int, int]:
    """The size of the images that are trained on: that of the random windows, or the one that all images have.

    Images that are only looked at need not have one: then it is that of the first.
    """
    if reading.crop is not None:
        return reading.crop, reading.crop
    other = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
    if other is not None and not reading.whole:
        one, another = (f"{source.name(i)} is {sizes[i][1]}×{sizes[i][0]}" for i in (0, other))
        raise UserError(
            f"training images differ in size ({one}, {another}); choose the side of random crops with --data.crop"
        )
    return sizes[0]


def _decoded(source: PairSource, bad_images: str) -> PairSource:
    """The same pairs in memory."""
    source, pairs = _readable(source, in_threads(source.pair, range(len(source)), "decoding", "images"), bad_images)
    return replace(source, decoded=pairs)


def _readable(
    source: PairSource, found: Iterable[Result | BadImage], bad_images: str
) -> tuple[PairSource, list[Result]]:
    """The pairs of which something was found, and what; errors are raised, or warned about if they may be skipped."""
    rows: list[int] = []
    results: list[Result] = []
    errors: list[BadImage] = []
    for i, item in enumerate(found):
        if not isinstance(item, BadImage):
            rows.append(i)
            results.append(item)
        elif bad_images == "error":
            raise item
        else:
            errors.append(item)
    if not errors:
        return source, results
    warnings.warn(skipped(errors), stacklevel=2)
    if not rows:
        raise UserError(f"{source.root} has no readable image; the first: {without_advice(errors[0])}")
    return source.select(torch.tensor(rows)), results


def _in_one(split: PairSplit) -> Split | PairSplit:
    """One tensor for all pairs, where they are in memory, of one size and without random windows."""
    pairs = split.source.decoded
    if pairs is None or split.windows or len({mask.shape for _, mask in pairs}) > 1:
        return split
    images, masks = ([pair[i] for pair in pairs] for i in (0, 1))
    return Split(torch.stack(images), split.label, torch.stack(masks))


def _statistics(name: str, train: PairSource, bad_images: str) -> cache.Statistics:
    """Mean and standard deviation of the colours, from pixels all over some images."""
    if name in STATISTICS:
        return STATISTICS[name]
    some = train.select(torch.linspace(0, len(train) - 1, min(len(train), MEASURED_IMAGES)).long())

    def few_pixels(row: int) -> Tensor:
        image, _ = some.pair(row)
        step = max(1, min(image.shape[1:]) // MEASURED_SIDE)
        return image[:, ::step, ::step].flatten(1)

    found = in_threads(few_pixels, range(len(some)), "decoding", "images for their mean colour")
    _, seen = _readable(some, found, bad_images)
    return statistics(name, torch.cat(seen, 1)[None, :, :, None])
