"""Folders as people have them: which of them are splits, whatever their case, and which are no data at all."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from teachaugment.errors import UserError

SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
SPLITS = ("train", "val", "test")  # a val/ without a test/ is what is tested on
LEFT_BEHIND = ("__macosx", "@eadir", "$recycle.bin")  # by archive programs and file systems
IMAGE_FOLDERS = ("images", "image", "imgs", "img", "jpegimages")
MASK_FOLDERS = (
    *("masks", "mask", "annotations", "annotation", "annot", "labels", "label"),
    *("gt", "segmentations", "segmentationclass"),
)
LISTED = 10  # names that a message lists; of more it says how many


def folders_in(folder: Path) -> list[Path]:
    """Sub-folders by name, without hidden ones, those that a program has left behind and links to what is around."""
    found = [entry for entry in _all_folders_in(folder) if entry.name.lower() not in LEFT_BEHIND]
    return [entry for entry in found if not is_around(folder, entry)]


def _all_folders_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [folder / entry.name for entry in entries(folder) if is_folder(entry) and not entry.name.startswith(".")]


def warn_about_left_behind(folder: Path) -> None:
    """Name what is left out because it is no data."""
    for entry in _all_folders_in(folder):
        if entry.name.lower() in LEFT_BEHIND:
            warnings.warn(f"left out {entry}: a program has put it there, and it is no class", stacklevel=3)


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder, by name; one that cannot be read is told of."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(f"cannot read the folder {folder}: {error.strerror}") from None


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder or leads to one; a link that leads to itself does not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_around(folder: Path, entry: Path) -> bool:
    """Whether ``entry``, a link perhaps, is the folder itself or one that it is in."""
    return _identity(entry) in {_identity(parent) for parent in (folder.resolve(), *folder.resolve().parents)}


def _identity(folder: Path) -> tuple[int, int]:
    try:
        about = folder.stat()
    except OSError as error:
        raise UserError(f"cannot read the folder {folder}: {error.strerror}") from None
    return about.st_dev, about.st_ino


def files_below(folder: Path) -> Iterator[str]:
    """All but folders below ``folder``, as paths relative to it: those of a folder by name, then what is deeper.

    Links to folders are followed, each folder is visited once, and never one that ``folder`` is in.
    """
    seen = {_identity(parent) for parent in folder.resolve().parents}
    waiting = [(folder, "")]
    while waiting:
        directory, inside = waiting.pop()
        if (identity := _identity(directory)) in seen:
            continue
        seen.add(identity)
        deeper = []
        for entry in entries(directory):
            if is_folder(entry):
                deeper.append((directory / entry.name, f"{inside}{entry.name}/"))
            else:
                yield f"{inside}{entry.name}"
        waiting += reversed(deeper)


def is_hidden(file: str) -> bool:
    return file.rpartition("/")[2].startswith(".")


def split_folders(folder: Path) -> dict[str, Path]:
    """The sub-folders whose names mean a split, in any case, by that split."""
    found: dict[str, Path] = {}
    for entry in folders_in(folder):
        split = SPLIT_NAMES.get(entry.name.lower())
        if split in found:
            raise UserError(f"{found[split]} and {entry} are both the {split} split; keep one of them")
        if split is not None:
            found[split] = entry
    return {split: found[split] for split in SPLITS if split in found}


def splits_of_classes(root: Path) -> dict[str, Path]:
    """The splits that have class folders of their own: a folder of vehicles may have a class called train."""
    return {split: folder for split, folder in split_folders(root).items() if folders_in(folder)}


def one_of(folder: Path, names: Iterable[str]) -> Path | None:
    """The sub-folder that has the first of these names that there is, in any case."""
    found = {entry.name.lower(): entry for entry in folders_in(folder)}
    return next((found[name] for name in names if name in found), None)


def image_and_mask_folders(root: Path) -> dict[str, tuple[Path, Path]]:
    """Where images and masks are, by split, or under "" where there are no splits; empty: nowhere.

    ``images/`` and ``masks/`` with splits in both or without any; splits with ``images/`` and ``masks/`` in each; or,
    as CamVid has it, ``train/`` beside ``trainannot/``. Masks may also be called annotations or labels.
    """
    images, masks = one_of(root, IMAGE_FOLDERS), one_of(root, MASK_FOLDERS)
    if images is not None and masks is not None:
        splits, others = split_folders(images), split_folders(masks)
        if "train" not in splits:
            return {"": (images, masks)}
        return {split: (folder, others.get(split, masks / folder.name)) for split, folder in splits.items()}
    found = {}
    for split, folder in split_folders(root).items():
        inside = one_of(folder, IMAGE_FOLDERS), one_of(folder, MASK_FOLDERS)
        beside = one_of(
            root, [f"{folder.name.lower()}{sign}{word}" for word in MASK_FOLDERS for sign in ("", "_", "-")]
        )
        if inside[0] is not None:
            found[split] = inside[0], inside[1] or folder / "masks"
        elif beside is not None:
            found[split] = folder, beside
    return found


def has_validation(root: Path) -> bool:
    """Whether a folder of images, with or without masks, has a validation split beside a test split."""
    return any(len(found) == len(SPLITS) for found in (splits_of_classes(root), image_and_mask_folders(root)))


def first_side(root: Path) -> int | None:
    """The longer side of the first image file below a folder, from its header; None: there is none that can be read."""
    from teachaugment.data.opened import opened

    for file in files_below(root):
        with suppress(Exception), opened(root / file) as image:
            return max(image.size)
    return None


def contents(root: Path) -> str:
    """What is in a folder, for a message."""
    inside = [f"{entry.name}/" for entry in folders_in(root)]
    files = sum(1 for entry in entries(root) if not is_folder(entry) and not entry.name.startswith("."))
    listed = [*inside[:LISTED], *([f"{len(inside) - LISTED} more folders"] if len(inside) > LISTED else [])]
    listed += [f"{files} file{'s' if files > 1 else ''}"] if files else []
    return ", ".join(listed) or "nothing"
