"""Data sets by name or path: the tables of what can be read, and how a source is looked up in them.

A format is one file with a function ``(source, reading) -> DataSet`` and one line in a table. A key that ends in a
colon is what a source begins with, one that begins with a dot is what a file's name ends with, ``folder`` is any
directory, and every other key is a name. Nothing here imports torch: a format's module is imported when it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from teachaugment.data.folders import first_side, has_validation
from teachaugment.data.reading import FITS as FITS
from teachaugment.data.reading import INTERPOLATIONS as INTERPOLATIONS
from teachaugment.data.reading import Reading
from teachaugment.errors import UserError, nearest
from teachaugment.tables import Entry, Table

if TYPE_CHECKING:
    from teachaugment.data.splits import DataSet

FOLDER = "folder"
SMALL = 64  # images all of one size up to this keep it


@dataclass(frozen=True)
class Format(Entry):
    """One line of a table: a function ``(source, reading) -> DataSet``."""

    streams: bool = False  # its images can stay on disk until a batch asks for them


CLASSES = Table(
    "data set",
    "teachaugment.data",
    {
        "shapes": Format("shapes:load_shapes", "built in: ten kinds of coloured figures, drawn by formula"),
        "shapes:": Format("shapes:load_shapes", "shapes:N, another draw of them; N is a number"),
        "cifar10": Format("torchvision:load_cifar", "CIFAR-10 through torchvision, downloaded if it is not there"),
        "cifar100": Format("torchvision:load_cifar", "CIFAR-100 through torchvision, downloaded if it is not there"),
        "imagenet": Format("torchvision:load_imagenet", "ImageNet, unpacked or as archives", streams=True),
        "hf:": Format("hf:load_hf", "hf:NAME, a data set of Hugging Face by name, or saved in a folder", streams=True),
        "wds:": Format("shards:load_shards", "wds:SHARDS, tar files as WebDataset writes them", streams=True),
        ".npz": Format("arrays:load_arrays", "a file of numpy with x_train, y_train, x_test and y_test"),
        FOLDER: Format("folder:load_folder", "a folder with a folder for each class", streams=True),
    },
)
MASKS = Table(
    "data set with masks",
    "teachaugment.data",
    {
        "shapes": Format("shapes:load_shape_masks", "built in: where in an image its figure is, and which one"),
        "shapes:": Format("shapes:load_shape_masks", "shapes:N, another draw of them; N is a number"),
        "cityscapes": Format("cityscapes:load_cityscapes", "Cityscapes with fine annotations", streams=True),
        FOLDER: Format("scenes:load_scenes", "a folder with images/ and masks/", streams=True),
    },
)
BOXES = Table(
    "data set with boxes",
    "teachaugment.data",
    {
        "shapes": Format("figures:load_figures", "built in: up to four of the figures in an image, and their boxes"),
        "shapes:": Format("figures:load_figures", "shapes:N, another draw of them; N is a number"),
        FOLDER: Format("box_formats:load_boxes", "a folder in the layout of Pascal VOC, COCO or YOLO", streams=True),
    },
)
TABLES = (CLASSES, MASKS, BOXES)


def load(source: str | Path, reading: Reading | None = None, table: Table[Format] = CLASSES) -> DataSet:
    """The data set ``source``, read as ``reading`` says, by the format that ``table`` has for it."""
    reading = reading or Reading()
    key = find(source, table, reading.root is not None)
    if key is None:
        raise UserError(_unknown(str(source), table))
    if reading.in_memory == "never" and not table[key].streams:
        raise UserError(f"only folders of images, hf: and wds: data stream from disk; leave in_memory out for {source}")
    if (reading.images or reading.masks) and key != FOLDER:
        raise UserError(f"data.images and data.masks are for a folder of yours; leave them out for {source}")
    if reading.fit != "crop" and not table[key].streams:
        raise UserError(f"data.fit is for image files, and the images of {source} are all of one size; leave it out")
    return table.load(key)(source, reading)


def names(table: Table[Format]) -> list[str]:
    """The keys of a table that are names."""
    return [key for key in table if key != FOLDER and not key.endswith(":") and not key.startswith(".")]


def ways_to_name() -> list[str]:
    """How data are named, for people: all that the tables have."""
    ways = []
    for key in dict.fromkeys(key for table in TABLES for key in table):
        if key == FOLDER:
            ways.append("a folder")
        elif key.endswith(":"):
            ways.append(f"{key}NAME")
        else:
            ways.append(f"FILE{key}" if key.startswith(".") else key)
    return ways


def find(source: str | Path, table: Table[Format], rooted: bool = False) -> str | None:
    """The key of the format that reads ``source``, or None.

    A directory of that name comes before a data set of that name, unless a root says that the data set is meant.
    """
    name, path = str(source), Path(source).expanduser()
    for key in table:
        if key.endswith(":") and name.startswith(key):
            return key
    named = name in names(table)
    if path.is_dir() and not (named and rooted):
        return FOLDER
    if named:
        return name
    return next((key for key in table if key.startswith(".") and path.suffix == key), None)


def lacks_validation(source: str, rooted: bool = False) -> bool:
    """Whether it is a folder of images, with or without masks, that has no validation split beside a test split."""
    if any(find(source, table, rooted) != FOLDER for table in TABLES):
        return False
    return not has_validation(Path(source).expanduser())


def large(source: str, size: int | None, rooted: bool = False) -> bool:
    """Whether it is a folder whose images become larger than SMALL: for photographs, not for thumbnails."""
    if find(source, CLASSES, rooted) != FOLDER:
        return False
    side = first_side(Path(source).expanduser()) if size is None else size
    return side is not None and side > SMALL


def _unknown(name: str, table: Table[Format]) -> str:
    """What to say about a source that no format of the table reads."""
    if table is CLASSES and find(name, MASKS) is not None:
        return f"{name} has masks, and no class for a whole image; use --task segmentation"
    if table is MASKS and find(name, CLASSES) is not None:
        return f"{name} has no masks; segmentation takes {', '.join(names(MASKS))} or a folder"
    if table is BOXES and any(find(name, other) is not None for other in (CLASSES, MASKS)):
        return f"{name} has no boxes; detection takes {', '.join(names(BOXES))} or a folder"
    *kinds, last = "data set", "folder", *(f"{key} file" for key in table if key.startswith("."))
    return f"no {', '.join(kinds)} or {last} {name!r}{nearest(name, names(table))}"
