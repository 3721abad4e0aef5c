"""Image folders: one sub-folder per class, decoded into memory when small, streamed from disk when large."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from teachaugment import seeds
from teachaugment.data import cache
from teachaugment.data.decode import BadImage, decode, dimensions, endings
from teachaugment.data.splits import STATISTICS, DataSet, Split, few, hold_out, statistics
from teachaugment.errors import UserError
from teachaugment.progress import progress

IN_MEMORY_BYTES = 10**9  # decoded; "auto" streams what is larger
TEST_FRACTION = 0.2  # of a folder that comes without a test split
MEASURED_IMAGES = 1000  # of a streamed split, for mean and standard deviation
SMALL, LARGE = 64, 224  # images all of one size up to SMALL keep it; any others become LARGE

Part = tuple[Tensor, Tensor, Tensor | None, Tensor]  # images, labels, masks and positions


@dataclass
class FolderSplit:
    """Images that stay on disk: paths and classes, decoded when a batch asks for them."""

    root: Path
    paths: list[str]  # relative to root
    label: Tensor  # [N] int64
    size: tuple[int, int]
    bad_images: str = "error"
    crop: bool = False  # random resized crops, for training; otherwise the centre
    centre: float = 1.0  # of the shorter side, what the centre crop keeps
    told: set[str] = field(default_factory=set, repr=False, compare=False)  # skipped images that were warned about

    def __len__(self) -> int:
        return len(self.paths)

    def select(self, rows: Tensor) -> FolderSplit:
        """The images at ``rows``, in that order."""
        return replace(self, paths=[self.paths[i] for i in rows.tolist()], label=self.label[rows])

    def read(self, index: int, seed: int, epoch: int) -> Any:
        """One image. The crop is a function of seed, epoch and index, whichever process decodes it."""
        crop = torch.rand(4, generator=seeds.generator("cpu", seed, "crop", epoch, index)) if self.crop else None
        return decode(self.root / self.paths[index], self.size, crop, self.centre)

    def whole(self) -> FolderSplit:
        """The same images without random crops."""
        return replace(self, crop=False)

    def read_parts(self, rows: list[int], seed: int, epoch: int, skipped: list[str]) -> list[Part]:
        """Some rows in as few parts as possible: images of one size can be in one part."""
        image, label, index = self.read_many(rows, seed, epoch, skipped)
        return [(image, label, None, index)] if len(image) else []

    def read_many(
        self, rows: list[int], seed: int, epoch: int, skipped: list[str] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Images, labels and positions of some rows."""
        images, index = self.read_rows(rows, seed, epoch, skipped)
        image = torch.stack(images) if images else torch.empty(0, 3, *self.size, dtype=torch.uint8)
        return image, self.label[index], index

    def read_rows(
        self, rows: list[int], seed: int, epoch: int, skipped: list[str] | None = None
    ) -> tuple[list[Any], Tensor]:
        """What ``read`` makes of some rows, and their positions.

        With ``bad_images="skip"`` the next readable image stands in for an unreadable one in training, so that
        batches stay full; in evaluation it is left out, so that no image counts twice. What was left out is appended
        to ``skipped``: a process that reads for another one leaves it to that one to warn.
        """
        images, kept = [], []
        for wanted in rows:
            for row in [(wanted + i) % len(self) for i in range(len(self))] if self.crop else [wanted]:
                try:
                    images.append(self.read(row, seed, epoch))
                except BadImage as error:
                    if self.bad_images == "error":
                        raise
                    if skipped is None:
                        self.warn([str(error)])
                    else:
                        skipped.append(str(error))
                else:
                    kept.append(row)
                    break
        return images, torch.tensor(kept, dtype=torch.int64)

    def fingerprint(self) -> str | None:
        """Of the images as they are read, so that what is measured on them can be remembered; None: it cannot."""
        return cache.fingerprint(self.root, self.paths, self.size, self.centre)

    def warn(self, skipped: list[str]) -> None:
        """Say once in a run, and not once in an epoch, that an image was skipped."""
        for message in skipped:
            if message not in self.told:
                self.told.add(message)
                warnings.warn(f"skipped: {message}", stacklevel=2)


