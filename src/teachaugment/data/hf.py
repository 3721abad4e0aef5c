"""Image data sets of Hugging Face ``datasets``: by name on the hub, or saved in a folder. No code of theirs is run."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from teachaugment import seeds
from teachaugment.data.decode import bad, fit, opened
from teachaugment.data.images import LARGE, SMALL, TEST_FRACTION, FolderSplit, finish
from teachaugment.data.splits import DataSet, few, hold_out
from teachaugment.errors import UserError

TESTS = ("test", "validation", "valid", "val")


@dataclass
class TableSplit(FolderSplit):
    """Rows of a table instead of files; ``paths`` holds their numbers."""

    table: Any = field(default=None, repr=False)
    column: str = "image"

    def fingerprint(self) -> None:
        return None

    def read(self, index: int, seed: int, epoch: int) -> Tensor:
        row = self.paths[index]
        try:
            image = _image(self.table[int(row)][self.column])
        except Exception as error:  # Pillow's readers raise almost anything on a broken file
            raise bad(f"{row} of {self.root}", error) from None
        crop = torch.rand(4, generator=seeds.generator("cpu", seed, "crop", epoch, index)) if self.crop else None
        return fit(image, f"{self.root}, image {row}", self.size, crop, self.centre)


def load_hf(
    source: str,
    root: Path,
    *,
    size: tuple[int, int] | None = None,
    seed: int = 0,
    per_class: int | None = None,
    val_fraction: float = 0.0,
    in_memory: str = "auto",
    bad_images: str = "error",
) -> DataSet:
    """``source`` without its ``hf:``: splits train and test (or validation), a column of images and one of classes."""
    tables = _tables(source, root)
    if "train" not in tables:
        raise UserError(f"hf:{source} has no split 'train'; it has {', '.join(tables)}")
    image, label = _columns(source, tables["train"])
    names = list(tables["train"].features[label].names)
    if len(names) < 2:
        raise UserError(f"hf:{source} has only one class ({names[0]}); classification needs at least two")
    tables = {name: table.cast_column(image, _undecoded()) for name, table in tables.items()}
    shape = size or _natural_size(source, tables["train"], image, bad_images)
    splits = {name: _split(source, table, image, label, shape, bad_images) for name, table in tables.items()}
    train: FolderSplit = splits["train"]
    test_name = next((name for name in TESTS if name in splits), None)
    test: FolderSplit | None = splits[test_name] if test_name is not None else None
    if test is None:  # as in a folder without a test split
        train, test = hold_out(train, TEST_FRACTION, seed)
    assert test is not None
    train, val = hold_out(train, val_fraction, seed)
    train = few(train, per_class, seed)
    name = source.rstrip("/").rpartition("/")[2].lower()
    return finish(name, train, test, val, names, shape, seed, in_memory)


def _tables(source: str, root: Path) -> dict[str, Any]:
    try:
        import datasets
    except ImportError:
        raise UserError("datasets is not installed; install it with: pip install 'teachaugment[hf]'") from None
    path = Path(source).expanduser()
    try:
        if (path / "dataset_dict.json").is_file():
            return dict(datasets.load_from_disk(str(path)))
        return dict(datasets.load_dataset(source, cache_dir=str(root)))
    except Exception as error:  # no network, no such data set, a damaged file: each comes as its own exception
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise UserError(f"cannot load hf:{source}: {reason}") from None


def _columns(source: str, table: Any) -> tuple[str, str]:
    """The columns of images and of classes. The first of each kind counts."""
    import datasets

    kinds = {"images": datasets.Image, "class labels": datasets.ClassLabel}
    found = []
    for what, kind in kinds.items():
        names = [name for name, feature in table.features.items() if isinstance(feature, kind)]
        if not names:
            raise UserError(f"hf:{source} has no column of {what}; its columns are {', '.join(table.features)}")
        found.append(names[0])
    return found[0], found[1]


def _split(source: str, table: Any, image: str, label: str, shape: tuple[int, int], bad_images: str) -> TableSplit:
    labels = torch.tensor(table[label][:], dtype=torch.int64)
    known = (labels >= 0).nonzero().flatten()  # -1: the class is not told, as in some test splits
    rows = [str(i) for i in known.tolist()]
    return TableSplit(Path(f"hf:{source}"), rows, labels[known], shape, bad_images, table=table, column=image)


def _undecoded() -> Any:
    """A column of images as they are stored: this package decodes them itself, with its own limits."""
    import datasets

    return datasets.Image(decode=False)


def _image(cell: Any) -> Image.Image:
    """The image of a cell that the table has not decoded: its bytes, or the path of its file."""
    if cell is None:
        raise ValueError("it is empty")
    return opened(io.BytesIO(cell["bytes"]) if cell["bytes"] is not None else cell["path"])


def _natural_size(source: str, table: Any, column: str, bad_images: str) -> tuple[int, int]:
    """The size of the first images if they agree and are small, otherwise 224."""
    shapes = set()
    for i in range(min(len(table), 16)):
        try:
            shapes.add(_image(table[i][column]).size[::-1])
        except Exception as error:
            if bad_images == "error":
                raise bad(f"{i} of hf:{source}", error) from None
    common = shapes.pop() if len(shapes) == 1 else (LARGE, LARGE)
    return common if max(common) <= SMALL else (LARGE, LARGE)
