"""Data sets by name or path, and batches from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from teachaugment.data import cache
from teachaugment.data.arrays import load_arrays
from teachaugment.data.cityscapes import cityscapes
from teachaugment.data.images import FolderSplit, load_folder
from teachaugment.data.loader import batches, count, order
from teachaugment.data.scenes import load_scenes
from teachaugment.data.shapes import MASK_CLASSES, shapes
from teachaugment.data.shards import load_shards
from teachaugment.data.splits import DataSet, Split, few, hold_out, statistics
from teachaugment.data.torchvision import CIFAR, cifar, imagenet
from teachaugment.errors import UserError, nearest

__all__ = ["DATASETS", "DataSet", "FolderSplit", "Split", "batches", "count", "load", "load_masks", "order"]

DATASETS = ("shapes", *CIFAR, "imagenet")  # by name; "hf:NAME" and "wds:PATTERN" besides
WITH_MASKS = ("shapes", "cityscapes")


def load(
    source: str | Path,
    *,
    root: str | Path | None = None,
    size: int | tuple[int, int] | None = None,
    seed: int = 0,
    per_class: int | None = None,
    val_fraction: float = 0.0,
    in_memory: str = "auto",
    bad_images: str = "error",
) -> DataSet:
    """The data set ``source``: a name, ``hf:NAME``, ``wds:SHARDS``, a folder of images or an ``.npz`` file.

    root: where named data sets are kept, and downloaded to; None: ``~/.cache/teachaugment``.
    size: side of the square images, or height and width; None takes what the data suggests.
    seed: decides every choice of images below. A generated data set is itself the same for every seed.
    per_class: at most so many training images of each class.
    val_fraction: share of the training images set apart as ``val``, before ``per_class`` counts.
    in_memory: of image files; "always", "never", or "auto", which streams what decodes to more than a gigabyte.
    bad_images: of image files; "error" stops at an unreadable file, "skip" leaves it out with a warning.
    """
    shape = (size, size) if isinstance(size, int) else size
    if shape is not None and min(shape) < 1:
        raise UserError(f"size is {size}; it must be at least 1")
    if per_class is not None and per_class < 1:
        raise UserError(f"per_class is {per_class}; it must be at least 1")
    if not 0 <= val_fraction < 1:
        raise UserError(f"val_fraction is {val_fraction}; it must be at least 0 and less than 1")
    for name, value, allowed in (
        ("in_memory", in_memory, ("auto", "always", "never")),
        ("bad_images", bad_images, ("error", "skip")),
    ):
        if value not in allowed:
            raise UserError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}")
    name, path = str(source), Path(source).expanduser()
    home = Path(root).expanduser() if root is not None else cache.home()
    options: dict[str, Any] = {"seed": seed, "per_class": per_class, "val_fraction": val_fraction}
    files: dict[str, Any] = {**options, "size": shape, "in_memory": in_memory, "bad_images": bad_images}
    if name.startswith("hf:"):
        from teachaugment.data.hf import load_hf

        return load_hf(name.removeprefix("hf:"), home, **files)
    if name.startswith("wds:"):
        return load_shards(name.removeprefix("wds:"), **files)
    if path.is_dir() and not (name in DATASETS and root is not None):  # what is here comes before what has the name
        return load_folder(path, **files)
    if name == "imagenet":
        return imagenet(home, **files)
    if in_memory == "never":
        raise UserError(f"only folders of images, hf: and wds: data stream from disk; leave in_memory out for {source}")
    if path.suffix == ".npz":
        return load_arrays(path, size=shape, **options)
    if name == "cityscapes":
        raise UserError("cityscapes has masks, and no class for a whole image; use --task segmentation")
    if name not in DATASETS:
        raise UserError(f"no data set, folder or .npz file {name!r}{nearest(name, DATASETS)}")
    if shape is not None and shape[0] != shape[1]:
        raise UserError(f"size is {size}; the images of {source} are square")
    data = shapes(**({} if shape is None else {"size": shape[0]})) if name == "shapes" else cifar(name, home)
    if shape is not None and data.size != shape:
        raise UserError(f"the images of {name} are {data.size[0]} x {data.size[1]}; leave data.size out")
    assert isinstance(data.train, Split)
    rest, data.val = hold_out(data.train, val_fraction, seed)
    data.train = few(rest, per_class, seed)
    data.mean, data.std = statistics(data.name, data.train.image)
    return data


def load_masks(
    source: str | Path, *, crop: int | None = None, scale: float = 1.0, ignore: int | None = None, **options: Any
) -> DataSet:
    """The data set ``source`` for segmentation: a name, or a folder with images/ and masks/.

    crop: side of random windows of the training images; None: whole images.
    scale: training images are magnified at random between 1/scale and scale.
    ignore: a value of the masks that means, like 255, that nothing is known.
    The other options are those of ``load``.
    """
    name, path, root = str(source), Path(source).expanduser(), options.get("root")
    if name == "shapes" and not path.is_dir():
        if crop is not None or scale != 1 or ignore is not None:
            raise UserError("data.crop, data.scale and data.ignore are for images in files, not for shapes")
        data = load(name, **options)
        data.classes = MASK_CLASSES
        return data
    here = path.is_dir() and not (name in WITH_MASKS and root is not None)
    if not here and name != "cityscapes":
        if name in DATASETS or name.startswith("hf:") or path.suffix == ".npz":
            raise UserError(f"{name} has no masks; segmentation takes {', '.join(WITH_MASKS)} or a folder")
        raise UserError(f"no data set or folder {name!r}{nearest(name, WITH_MASKS)}")
    options = {key: value for key, value in options.items() if key != "root"}
    if options.pop("size", None) is not None:
        raise UserError("data.size is for classification and shapes; images with masks keep their size, see data.crop")
    if options.pop("per_class", None) is not None:
        raise UserError("data.per_class is for classification and shapes; an image with a mask has no class")
    options |= {"crop": crop, "scale": scale}
    if here:
        return load_scenes(path, ignore=ignore, **options)
    if ignore is not None:
        raise UserError("data.ignore is for your own masks; cityscapes says itself what counts for nothing")
    return cityscapes(Path(root).expanduser() if root is not None else cache.home(), **options)
