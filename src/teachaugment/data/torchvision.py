"""CIFAR-10, CIFAR-100 and ImageNet through torchvision."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from teachaugment.data.finish import finish_in_memory
from teachaugment.data.folder import load_folder
from teachaugment.data.reading import Reading
from teachaugment.data.splits import DataSet, Split
from teachaugment.errors import UserError
from teachaugment.terminal import say_here

CIFAR = {"cifar10": "CIFAR10", "cifar100": "CIFAR100"}
SILENCE = 30.0  # seconds without an answer after which a download is given up
IMAGENET_SIZE = 224
IMAGENET_CENTRE = 224 / 256  # evaluation: shorter side to 256, then the middle 224
ARCHIVES = ("ILSVRC2012_devkit_t12.tar.gz", "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar")


def load_cifar(source: str | Path, reading: Reading) -> DataSet:
    """All 50,000 training and 10,000 test images in memory; downloaded to the root if they are not there."""
    import torchvision

    name, root = str(source), reading.home
    kind: Any = getattr(torchvision.datasets, CIFAR[name])
    try:
        parts = [kind(root, train=train) for train in (True, False)]
    except (RuntimeError, OSError):
        parts = _download(name, kind, root)
    train, test = (
        Split(
            torch.from_numpy(part.data).permute(0, 3, 1, 2).contiguous(), torch.tensor(part.targets, dtype=torch.int64)
        )
        for part in parts
    )
    height, width = train.image.shape[2:]
    if reading.shape not in (None, (height, width)):
        raise UserError(f"the images of {name} are {height} x {width}; leave data.size out")
    return finish_in_memory(name, train, test, list(parts[0].classes), reading)


def _download(name: str, kind: Any, root: Path) -> list[Any]:
    say_here(f"downloading {name} to {root}")
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE)
    try:
        root.mkdir(parents=True, exist_ok=True)
        return [kind(root, train=train, download=True) for train in (True, False)]
    except (RuntimeError, OSError, EOFError) as error:  # no network, a full disk, a file cut short
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{name} is not in {root} and cannot be downloaded ({reason}); put {kind.filename} from {kind.url} there, "
            "or name the folder that has it with --data.root"
        ) from None
    finally:
        socket.setdefaulttimeout(before)


def load_imagenet(source: str | Path, reading: Reading) -> DataSet:
    """A root with train/ and val/, or with the three archives, which are unpacked once; nothing is downloaded."""
    root = reading.home
    if not ((root / "train").is_dir() and (root / "val").is_dir()):
        missing = [name for name in ARCHIVES if not (root / name).is_file()]
        if missing:
            raise UserError(
                f"imagenet is not in {root}: it has neither train/ and val/ nor {', '.join(missing)}; ImageNet cannot "
                "be downloaded without an account: name the folder that has it with --data.root"
            )
        _unpack(root)
    sized = replace(reading, size=reading.size or IMAGENET_SIZE)
    return load_folder(root, sized, name="imagenet", centre=IMAGENET_CENTRE)


def _unpack(root: Path) -> None:
    import torchvision

    say_here(f"unpacking ImageNet in {root}")
    try:
        for split in ("train", "val"):
            torchvision.datasets.ImageNet(root, split=split)
    except Exception as error:  # torchvision and scipy have many ways to say that an archive is damaged
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"cannot unpack ImageNet in {root}: {reason}") from None