def load_folder(
    root: Path,
    *,
    size: tuple[int, int] | None = None,
    seed: int = 0,
    per_class: int | None = None,
    val_fraction: float = 0.0,
    in_memory: str = "auto",
    bad_images: str = "error",
    name: str | None = None,
    centre: float = 1.0,
) -> DataSet:
    """``root`` with ``train/`` and ``val/`` or ``test/``, or with class folders that are split by a stable hash.

    With all three, ``val/`` is the validation split; ``val/`` alone is what is tested on. ``centre`` is how much of an
    image's shorter side the centre crop of an evaluation keeps.
    """
    train, test, val, classes = _find(root, seed)
    if val is None:
        train, val = hold_out(train, val_fraction, seed)
    elif val_fraction:
        raise UserError(f"{root} has its own val/; leave val_fraction at 0")
    train = few(train, per_class, seed)
    splits = [train, test] if val is None else [train, test, val]
    shape = size or _natural_size(splits, bad_images)
    for split in splits:
        split.size, split.bad_images, split.centre = shape, bad_images, centre
    name = name or root.resolve().name.lower()
    return finish(name, train, test, val, classes, shape, seed, in_memory)


def finish(
    name: str,
    train: FolderSplit,
    test: FolderSplit,
    val: FolderSplit | None,
    classes: list[str],
    shape: tuple[int, int],
    seed: int,
    in_memory: str,
) -> DataSet:
    """The data set of these splits, decoded if it is small."""
    splits = [train, test] if val is None else [train, test, val]
    count = sum(len(split) for split in splits)
    small = count * 3 * shape[0] * shape[1] <= IN_MEMORY_BYTES
    if in_memory == "always" or (in_memory == "auto" and small):
        decoded = _decode_all(splits, classes)
        mean, std = statistics(name, decoded[0].image)
        return DataSet(name, decoded[0], decoded[1], classes, 3, shape, mean, std, None if val is None else decoded[2])
    sample = torch.linspace(0, len(train) - 1, min(len(train), MEASURED_IMAGES)).long()
    measured = train.select(sample)

    def measure() -> cache.Statistics:
        image, _, _ = measured.read_many(list(range(len(sample))), seed, 0)
        return statistics(name, image)

    if name in STATISTICS:
        mean, std = STATISTICS[name]
    elif key := measured.fingerprint():
        mean, std = cache.remembered(key, measure)
    else:
        mean, std = measure()
    train.crop = True
    return DataSet(name, train, test, classes, 3, shape, mean, std, val)


def _find(root: Path, seed: int) -> tuple[FolderSplit, FolderSplit, FolderSplit | None, list[str]]:
    """Train, test and perhaps validation split and the class names, from the folder's structure alone."""
    if not root.is_dir():
        raise UserError(f"no such folder: {root}")
    # A folder of vehicles may have a class "train": it is a split only if it has class folders of its own.
    if _folders(root / "train"):
        roots = {name: root / name for name in ("train", "test", "val") if (root / name).is_dir()}
        if len(roots) == 1:
            raise UserError(
                f"{root} has train/ but neither val/ nor test/; add one, or put the class folders in {root}"
            )
        found = {name: _list(folder) for name, folder in roots.items()}
        for name in roots:
            unknown = sorted(set(found[name]) - set(found["train"]))
            if unknown:
                raise UserError(f"{roots[name]} has classes that train/ does not have: {', '.join(unknown)}")
    else:
        train, test = _divide(_list(root), seed)
        found, roots = {"train": train, "test": test}, {"train": root, "test": root}
    classes = sorted(found["train"])
    if len(classes) < 2:
        raise UserError(f"{roots['train']} has only one class ({classes[0]}); it must have at least two class folders")
    splits = {name: _split(roots[name], found[name], classes) for name in roots}
    if len(splits.get("test", splits["train"])) == 0:
        raise UserError(f"{root} has one image per class; a test split needs a second image in some class")
    test_split = splits["test"] if "test" in splits else splits.pop("val")
    return splits["train"], test_split, splits.get("val"), classes


