"""Folders for segmentation: ``images/`` and ``masks/``, paired by stem, and the names of the classes beside them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from teachaugment import seeds
from teachaugment.batch import IGNORE
from teachaugment.data.codes import CLASS_FILE, Codes, class_file, occurring
from teachaugment.data.decode import BadImage, dimensions, endings
from teachaugment.data.images import IN_MEMORY_BYTES, TEST_FRACTION, FolderSplit
from teachaugment.data.pairs import PairSplit, check_sizes
from teachaugment.data.splits import STATISTICS, DataSet, Split, hold_out, statistics
from teachaugment.errors import UserError
from teachaugment.progress import progress

NO_CLASS = ("void", "ignore")  # names that mean that nothing is known
SPLITS = ("train", "test", "val")
MEASURED_IMAGES, MEASURED_SIDE = 200, 256  # for mean and standard deviation: images, and about as many rows of each
Pairs = list[tuple[str, str]]  # image and mask, relative to the root


def load_scenes(root: Path, *, seed: int = 0, ignore: int | None = None, **options: Any) -> DataSet:
    """``root`` with images/ and masks/, each with train/ and val/ or test/ in it, or the other way round, or neither.

    Without splits a fifth of the pairs, chosen by a stable hash, is what is tested on. The options are those of
    ``finish``.
    """
    found = _find(root, seed)
    codes = _codes(root, [mask for pairs in found.values() for _, mask in pairs], ignore)
    return finish(root.resolve().name.lower(), root, found, codes, seed=seed, **options)


def finish(
    name: str,
    root: Path,
    found: dict[str, Pairs],
    codes: Codes,
    *,
    seed: int = 0,
    val_fraction: float = 0.0,
    in_memory: str = "auto",
    bad_images: str = "error",
    crop: int | None = None,
    scale: float = 1.0,
) -> DataSet:
    """The data set of these pairs, in memory if it is small."""
    splits = {key: _split(root, pairs, codes, bad_images) for key, pairs in found.items()}
    train, test = splits["train"], splits["test" if "test" in splits else "val"]
    if val_fraction and len(splits) == 3:
        raise UserError(f"{root} has its own val/; leave val_fraction at 0")
    sizes = {name: _sizes(split) for name, split in splits.items()}
    first = sizes["train"][0]
    other = next((i for i, size in enumerate(sizes["train"]) if size != first), None)
    if crop is None and other is not None:
        raise UserError(
            f"training images differ in size ({_by(root, train.paths[0], first)}, "
            f"{_by(root, train.paths[other], sizes['train'][other])}); choose the side of random crops with --data.crop"
        )
    train.size, train.scale = (crop, crop) if crop else first, scale
    train.crop = crop is not None or scale != 1
    count = sum(4 * height * width for split in sizes.values() for height, width in split)
    if in_memory == "always" or (in_memory == "auto" and count <= IN_MEMORY_BYTES):
        _hold(list(splits.values()))
    mean, std = _statistics(name, train)
    rest, held = hold_out(train, val_fraction, seed)
    val = splits["val"] if len(splits) == 3 else held.whole() if held is not None else None
    last = None if val is None else _plain(val)
    return DataSet(name, _plain(rest), _plain(test), codes.classes, 3, train.size, mean, std, last, codes.colors)


def _find(root: Path, seed: int) -> dict[str, Pairs]:
    """The pairs of each split, from the folder's structure alone."""
    if (root / "images").is_dir() and (root / "masks").is_dir():
        places = {s: (root / "images" / s, root / "masks" / s) for s in SPLITS if (root / "images" / s).is_dir()}
    else:
        places = {s: (root / s / "images", root / s / "masks") for s in SPLITS if (root / s / "images").is_dir()}
        if "train" not in places:
            raise UserError(
                f"{root} has neither images/ and masks/ nor train/images/ and train/masks/; segmentation needs an "
                "image and a mask of the same name"
            )
    if "train" in places:
        if len(places) == 1:
            raise UserError(f"{root} has a train split but neither val nor test; add one")
        return {name: _pairs(root, *folders) for name, folders in places.items()}
    pairs = _pairs(root, root / "images", root / "masks")
    if len(pairs) < 2:
        raise UserError(f"{root / 'images'} has one image; a test split needs a second one")
    ranked = sorted(pairs, key=lambda pair: seeds.mix(seed, "test", pair[0]))
    n = max(1, round(TEST_FRACTION * len(pairs)))
    return {"train": sorted(ranked[n:]), "test": sorted(ranked[:n])}


def _pairs(root: Path, images: Path, masks: Path) -> Pairs:
    """Images and masks with the same path but for its ending."""
    if not masks.is_dir():
        raise UserError(f"{images} has no masks beside it; expected them in {masks}")
    pictures, labels = _stems(images), _stems(masks)
    if not pictures:
        raise UserError(f"{images} has no images")
    pairs = []
    for stem, path in sorted(pictures.items()):
        if stem not in labels:
            raise UserError(f"image {path} has no mask; expected {masks / stem}.png")
        pairs.append((path.relative_to(root).as_posix(), labels[stem].relative_to(root).as_posix()))
    return pairs


