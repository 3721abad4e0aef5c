"""Image folders: one sub-folder per class."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image

from teachaugment import seeds
from teachaugment.data import cache
from teachaugment.data.decode import open_image
from teachaugment.data.files import image_files
from teachaugment.data.finish import TEST_FRACTION, Sources, finish
from teachaugment.data.folders import (
    LISTED,
    contents,
    folders_in,
    split_folders,
    splits_of_classes,
    warn_about_left_behind,
)
from teachaugment.data.reading import Reading
from teachaugment.data.source import Source
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError


@dataclass(eq=False)
class FolderSource(Source):
    """Image files; the keys are their paths below ``root``."""

    root: Path

    def open(self, index: int) -> Image.Image:
        return open_image(self.root / self.keys[index])

    def name(self, index: int) -> str:
        return str(self.root / self.keys[index])

    def fingerprint(self) -> str:
        return cache.fingerprint(self.root, self.keys)


def load_folder(source: str | Path, reading: Reading, *, name: str | None = None, centre: float = 1.0) -> DataSet:
    """A folder with ``train/`` and ``val/`` or ``test/``, or with class folders that are split by a stable hash.

    The splits' names may be longer (training, valid, validation, testing) and in any case. With all three, ``val/`` is
    the validation split; ``val/`` alone is what is tested on; ``train/`` alone is split like class folders. ``centre``
    is how much of an image's shorter side the centre crop of an evaluation keeps.
    """
    root = Path(source).expanduser()
    found, classes = _find(root, reading)
    return finish(name or root.resolve().name.lower(), root, found, classes, reading, centre=centre)


def _find(root: Path, reading: Reading) -> tuple[Sources, list[str]]:
    """The splits and the class names, from the folder's structure alone."""
    if not root.is_dir():
        raise UserError(f"no such folder: {root}")
    roots = _splits(root)
    own_test = len(roots) > 1
    if own_test:
        found = {name: _list(folder) for name, folder in roots.items()}
        for name in roots:
            unknown = sorted(set(found[name]) - set(found["train"]))
            if unknown:
                raise UserError(f"{roots[name]} has classes that train/ does not have: {', '.join(unknown)}")
    else:
        only = roots["train"]
        train, test = _divide(_list(only), reading.split_by)
        found, roots = {"train": train, "test": test}, {"train": only, "test": only}
    classes = sorted(found["train"])
    if len(classes) < 2 and not reading.partial:
        raise UserError(f"{roots['train']} has only one class ({classes[0]}); it must have at least two class folders")
    splits = {name: _source(roots[name], found[name], classes) for name in roots}
    if len(splits.get("test", splits["train"])) == 0 and not reading.partial:
        raise UserError(f"{root} has one image per class; a test split needs a second image in some class")
    if not reading.partial:
        _warn_about_few(found["train"], found.get("test", found["train"]))
    tested = splits["test"] if "test" in splits else splits.pop("val")
    return Sources(splits["train"], tested, splits.get("val"), "its own val/", own_test), classes


def _splits(root: Path) -> dict[str, Path]:
    """Where the class folders of each split are; ``train`` alone: all of them, which are yet to be split."""
    warn_about_left_behind(root)
    splits = splits_of_classes(root)
    named = split_folders(root)
    flat = {split: folder for split, folder in named.items() if split not in splits}
    if "train" in splits:
        for folder in flat.values():
            warnings.warn(f"left out {folder}: its images are in no class folders", stacklevel=2)
        return splits
    if splits:
        names = ", ".join(f"{folder.name}/" for folder in splits.values())
        raise UserError(f"{root} has {names} with class folders, but no train/; it has {contents(root)}")
    if len(flat) > 1 or (flat and len(folders_in(root)) == 1):
        names = " and ".join(str(folder) for folder in flat.values())
        raise UserError(
            f"{names} have no class folders, and a split is no class; expected {root}/train/CLASS/IMAGE.png"
        )
    return {"train": root}


def _warn_about_few(train: dict[str, list[str]], test: dict[str, list[str]]) -> None:
    """Name the classes with one image, from which little is learned and which may never be tested."""
    few = [name for name, paths in train.items() if len(paths) + (test is not train) * len(test.get(name, [])) < 2]
    if few:
        listed = ", ".join(few[:LISTED]) + (f" and {len(few) - LISTED} more" if len(few) > LISTED else "")
        warnings.warn(f"with one image only, which is trained on: {listed}", stacklevel=2)


def _list(folder: Path) -> dict[str, list[str]]:
    """Image paths relative to ``folder``, by class, sorted."""
    found: dict[str, list[str]] = {}
    for entry in folders_in(folder):
        found[entry.name] = [f"{entry.name}/{path}" for path in image_files(entry)]
        if not found[entry.name]:
            raise UserError(f"class folder {entry} has no images; add some or remove it")
    if not found:
        raise UserError(
            f"{folder} has no class folders; expected {folder}/CLASS/IMAGE.png, and it has {contents(folder)}"
        )
    return found


def _divide(found: dict[str, list[str]], seed: int) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """A fifth of each class for testing, by a hash of path and seed: no list order or file system decides it."""
    train, test = {}, {}
    for name, paths in found.items():
        ranked = sorted(paths, key=lambda path: seeds.derive(seed, "test", path))
        n = min(max(1, round(TEST_FRACTION * len(paths))), len(paths) - 1)
        train[name], test[name] = sorted(ranked[n:]), sorted(ranked[:n])
    return train, test


def _source(root: Path, found: dict[str, list[str]], classes: list[str]) -> FolderSource:
    pairs = [(path, k) for k, name in enumerate(classes) for path in found.get(name, [])]
    return FolderSource([path for path, _ in pairs], torch.tensor([k for _, k in pairs], dtype=torch.int64), root)
