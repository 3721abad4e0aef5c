"""Files that would keep a reader for ever: told of within seconds, and each image is there once."""

from __future__ import annotations

import io
import os
import shutil
import signal
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from teachaugment.data import shard_index
from teachaugment.data.files import image_files
from teachaugment.data.folder import _list
from teachaugment.errors import UserError

WITHIN = 60  # seconds, of a slow machine


def picture() -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(content, "PNG")
    return content.getvalue()


def shard(path: Path, samples: int = 6) -> None:
    with tarfile.open(path, "w") as tar:
        for i in range(samples):
            for ending, content in (("png", picture()), ("cls", b"ab"[i % 2 : i % 2 + 1])):
                member = tarfile.TarInfo(f"{i:04}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def resized(path: Path, number: bytes) -> None:
    """The size of the second member becomes another one, with a right checksum."""
    content = bytearray(path.read_bytes())
    at = next(i for i in range(512, len(content), 512) if content[i : i + 4] == b"0000")
    content[at + 124 : at + 136] = number.ljust(12, b"\0")
    content[at + 148 : at + 156] = b" " * 8
    content[at + 148 : at + 156] = f"{sum(content[at : at + 512]):06o}\0 ".encode()
    path.write_bytes(content)


NEGATIVE = b"\xff" * 10 + (2**16 - 1024).to_bytes(2, "big")  # -1024, as numbers of 256 are written
SIZES = {"below zero": NEGATIVE, "beyond the end": b"77777777777\0", "back to the start": b"\xff" * 10 + b"\xf0\x00"}


@pytest.mark.parametrize("size", SIZES)
def test_a_shard_with_an_impossible_size_ends_in_one_line(lab, record, tmp_path, size):
    shard(tmp_path / "train-0.tar")
    resized(tmp_path / "train-0.tar", SIZES[size])
    process = lab.start("train", "--data", f"wds:{tmp_path}", "--device", "cpu")
    assert process.wait(WITHIN) == 2 and len(process.said().splitlines()) == 1, process.said()
    assert "train-0.tar" in process.said() and "impossible size" in process.said()
    record(f"a shard with a member whose size is {size}: one line", 1)


def test_pipes_in_the_place_of_images_and_shards(lab, record, photos, tmp_path):
    os.mkfifo(photos / "cat" / "pipe.png")
    shards = tmp_path / "shards"
    shards.mkdir()
    shard(shards / "train-0.tar")
    os.mkfifo(shards / "train-1.tar")
    for data in (photos, f"wds:{shards}"):
        process = lab.start("train", "--data", data, "--device", "cpu")
        assert process.wait(WITHIN) == 2 and len(process.error_lines()) == 1, process.said()
        assert "not a regular file" in process.said()
    record("a pipe in the place of an image or a shard: one line", 2)


def test_links_in_a_circle_multiply_nothing(record, photos):
    images = {name: image_files(photos / name) for name in ("cat", "dog")}
    (photos / "cat" / "again").symlink_to(".")
    (photos / "cat" / "up").symlink_to("..")
    (photos / "dog" / "root").symlink_to("/")
    (photos / "all").symlink_to(".")
    (photos / "above").symlink_to("..")
    (photos / "dog" / "self").symlink_to("self")
    assert {name: image_files(photos / name) for name in ("cat", "dog")} == images
    assert list(_list(photos)) == ["cat", "dog"]
    record("links in a circle, to the folder above or to all there is: every image once", 6)


def test_a_folder_elsewhere_is_still_followed(photos, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(photos / "cat", elsewhere / "more")
    (photos / "cat" / "link").symlink_to(elsewhere)
    assert len(image_files(photos / "cat")) == 50


def test_a_class_name_without_end_is_refused(tmp_path):
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for ending, content in (("png", picture()), ("cls", b"x" * 5000)):
            member = tarfile.TarInfo(f"0.{ending}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    with pytest.raises(UserError, match="class name of 5,000 characters"):
        list(shard_index._index(tmp_path / "s.tar"))


def test_ctrl_c_does_not_wait_for_threads_that_read(monkeypatch, tmp_path):
    """Somebody who has asked to stop does not wait for a shard on a slow disk."""
    release = threading.Event()
    monkeypatch.setattr(shard_index, "_remembered", lambda path: release.wait(60))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        shard_index.index_all([tmp_path / "0.tar"])
    release.set()
    signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 10