def _stems(folder: Path) -> dict[str, Path]:
    """Image files below ``folder`` by their path without its ending; hidden files are none."""
    known = endings()
    found: dict[str, Path] = {}
    for place, _, files in os.walk(folder, followlinks=True):
        for file in sorted(f for f in files if f.lower().endswith(known) and not f.startswith(".")):
            path = Path(place) / file
            stem = path.relative_to(folder).with_suffix("").as_posix()
            if stem in found:
                raise UserError(f"{found[stem]} and {path} have the same name but for the ending; keep one of them")
            found[stem] = path
    return found


def _codes(root: Path, masks: list[str], ignore: int | None) -> Codes:
    """What the masks' values mean: as the class file says, or each value that occurs is a class."""
    ignored = set() if ignore is None else {ignore}
    if (root / CLASS_FILE).is_file():
        names, colors = class_file(root / CLASS_FILE)
        ignored |= {value for value, name in enumerate(names) if name.lower() in NO_CLASS}
        codes = Codes.of(names, ignored, colors)
    else:
        found = _each(lambda mask: occurring(root / mask), masks, "masks")
        highest = max((value for part in found for value in part if value not in ignored), default=0)
        codes = Codes.of([f"class {value}" for value in range(highest + 1)], ignored)
    if len(codes.classes) < 2:
        raise UserError(
            f"the masks of {root} have only one class; values are class indices from 0 on, and {IGNORE} means that "
            "nothing is known"
        )
    return codes


def _split(root: Path, pairs: Pairs, codes: Codes, bad_images: str) -> PairSplit:
    images, masks = ([pair[i] for pair in pairs] for i in (0, 1))
    label = torch.zeros(len(pairs), dtype=torch.int64)  # the images have no class of their own
    return PairSplit(root, images, label, (0, 0), bad_images, masks=masks, codes=codes)


def _sizes(split: PairSplit) -> list[tuple[int, int]]:
    """Height and width of each pair, from the headers; pairs that cannot be read leave the split, if they may."""

    def measure(pair: tuple[str, str]) -> tuple[int, int] | BadImage:
        try:
            image, mask = (split.root / path for path in pair)
            size = dimensions(image)
            check_sizes(image, size, mask, dimensions(mask))
            return size
        except BadImage as error:
            return error

    found = _each(measure, list(zip(split.paths, split.masks, strict=True)), "image headers")
    return _good(split, found)


def _hold(splits: Sequence[PairSplit]) -> None:
    """Decode all pairs into memory."""

    def decode(job: tuple[PairSplit, int]) -> tuple[Tensor, Tensor] | BadImage:
        try:
            return job[0].pair(job[1])
        except BadImage as error:
            return error

    jobs = [(split, i) for split in splits for i in range(len(split))]
    done = iter(_each(decode, jobs, "images"))
    for split in splits:
        split.held = _good(split, [next(done) for _ in range(len(split))])


def _good(split: PairSplit, found: list[Any]) -> list[Any]:
    """What was found without the errors, which are raised, or leave the split with a warning if that is asked for."""
    errors = [item for item in found if isinstance(item, BadImage)]
    if errors:
        if split.bad_images == "error":
            raise errors[0]
        warnings.warn(f"skipped {len(errors)} unreadable image(s), the first: {errors[0]}", stacklevel=2)
        rows = [i for i, item in enumerate(found) if not isinstance(item, BadImage)]
        if not rows:
            raise UserError(f"{split.root} has no readable image; the first: {errors[0]}")
        split.paths, split.masks = ([names[i] for i in rows] for names in (split.paths, split.masks))
        split.label = split.label[rows]
    return [item for item in found if not isinstance(item, BadImage)]


def _each(function: Callable[[Any], Any], items: Sequence[Any], what: str) -> list[Any]:
    """The function's results, by threads (Pillow releases the lock), with progress if it takes long."""
    with ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1)) as pool:
        try:
            return list(progress(pool.map(function, items), len(items), "decoding", what))
        except UserError:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _plain(split: FolderSplit) -> Split | FolderSplit:
    """One tensor for all pairs, where they are in memory, of one size and without random windows."""
    assert isinstance(split, PairSplit)
    if split.held is None or split.crop or len({mask.shape for _, mask in split.held}) > 1:
        return split
    images, masks = ([pair[i] for pair in split.held] for i in (0, 1))
    return Split(torch.stack(images), split.label, torch.stack(masks))


def _statistics(name: str, train: PairSplit) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of the colours, from pixels all over some images."""
    if name in STATISTICS:
        return STATISTICS[name]

    def some(row: int) -> Tensor | BadImage:
        try:
            image, _ = train.pair(row)
        except BadImage as error:
            return error
        step = max(1, min(image.shape[1:]) // MEASURED_SIDE)
        return image[:, ::step, ::step].flatten(1)

    rows = torch.linspace(0, len(train) - 1, min(len(train), MEASURED_IMAGES)).long()
    seen = _good(train.select(rows), _each(some, rows.tolist(), "images for their mean colour"))
    return statistics(name, torch.cat(seen, 1)[None, :, :, None])


def _by(root: Path, path: str, size: tuple[int, int]) -> str:
    return f"{root / path} is {size[1]}×{size[0]}"
