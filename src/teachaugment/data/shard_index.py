"""What is in tar shards: read from their headers once, and remembered until a shard changes."""

from __future__ import annotations

import json
import stat
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from teachaugment.data import cache
from teachaugment.data.opened import endings
from teachaugment.errors import UserError
from teachaugment.progress import progress

LABELS = ("cls", "label", "class", "class_name")  # in a .json member
LONGEST_LABEL = 1_000_000  # bytes of a .cls or .json member
LONGEST_NAME = 1000  # characters of a class's name
PACKED = (b"\x1f\x8b", b"BZ", b"\xfd7", b"(\xb5")  # how gzip, bzip2, xz and zstandard begin


class Member(NamedTuple):
    """One image in a shard."""

    key: str
    offset: int
    size: int
    label: str


def index_all(shards: list[Path]) -> list[list[Member]]:
    """The images of each shard."""
    pool = ThreadPoolExecutor(max_workers=8)
    try:
        return list(progress(pool.map(_remembered, shards), len(shards), "indexing", "shards"))
    finally:  # after an error or Ctrl-C nobody waits for the rest
        pool.shutdown(wait=False, cancel_futures=True)


def _remembered(path: Path) -> list[Member]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"cannot read the shard {path}: it is not a regular file")
        key = cache.fingerprint(path.parent, [path.name], "shard")
    except OSError as error:
        raise UserError(f"cannot read the shard {path}: {error.strerror}") from None

    def read(saved: Any) -> list[Member]:
        return [Member(str(key), int(offset), int(size), str(label)) for key, offset, size, label in saved]

    return cache.made_once("shards", key, lambda: list(_index(path)), read)


def _index(path: Path) -> Iterator[Member]:
    """What a shard holds. Members that are neither image nor label do not matter."""
    known = endings()
    samples: dict[str, dict[str, Any]] = {}
    try:
        length = path.stat().st_size
        with tarfile.open(path, "r:", tarinfo=_header(length)) as tar:
            last = -1
            for member in tar:
                if member.offset <= last or not 0 <= member.size <= length:  # an extended header may say so too
                    raise tarfile.ReadError(f"{member.name} has an impossible size")
                last = member.offset
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
    except (OSError, tarfile.TarError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise UserError(
            f"cannot read the shard {path}: {getattr(error, 'strerror', None) or error or type(error).__name__}"
        ) from None
    if not samples:
        raise UserError(f"the shard {path} is empty; remove it")
    for key, sample in samples.items():
        if "image" not in sample:
            raise UserError(f"sample {key} in the shard {path} has no image; its endings must be such as .jpg and .cls")
        offset, size = sample["image"]
        yield Member(key, offset, size, _label(sample, key, path))


def _header(length: int) -> type[tarfile.TarInfo]:
    """A header of a member of a file of this length: with a size below 0, a reader would go back and never end."""

    class Header(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Any:
            found = super().frombuf(buf, encoding, errors)
            if not 0 <= found.size <= length:
                raise tarfile.ReadError(f"{found.name} has an impossible size")
            return found

    return Header


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    if file is None or member.size > LONGEST_LABEL:
        raise tarfile.ReadError(f"{member.name} is not a label")
    return file.read().decode("utf-8", "replace").strip()


def _label(sample: dict[str, Any], key: str, path: Path) -> str:
    label: Any = sample.get("cls")
    try:
        if not label:
            about = json.loads(sample["json"])
            label = next(about[name] for name in LABELS if name in about)
        if isinstance(label, (int, str)) and (text := str(label).strip()):
            if len(text) > LONGEST_NAME:
                raise UserError(f"sample {key} in the shard {path} has a class name of {len(text):,} characters")
            return text
    except (KeyError, ValueError, TypeError, StopIteration, RecursionError):
        pass
    raise UserError(
        f"sample {key} in the shard {path} has no class; it needs a .cls member, or a .json member with {LABELS[0]!r}"
    )
