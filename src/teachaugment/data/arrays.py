"""Arrays saved by numpy: one ``.npz`` file with x_train, y_train, x_test and y_test."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from teachaugment.data.finish import finish_in_memory
from teachaugment.data.reading import Reading
from teachaugment.data.splits import DataSet, Split
from teachaugment.errors import UserError

FAIR_BYTES, FAIR_RATIO = 2**30, 100  # unpacked: more than both of these is no collection of images
KEYS = ("x_train", "y_train", "x_test", "y_test")


def load_arrays(source: str | Path, reading: Reading) -> DataSet:
    """Images uint8 [N, H, W, C] or [N, H, W], labels any integers [N]; the classes are the labels found in training."""
    path, size = Path(source).expanduser(), reading.shape
    x_train, y_train, x_test, y_test = _read(path)
    train_image, test_image = _images(path, "x_train", x_train), _images(path, "x_test", x_test)
    if train_image.shape[1:] != test_image.shape[1:]:
        raise UserError(f"{path}: x_train has shape {x_train.shape} and x_test {x_test.shape}; all but N must agree")
    height, width = train_image.shape[2:]
    if size is not None and (height, width) != size:
        raise UserError(
            f"{path} has images of {height} x {width}, not {size[0]} x {size[1]}; leave size out for arrays"
        )
    _check_labels(path, "y_train", y_train, len(train_image))
    _check_labels(path, "y_test", y_test, len(test_image))
    values, train_label = np.unique(y_train.reshape(-1), return_inverse=True)
    if len(values) < 2:
        raise UserError(f"{path}: y_train has only one class ({values[0]}); classification needs at least two")
    unknown = np.setdiff1d(y_test, values)
    if len(unknown):
        raise UserError(f"{path}: y_test has classes that y_train does not have: {', '.join(map(str, unknown[:10]))}")
    train = Split(train_image, torch.from_numpy(train_label.reshape(-1).astype(np.int64)))
    test = Split(test_image, torch.from_numpy(np.searchsorted(values, y_test.reshape(-1)).astype(np.int64)))
    return finish_in_memory(path.stem.lower(), train, test, [str(v) for v in values], reading)


def _read(path: Path) -> list[NDArray[Any]]:
    if not path.is_file():
        raise UserError(f"no such file: {path}")
    try:
        # Without pickle: a data file from a stranger must not be able to run code.
        with np.load(path, allow_pickle=False) as file:
            _check_size(path)
            missing = [key for key in KEYS if key not in file]
            if missing:
                raise UserError(f"{path} lacks {', '.join(missing)}; it must have {', '.join(KEYS)}")
            return [file[key] for key in KEYS]
    except UserError:
        raise
    except MemoryError:
        raise UserError(f"cannot read {path}: it does not fit into memory") from None
    except Exception as error:  # numpy and zipfile have many words for what is damaged, encrypted or no archive at all
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, (AttributeError, TypeError)):
            reason = "it is no archive of arrays"
        raise UserError(f"cannot read {path}: {reason}; expected an .npz of plain arrays {', '.join(KEYS)}") from None


def _check_size(path: Path) -> None:
    """Refuse a small file that unpacks to fill the memory."""
    with zipfile.ZipFile(path) as file:
        size = sum(member.file_size for member in file.infolist())
    if size > max(FAIR_BYTES, FAIR_RATIO * path.stat().st_size):
        raise UserError(f"{path} is a decompression bomb: {path.stat().st_size:,} bytes unpack to {size:,}")


def _images(path: Path, key: str, array: NDArray[Any]) -> torch.Tensor:
    """[N, C, H, W] from what the file has."""
    if array.dtype != np.uint8 or array.ndim not in (3, 4) or 0 in array.shape:
        is_now = f"{array.dtype} of shape {array.shape}"
        raise UserError(f"{path}: {key} is {is_now}; it must be uint8 [N, H, W, C] or [N, H, W], and not empty")
    if array.ndim == 4 and array.shape[1] <= 4 < array.shape[3]:
        raise UserError(f"{path}: {key} of shape {array.shape} has its channels first; it must be [N, H, W, C]")
    array = array[:, None] if array.ndim == 3 else array.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(array))


def _check_labels(path: Path, key: str, array: NDArray[Any], n: int) -> None:
    """Labels may come as [N] or, as in CIFAR's files, [N, 1]."""
    if not np.issubdtype(array.dtype, np.integer) or array.shape not in ((n,), (n, 1)):
        raise UserError(f"{path}: {key} is {array.dtype} of shape {array.shape}; it must be integers of shape ({n},)")
