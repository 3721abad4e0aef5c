"""Folders for segmentation: ``images/`` and ``masks/``, paired by stem, and the names of the classes beside them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from teachaugment import seeds
from teachaugment.batch import IGNORE
from teachaugment.data.codes import CLASS_FILE, Codes, class_file, values_in_mask
from teachaugment.data.decode import BadImage
from teachaugment.data.files import image_files
from teachaugment.data.finish import TEST_FRACTION
from teachaugment.data.finish_masks import Pairs, finish_masks
from teachaugment.data.folders import contents, image_and_mask_folders
from teachaugment.data.patterns import both_patterns, pairs_by_pattern
from teachaugment.data.reading import Reading
from teachaugment.data.splits import DataSet
from teachaugment.data.threads import in_threads
from teachaugment.errors import UserError

NO_CLASS = ("void", "ignore")  # names that mean that nothing is known
OFTEN, LITTLE = 0.9, 0.1  # a highest value in so many masks, and on so few of their pixels, may be none of the classes


def load_scenes(source: str | Path, reading: Reading) -> DataSet:
    """A folder with images/ and masks/, each with train/ and val/ or test/ in it, or the other way round, or neither;
    or with train/ and trainannot/, as CamVid comes (data/folders.py); or any folder, by patterns (data/patterns.py).

    Without splits a fifth of the pairs, chosen by a stable hash, is what is tested on.
    """
    root = Path(source).expanduser()
    found, own_test = _find(root, reading)
    codes = _codes(root, [mask for pairs in found.values() for _, mask in pairs], reading)
    return finish_masks(root.resolve().name.lower(), root, found, codes, reading, own_test)


def _find(root: Path, reading: Reading) -> tuple[dict[str, Pairs], bool]:
    """The pairs of each split, from the names of files and folders alone, and whether the test split is its own."""
    if not root.is_dir():
        raise UserError(f"no such folder: {root}")
    patterns = both_patterns(reading.images, reading.masks)
    found = _pairs_by_folder(root) if patterns is None else pairs_by_pattern(root, *patterns)
    if len(found) > 1:
        return found, True
    (pairs,) = found.values()
    if len(pairs) < 2:
        raise UserError(f"{root / pairs[0][0]} is the only image; a test split needs a second one")
    ranked = sorted(pairs, key=lambda pair: seeds.derive(reading.split_by, "test", pair[0]))
    n = max(1, round(TEST_FRACTION * len(pairs)))
    return {"train": sorted(ranked[n:]), "test": sorted(ranked[:n])}, False


def _pairs_by_folder(root: Path) -> dict[str, Pairs]:
    """The pairs by split, or under the only name that there is."""
    folders = image_and_mask_folders(root)
    if not {"", "train"} & set(folders):
        raise UserError(
            f"{root} has neither images/ and masks/ nor train/images/ and train/masks/ nor train/ and trainannot/; "
            f"segmentation needs an image and a mask of the same name, or their patterns (--data.images 'photos/*.jpg' "
            f"--data.masks 'photos/*_mask.png'), and found {contents(root)}"
        )
    return {name: _pairs(root, *both) for name, both in folders.items()}


def _pairs(root: Path, images: Path, masks: Path) -> Pairs:
    """Images and masks with the same path but for its ending, and for what all masks have behind it, such as _mask."""
    if not masks.is_dir():
        raise UserError(f"{images} has no masks beside it; expected them in {masks}")
    pictures, labels = _stems(images), _stems(masks)
    if not pictures:
        raise UserError(f"{images} has no images; it has {contents(images)}")
    behind = _behind(pictures, labels)
    pairs = []
    for stem, path in sorted(pictures.items()):
        if stem + behind not in labels:
            others = ", ".join(str(label) for label in sorted(labels)[:3])
            raise UserError(
                f"image {path} has no mask; expected {masks / stem}{behind}.png, and found {others or 'nothing'}"
                f"{', …' if len(labels) > 3 else ''} in {masks}"
            )
        pairs.append((path.relative_to(root).as_posix(), labels[stem + behind].relative_to(root).as_posix()))
    return pairs


def _behind(pictures: dict[str, Path], labels: dict[str, Path]) -> str:
    """What the masks' names have behind those of their images: nothing, or the same in all of them."""
    first = min(pictures)
    ends = sorted((label.removeprefix(first) for label in labels if label.startswith(first)), key=len)
    return next((end for end in ends if all(stem + end in labels for stem in pictures)), "")


def _stems(folder: Path) -> dict[str, Path]:
    """Image files below ``folder`` by their path without its ending."""
    found: dict[str, Path] = {}
    for file in image_files(folder):
        stem = Path(file).with_suffix("").as_posix()
        if stem in found:
            raise UserError(
                f"{found[stem]} and {folder / file} have the same name but for the ending; keep one of them"
            )
        found[stem] = folder / file
    return found


def _codes(root: Path, masks: list[str], reading: Reading) -> Codes:
    """What the masks' values mean: as the class file says, or each value that occurs is a class."""
    ignored = set() if reading.ignore is None else {reading.ignore}
    if (root / CLASS_FILE).is_file():
        names, colors = class_file(root / CLASS_FILE)
        ignored |= {value for value, name in enumerate(names) if name.lower() in NO_CLASS}
        codes = Codes.of(names, ignored, colors)
    else:
        found = in_threads(lambda mask: values_in_mask(root / mask), masks, "decoding", "masks")
        # A mask that cannot be read is complained about when it is needed.
        values = [part for part in found if not isinstance(part, BadImage)]
        used = sorted({value for part in values for value in part} - ignored)
        highest = used[-1] if used else 0
        codes = Codes.of([f"class {value}" for value in range(highest + 1)], ignored)
        if reading.ignore is None and (hint := _may_be_void(values, used)):
            warnings.warn(hint, stacklevel=2)
    if len(codes.classes) < 2 and not reading.partial:
        raise UserError(
            f"the masks of {root} have only one class; values are class indices from 0 on, and {IGNORE} means that "
            f"nothing is known: masks of 0 and {IGNORE} must be saved as 0 and 1"
        )
    return codes


def _may_be_void(masks: Sequence[Mapping[int, float]], used: list[int]) -> str | None:
    """What to say if the highest value looks like no class: far above the others, or a little of nearly every mask."""
    if len(used) < 3:
        return None
    *others, last = used
    shares = [mask[last] for mask in masks if last in mask]
    if last - others[-1] > len(others):
        why = f"far above the others (0 … {others[-1]})"
    elif len(shares) >= OFTEN * len(masks) and sum(shares) <= LITTLE * len(masks):
        why = f"in {len(shares)} of {len(masks)} masks, and covers {sum(shares) / len(masks):.1%} of them"
    else:
        return None
    return (
        f"the highest value of the masks, {last}, is {why}; if it stands for what is none of the classes, leave it out "
        f"with --data.ignore {last}, or name the classes in {CLASS_FILE}"
    )
