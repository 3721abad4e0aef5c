"""Images in tar files, as WebDataset writes them: for data that are too many files, or too large for a local disk.

A sample is a run of members with one name and several endings: ``0001.jpg`` with ``0001.cls`` (or ``0001.json``). The
headers are read once and remembered, so that any image can be read by its position: the order is a function of seed and
epoch, whatever the number of processes and workers, and an epoch can be taken up anywhere. Nothing is unpacked.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import ClassVar

import torch
from PIL import Image
from torch import Tensor

from teachaugment import seeds
from teachaugment.data import cache
from teachaugment.data.decode import open_image
from teachaugment.data.finish import Sources, finish
from teachaugment.data.folders import SPLIT_NAMES
from teachaugment.data.reading import Reading
from teachaugment.data.shard_index import Member, index_all
from teachaugment.data.source import Source
from teachaugment.data.splits import DataSet
from teachaugment.errors import UserError

MOST_SHARDS = 10**6  # that braces may stand for
WINDOW = 16  # shards whose images are mixed with each other: so many files are read from at a time


@dataclass(eq=False)
class ShardSource(Source):
    """Images at positions in shards."""

    shards: list[Path]
    where: Tensor  # [N, 3] int64: number of the shard, offset and length in it

    looked_at: ClassVar[int | None] = 16

    def open(self, index: int) -> Image.Image:
        number, offset, size = self.where[index].tolist()
        try:
            with self.shards[number].open("rb") as file:
                file.seek(offset)
                data = file.read(size)
        except OSError as error:
            raise UserError(f"cannot read the shard {self.shards[number]}: {error.strerror}") from None
        return open_image(io.BytesIO(data), self.name(index))

    def name(self, index: int) -> str:
        return f"{self.keys[index]} in {self.shards[int(self.where[index, 0])]}"

    def select(self, rows: Tensor) -> ShardSource:
        return replace(super().select(rows), where=self.where[rows])

    def fingerprint(self) -> str:
        used = [str(self.shards[i]) for i in self.where[:, 0].unique().tolist()]
        return cache.fingerprint(Path("/"), used, self.where.tolist())

    def order(self, seed: int, epoch: int) -> Tensor:
        """Shards in random order, and of each ``WINDOW`` of them the images in random order."""
        random = seeds.generator("cpu", seed, "order", epoch)
        window = torch.randperm(len(self.shards), generator=random)[self.where[:, 0]] // WINDOW
        rows = torch.randperm(len(self), generator=random)
        return rows[window[rows].argsort(stable=True)]


def load_shards(source: str | Path, reading: Reading) -> DataSet:
    """``wds:`` and a folder, or paths with ``*``, ``{train,val}`` and ``{000..127}`` in them.

    What a shard is for stands in its name or in that of its folder: train, test, or val (what is tested on if there is
    no test). Without any such name, or without a test split, a fifth of the images is set apart.
    """
    pattern = str(source).removeprefix("wds:")
    found = _find(pattern)
    shards = [path for paths in found.values() for path in paths]
    indexed = dict(zip(shards, index_all(shards), strict=True))
    classes = _classes({label for path in found["train"] for label in {member.label for member in indexed[path]}})
    if len(classes) < 2:
        raise UserError(f"wds:{pattern} has only one class ({classes[0]}); classification needs at least two")
    splits = {name: _source(paths, indexed, classes) for name, paths in found.items() if paths}
    test = splits.pop("test", None) or splits.pop("val", None)
    sources = Sources(splits["train"], test, splits.get("val"), "shards for validation")
    name = found["train"][0].resolve().parent.name.lower()
    return finish(name, f"wds:{pattern}", sources, classes, reading)


def _find(pattern: str) -> dict[str, list[Path]]:
    """The shards of each split, sorted by name."""
    if re.match(r"[a-z][a-z0-9]+:", pattern) and not Path(pattern).exists():
        kind = pattern.partition(":")[0]
        raise UserError(f"wds:{pattern}: shards are files; {kind}: is not read, mount it or copy it to a file system")
    root = Path(pattern).expanduser()
    if root.is_dir():
        paths = [path for path in root.rglob("*.tar") if not path.name.startswith(".")]
    else:
        paths = [Path(name) for text in _braces(str(root)) for name in _matching(text)]
    if not paths:
        raise UserError(
            f"no shards match wds:{pattern}; expected a folder, or paths such as DATA/train-{{000..127}}.tar"
        )
    found: dict[str, list[Path]] = {"train": [], "val": [], "test": []}
    for path in sorted(set(paths)):
        found[_purpose(path)].append(path)
    if not found["train"]:
        raise UserError(f"wds:{pattern} has no shards for training, only {', '.join(k for k, v in found.items() if v)}")
    return found


def _braces(text: str) -> Iterator[str]:
    """``a-{x,y}`` and ``a-{000..127}`` written out."""
    match = re.search(r"\{([^{}]*)\}", text)
    if match is None:
        yield text
        return
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", match[1])
    if numbers:
        low, high = int(numbers[1][:20]), int(numbers[2][:20])
        if high - low >= MOST_SHARDS:
            raise UserError(f"{match[0]} stands for more than {MOST_SHARDS:,} shards")
        parts = [str(i).zfill(len(numbers[1])) for i in range(low, high + 1)]
    else:
        parts = match[1].split(",")
    for part in parts:
        yield from _braces(text[: match.start()] + part + text[match.end() :])


def _matching(text: str) -> list[str]:
    """A shard that is named must be there; one that is only described need not."""
    if glob(text):
        return glob(text)
    if any(sign in text for sign in "*?["):
        return []
    raise UserError(f"no such shard: {text}")


def _purpose(path: Path) -> str:
    words = re.split(r"[^a-z]+", path.name.lower())
    return next((SPLIT_NAMES[word] for word in (*words, path.parent.name.lower()) if word in SPLIT_NAMES), "train")


def _classes(labels: set[str]) -> list[str]:
    """Names in alphabetical order, numbers in theirs."""
    return sorted(labels, key=int) if all(label.isdecimal() for label in labels) else sorted(labels)


def _source(paths: list[Path], indexed: dict[Path, list[Member]], classes: list[str]) -> ShardSource:
    number = {name: k for k, name in enumerate(classes)}
    keys, labels, where = [], [], []
    for shard, path in enumerate(paths):
        for member in indexed[path]:
            if member.label not in number:
                raise UserError(f"{path} has the class {member.label!r}, which the training shards do not have")
            keys.append(member.key)
            labels.append(number[member.label])
            where.append((shard, member.offset, member.size))
    return ShardSource(
        keys, torch.tensor(labels, dtype=torch.int64), paths, torch.tensor(where, dtype=torch.int64).reshape(-1, 3)
    )