def _folders(folder: Path) -> list[Path]:
    """Sub-folders by name, hidden ones left out."""
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))


def _list(folder: Path) -> dict[str, list[str]]:
    """Image paths relative to ``folder``, by class, sorted. Hidden files and unknown endings are no images."""
    known = endings()
    found: dict[str, list[str]] = {}
    for entry in _folders(folder):
        paths: list[str] = []
        for place, _, files in os.walk(entry, followlinks=True):
            inside = Path(place).relative_to(folder).as_posix()
            paths += [f"{inside}/{f}" for f in files if f.lower().endswith(known) and not f.startswith(".")]
        if not paths:
            raise UserError(f"class folder {entry} has no images; add some or remove it")
        found[entry.name] = sorted(paths)
    if not found:
        raise UserError(f"{folder} has no class folders; expected {folder}/CLASS/IMAGE.png")
    return found


def _divide(found: dict[str, list[str]], seed: int) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """A fifth of each class for testing, by a hash of path and seed: no list order or file system decides it."""
    train, test = {}, {}
    for name, paths in found.items():
        ranked = sorted(paths, key=lambda path: seeds.mix(seed, "test", path))
        n = min(max(1, round(TEST_FRACTION * len(paths))), len(paths) - 1)
        train[name], test[name] = sorted(ranked[n:]), sorted(ranked[:n])
    return train, test


def _split(root: Path, found: dict[str, list[str]], classes: list[str]) -> FolderSplit:
    pairs = [(path, k) for k, name in enumerate(classes) for path in found.get(name, [])]
    return FolderSplit(
        root, [path for path, _ in pairs], torch.tensor([k for _, k in pairs], dtype=torch.int64), (LARGE, LARGE)
    )


def _natural_size(splits: list[FolderSplit], bad_images: str) -> tuple[int, int]:
    """The size all images have if it is one and small, otherwise 224. Stops at the first image that decides."""
    common: tuple[int, int] | None = None
    for split in splits:
        for path in split.paths:
            try:
                shape = dimensions(split.root / path)
            except BadImage:
                if bad_images == "error":
                    raise
                continue
            if max(shape) > SMALL or (common is not None and shape != common):
                return LARGE, LARGE
            common = shape
    return common or (LARGE, LARGE)


def _decode_all(splits: list[FolderSplit], classes: list[str]) -> list[Split]:
    """All images of all splits, decoded by threads (Pillow releases the lock) straight into their place."""
    jobs = [(split, i) for split in splits for i in range(len(split))]
    images = [torch.empty(len(split), 3, *split.size, dtype=torch.uint8) for split in splits]
    places = [(k, i) for k, split in enumerate(splits) for i in range(len(split))]
    good = [torch.ones(len(split), dtype=torch.bool) for split in splits]

    def work(job: tuple[FolderSplit, int]) -> Tensor | BadImage:
        try:
            return job[0].read(job[1], 0, 0)
        except BadImage as error:
            return error

    skipped: list[BadImage] = []
    with ThreadPoolExecutor(max_workers=min(16, os.cpu_count() or 1)) as pool:
        try:
            for (k, i), result in zip(
                places, progress(pool.map(work, jobs), len(jobs), "decoding", "images"), strict=True
            ):
                if isinstance(result, Tensor):
                    images[k][i] = result
                    continue
                if splits[k].bad_images == "error":
                    raise result
                good[k][i] = False
                skipped.append(result)
        except BaseException:  # a bad image, or somebody who does not want to wait
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if skipped:
        warnings.warn(f"skipped {len(skipped)} unreadable image(s), the first: {skipped[0]}", stacklevel=2)
    decoded = []
    for split, image, keep in zip(splits, images, good, strict=True):
        all_kept = bool(keep.all())
        decoded.append(Split(image if all_kept else image[keep], split.label if all_kept else split.label[keep]))
    present = set(decoded[0].label.tolist())
    for k, name in enumerate(classes):
        if k not in present:
            raise UserError(f"class {name} has no readable training image; the first: {skipped[0]}")
    return decoded
