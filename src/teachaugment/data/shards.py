"""Images in tar files, as WebDataset writes them: for data that are too many files, or too large for a local disk.

A sample is a run of members with one name and several endings: ``0001.jpg`` with ``0001.cls`` (or ``0001.json``). The
headers are read once and remembered, so that any image can be read by its position: the order is a function of seed and
epoch, whatever the number of processes and workers, and an epoch can be taken up anywhere. Nothing is unpacked.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor

from teachaugment import seeds
from teachaugment.data import cache
from teachaugment.data.decode import BadImage, bad, endings, fit, opened
from teachaugment.data.images import LARGE, SMALL, TEST_FRACTION, FolderSplit, finish
from teachaugment.data.splits import DataSet, few, hold_out
from teachaugment.errors import UserError
from teachaugment.progress import progress

WINDOW = 16  # shards whose images are mixed with each other: so many files are read from at a time
LABELS = ("cls", "label", "class", "class_name")  # in a .json member
LONGEST_LABEL = 1_000_000  # bytes of a .cls or .json member
PACKED = (b"\x1f\x8b", b"BZ", b"\xfd7", b"(\xb5")  # how gzip, bzip2, xz and zstandard begin
SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


class Sample(NamedTuple):
    """One image in a shard."""

    key: str
    offset: int
    size: int
    label: str


@dataclass
class ShardSplit(FolderSplit):
    """Images at positions in shards; ``paths`` holds their keys."""

    shards: list[Path] = field(default_factory=list)
    where: Tensor = field(default_factory=lambda: torch.zeros(0, 3, dtype=torch.int64))  # [N, shard, offset, size]

    def select(self, rows: Tensor) -> ShardSplit:
        keys = [self.paths[i] for i in rows.tolist()]
        return replace(self, paths=keys, label=self.label[rows], where=self.where[rows])

    def order(self, seed: int, epoch: int) -> Tensor:
        """Shards in random order, and of each ``WINDOW`` of them the images in random order."""
        random = seeds.generator("cpu", seed, "order", epoch)
        window = torch.randperm(len(self.shards), generator=random)[self.where[:, 0]] // WINDOW
        rows = torch.randperm(len(self), generator=random)
        return rows[window[rows].argsort(stable=True)]

    def read(self, index: int, seed: int, epoch: int) -> Tensor:
        crop = torch.rand(4, generator=seeds.generator("cpu", seed, "crop", epoch, index)) if self.crop else None
        return fit(self.open(index), self.name(index), self.size, crop, self.centre)

    def open(self, index: int) -> Image.Image:
        number, offset, size = self.where[index].tolist()
        try:
            with self.shards[number].open("rb") as file:
                file.seek(offset)
                data = file.read(size)
        except OSError as error:
            raise UserError(f"cannot read the shard {self.shards[number]}: {error.strerror}") from None
        try:
            return opened(io.BytesIO(data))
        except Exception as error:  # Pillow's readers raise almost anything on a broken file
            raise bad(self.name(index), error) from None

    def name(self, index: int) -> str:
        return f"{self.paths[index]} in {self.shards[int(self.where[index, 0])]}"

    def fingerprint(self) -> str:
        used = [str(self.shards[i]) for i in self.where[:, 0].unique().tolist()]
        return cache.fingerprint(Path("/"), used, self.where.tolist(), self.size, self.centre)


def load_shards(
    pattern: str,
    *,
    size: tuple[int, int] | None = None,
    seed: int = 0,
    per_class: int | None = None,
    val_fraction: float = 0.0,
    in_memory: str = "auto",
    bad_images: str = "error",
) -> DataSet:
    """``pattern``, without its ``wds:``: a folder, or paths with ``*``, ``{train,val}`` and ``{000..127}`` in them.

    What a shard is for stands in its name or in that of its folder: train, test, or val (what is tested on if there is
    no test). Without any such name, or without a test split, a fifth of the images is set apart.
    """
    found = _find(pattern)
    shards = [path for paths in found.values() for path in paths]
    indexed = dict(zip(shards, _index_all(shards), strict=True))
    classes = _classes({label for path in found["train"] for label in {sample.label for sample in indexed[path]}})
    if len(classes) < 2:
        raise UserError(f"wds:{pattern} has only one class ({classes[0]}); classification needs at least two")
    splits = {name: _split(paths, indexed, classes) for name, paths in found.items() if paths}
    train: FolderSplit = splits["train"]
    test: FolderSplit | None = splits.pop("test", None) or splits.pop("val", None)
    val: FolderSplit | None = splits.get("val")
    if test is None:
        train, test = hold_out(train, TEST_FRACTION, seed)
    assert test is not None
    if val is None:
        train, val = hold_out(train, val_fraction, seed)
    elif val_fraction:
        raise UserError(f"wds:{pattern} has shards for validation; leave val_fraction at 0")
    train = few(train, per_class, seed)
    shape = size or _natural_size(splits["train"])
    for split in [train, test, *([val] if val is not None else [])]:
        split.size, split.bad_images = shape, bad_images
    name = found["train"][0].resolve().parent.name.lower()
    return finish(name, train, test, val, classes, shape, seed, in_memory)


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
        low, high = int(numbers[1]), int(numbers[2])
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
    return next((SPLITS[word] for word in (*words, path.parent.name.lower()) if word in SPLITS), "train")


# --- the index ----------------------------------------------------------------------------------------------------


def _index_all(shards: list[Path]) -> list[list[Sample]]:
    with ThreadPoolExecutor(max_workers=8) as pool:
        try:
            return list(progress(pool.map(_remembered, shards), len(shards), "indexing", "shards"))
        except UserError:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _remembered(path: Path) -> list[Sample]:
    try:
        key = cache.fingerprint(path.parent, [path.name], "shard")
    except OSError as error:
        raise UserError(f"cannot read the shard {path}: {error.strerror}") from None

    def read(saved: Any) -> list[Sample]:
        return [Sample(str(key), int(offset), int(size), str(label)) for key, offset, size, label in saved]

    return cache.kept("shards", key, lambda: list(_index(path)), read)


def _index(path: Path) -> Iterator[Sample]:
    """What a shard holds. Members that are neither image nor label do not matter."""
    known = endings()
    samples: dict[str, dict[str, Any]] = {}
    try:
        length = path.stat().st_size
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if not member.isfile():
                    continue
                folder, slash, name = member.name.rpartition("/")
                key, _, ending = name.partition(".")
                sample = samples.setdefault(f"{folder}{slash}{key}", {})
                if f".{ending.lower()}".endswith(known):
                    if member.issparse() or member.offset_data + member.size > length:
                        raise tarfile.ReadError(f"{member.name} is not whole")
                    sample["image"] = (member.offset_data, member.size)
                elif ending.lower() in ("cls", "json"):
                    sample[ending.lower()] = _text(tar, member)
    except tarfile.ReadError as error:
        with path.open("rb") as file:
            packed = file.read(2) in PACKED
        reason = "it is compressed; shards are plain tar files" if packed else f"it is damaged ({error})"
        raise UserError(f"cannot read the shard {path}: {reason}") from None
    except (OSError, tarfile.TarError) as error:
        raise UserError(f"cannot read the shard {path}: {getattr(error, 'strerror', None) or error}") from None
    if not samples:
        raise UserError(f"the shard {path} is empty; remove it")
    for key, sample in samples.items():
        if "image" not in sample:
            raise UserError(f"sample {key} in the shard {path} has no image; its endings must be such as .jpg and .cls")
        offset, size = sample["image"]
        yield Sample(key, offset, size, _label(sample, key, path))


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    if file is None or member.size > LONGEST_LABEL:
        raise tarfile.ReadError(f"{member.name} is not a label")
    return file.read().decode("utf-8", "replace").strip()


def _label(sample: dict[str, Any], key: str, path: Path) -> str:
    if sample.get("cls"):
        return sample["cls"]
    try:
        about = json.loads(sample["json"])
        label = next(about[name] for name in LABELS if name in about)
        if isinstance(label, (int, str)) and str(label).strip():
            return str(label).strip()
    except (KeyError, ValueError, TypeError, StopIteration):
        pass
    raise UserError(
        f"sample {key} in the shard {path} has no class; it needs a .cls member, or a .json member with {LABELS[0]!r}"
    )


# --- splits -------------------------------------------------------------------------------------------------------


def _classes(labels: set[str]) -> list[str]:
    """Names in alphabetical order, numbers in theirs."""
    return sorted(labels, key=int) if all(label.isdigit() for label in labels) else sorted(labels)


def _split(paths: list[Path], indexed: dict[Path, list[Sample]], classes: list[str]) -> ShardSplit:
    number = {name: k for k, name in enumerate(classes)}
    keys, labels, where = [], [], []
    for shard, path in enumerate(paths):
        for sample in indexed[path]:
            if sample.label not in number:
                raise UserError(f"{path} has the class {sample.label!r}, which the training shards do not have")
            keys.append(sample.key)
            labels.append(number[sample.label])
            where.append((shard, sample.offset, sample.size))
    label = torch.tensor(labels, dtype=torch.int64)
    return ShardSplit(
        paths[0].parent, keys, label, (LARGE, LARGE), shards=paths, where=torch.tensor(where, dtype=torch.int64)
    )


def _natural_size(split: ShardSplit) -> tuple[int, int]:
    """The size of the first images if they agree and are small, otherwise 224."""
    shapes = set()
    for i in range(min(len(split), 16)):
        try:
            shapes.add(split.open(i).size[::-1])
        except BadImage:
            continue
    common = shapes.pop() if len(shapes) == 1 else (LARGE, LARGE)
    return common if max(common) <= SMALL else (LARGE, LARGE)
