"""Folders for segmentation: ``images/`` and ``masks/``, paired by stem, and the names of the classes beside them."""

from __future__ import annotations

from pathlib import Path

from teachaugment import seeds
from teachaugment.batch import IGNORE
from teachaugment.data.codes import CLASS_FILE, Codes, class_file, values_in_mask
from teachaugment.data.decode import BadImage
from teachaugment.data.files import image_files
from teachaugment.data.finish import TEST_FRACTION
from teachaugment.data.finish_masks import Pairs, finish_masks
from teachaugment.data.reading import Reading
from teachaugment.data.splits import DataSet
from teachaugment.data.threads import in_threads
from teachaugment.errors import UserError

NO_CLASS = ("void", "ignore")  # names that mean that nothing is known
SPLITS = ("train", "test", "val")


def load_scenes(source: str | Path, reading: Reading) -> DataSet:
    """A folder with images/ and masks/, each with train/ and val/ or test/ in it, or the other way round, or neither.

    Without splits a fifth of the pairs, chosen by a stable hash, is what is tested on.
    """
    root = Path(source).expanduser()
    found = _find(root, reading.seed)
    codes = _codes(root, [mask for pairs in found.values() for _, mask in pairs], reading.ignore)
    return finish_masks(root.resolve().name.lower(), root, found, codes, reading)


def _find(root: Path, seed: int) -> dict[str, Pairs]:
    """The pairs of each split, from the folder's structure alone."""
    if (root / "images").is_dir() and (root / "masks").is_dir():
        folders = {s: (root / "images" / s, root / "masks" / s) for s in SPLITS if (root / "images" / s).is_dir()}
    else:
        folders = {s: (root / s / "images", root / s / "masks") for s in SPLITS if (root / s / "images").is_dir()}
        if "train" not in folders:
            raise UserError(
                f"{root} has neither images/ and masks/ nor train/images/ and train/masks/; segmentation needs an "
                "image and a mask of the same name"
            )
    if "train" in folders:
        if len(folders) == 1:
            raise UserError(f"{root} has a train split but neither val nor test; add one")
        return {name: _pairs(root, *both) for name, both in folders.items()}
    pairs = _pairs(root, root / "images", root / "masks")
    if len(pairs) < 2:
        raise UserError(f"{root / 'images'} has one image; a test split needs a second one")
    ranked = sorted(pairs, key=lambda pair: seeds.derive(seed, "test", pair[0]))
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


def _codes(root: Path, masks: list[str], ignore: int | None) -> Codes:
    """What the masks' values mean: as the class file says, or each value that occurs is a class."""
    ignored = set() if ignore is None else {ignore}
    if (root / CLASS_FILE).is_file():
        names, colors = class_file(root / CLASS_FILE)
        ignored |= {value for value, name in enumerate(names) if name.lower() in NO_CLASS}
        codes = Codes.of(names, ignored, colors)
    else:
        found = in_threads(lambda mask: values_in_mask(root / mask), masks, "decoding", "masks")
        # A mask that cannot be read is complained about when it is needed.
        values = (value for part in found if not isinstance(part, BadImage) for value in part)
        highest = max((value for value in values if value not in ignored), default=0)
        codes = Codes.of([f"class {value}" for value in range(highest + 1)], ignored)
    if len(codes.classes) < 2:
        raise UserError(
            f"the masks of {root} have only one class; values are class indices from 0 on, and {IGNORE} means that "
            "nothing is known"
        )
    return codes
