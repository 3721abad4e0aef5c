"""Image data sets of Hugging Face ``datasets``: by name on the hub, or saved in a folder. No code of theirs is run."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL import Image

from teachaugment.data.decode import bad
from teachaugment.data.finish import Sources, finish
from teachaugment.data.opened import opened
from teachaugment.data.reading import Reading
from teachaugment.data.source import Source
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError

TESTS = ("test", "validation", "valid", "val")


@dataclass(eq=False)
class TableSource(Source):
    """Rows of a table; the keys are their numbers."""

    source: str  # as the user wrote it, for messages
    table: Any = field(repr=False)
    column: str  # of the images

    looked_at: ClassVar[int | None] = 16

    def open(self, index: int) -> Image.Image:
        try:
            return _image(self.table[int(self.keys[index])][self.column])
        except Exception as error:  # Pillow's readers raise almost anything on a broken file
            raise bad(self.name(index), error) from None

    def name(self, index: int) -> str:
        return f"{self.keys[index]} of {self.source}"


def load_hf(source: str | Path, reading: Reading) -> DataSet:
    """``hf:`` and a name or a folder: splits train and test (or validation), a column of images and one of classes."""
    name = str(source).removeprefix("hf:")
    tables = _tables(name, reading.home)
    if "train" not in tables:
        raise UserError(f"hf:{name} has no split 'train'; it has {', '.join(tables)}")
    image, label = _columns(name, tables["train"])
    classes = list(tables["train"].features[label].names)
    if len(classes) < 2:
        raise UserError(f"hf:{name} has only one class ({classes[0]}); classification needs at least two")
    test = next((split for split in TESTS if split in tables), None)
    train, tested = (
        None if split is None else _source(f"hf:{name}", tables[split], image, label) for split in ("train", test)
    )
    assert train is not None
    return finish(name.rstrip("/").rpartition("/")[2].lower(), f"hf:{name}", Sources(train, tested), classes, reading)


def _tables(source: str, root: Path) -> dict[str, Any]:
    try:
        import datasets
    except ImportError:
        raise UserError("datasets is not installed; install it with: pip install '.[hf]'") from None
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


def _source(source: str, table: Any, image: str, label: str) -> TableSource:
    import datasets

    labels = torch.tensor(table[label][:], dtype=torch.int64)
    known = (labels >= 0).nonzero().flatten()  # -1: the class is not told, as in some test splits
    # The images as they are stored: this package decodes them itself, with its own limits.
    stored = table.cast_column(image, datasets.Image(decode=False))
    return TableSource([str(i) for i in known.tolist()], labels[known], source, stored, image)


def _image(cell: Any) -> Image.Image:
    """The image of a cell that the table has not decoded: its bytes, or the path of its file."""
    if cell is None:
        raise ValueError("it is empty")
    return opened(io.BytesIO(cell["bytes"]) if cell["bytes"] is not None else cell["path"])
