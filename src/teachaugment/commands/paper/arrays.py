"""CIFAR-10 and CIFAR-100 of torchvision as files of arrays, which is what the small runs read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from teachaugment.data.reading import Reading
from teachaugment.data.splits import Split
from teachaugment.data.streamed import StreamedSplit
from teachaugment.data.torchvision import CIFAR, load_cifar
from teachaugment.errors import UserError
from teachaugment.files import write_atomically
from teachaugment.terminal import say_here

Arrays = tuple[np.ndarray, np.ndarray]  # images, with channels last, and labels


def make_missing(folder: Path, root: Path) -> None:
    """Write those that are not in the folder; one that cannot be had is said and left out."""
    for name in CIFAR:
        path = folder / f"{name}.npz"
        if path.exists():
            continue
        try:
            data = load_cifar(name, Reading(root=str(root)))
        except UserError as error:
            say_here(f"teachaugment: {error}")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        train, test = _arrays(data.train), _arrays(data.test)
        write_atomically(path, partial(_put, train, test))
        say_here(f"{path}: {len(train[1]):,} training and {len(test[1]):,} test images")


def _arrays(split: Split | StreamedSplit) -> Arrays:
    assert isinstance(split, Split) and split.label is not None  # CIFAR is in memory
    return split.image.permute(0, 2, 3, 1).contiguous().numpy(), split.label.numpy()


def _put(train: Arrays, test: Arrays, file: BinaryIO) -> None:
    np.savez(file, x_train=train[0], y_train=train[1], x_test=test[0], y_test=test[1])
