"""Tar shards: what is in them, who reads which image when, and what is wrong with a shard, in one line."""

from __future__ import annotations

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.commands import cli
from teachaugment.data import Reading, load
from teachaugment.data.loader import batches
from teachaugment.data.shards import WINDOW, ShardSource, _braces
from teachaugment.errors import UserError


def picture(number: int, size: int = 12) -> bytes:
    data = io.BytesIO()
    Image.fromarray(np.full((size, size, 3), number % 256, np.uint8)).save(data, "png")
    return data.getvalue()


def write(path, *members: tuple[str, bytes]):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    return path


def samples(first: int, count: int, classes=("cat", "dog")):
    return [
        member
        for i in range(first, first + count)
        for member in ((f"./{i:04}.png", picture(i)), (f"./{i:04}.cls", classes[i % len(classes)].encode()))
    ]


@pytest.fixture
def folder(tmp_path):
    """Twenty shards of five images for training, two for validation: an image is as grey as its number."""
    for k in range(20):
        write(tmp_path / "photos" / f"photos-train-{k:03}.tar", *samples(5 * k, 5))
    for k in range(2):
        write(tmp_path / "photos" / f"photos-val-{k:03}.tar", *samples(100 + 5 * k, 5))
    return tmp_path / "photos"


def streamed(folder, **options):
    return load(f"wds:{folder}", Reading(in_memory="never", **options))


def epoch(split, size=8, **keywords):
    return list(batches(split, size, **{"seed": 0, "epoch": 0, "shuffle": True, "device": "cpu", **keywords}))


def greys(found):
    return [round(float(x) * 255) for batch in found for x in batch.image[:, 0, 5, 5]]


def test_images_classes_and_splits_come_from_the_shards(folder):
    data = streamed(folder)
    assert isinstance(data.train.source, ShardSource) and data.size == (12, 12) and data.name == "photos"
    assert data.classes == ["cat", "dog"] and (len(data.train), len(data.test), data.val) == (100, 10, None)
    found = epoch(data.test, shuffle=False)
    assert greys(found) == list(range(100, 110))
    assert torch.cat([batch.label for batch in found]).tolist() == [0, 1] * 5


def test_small_shards_are_held_in_memory_and_have_the_same_images(folder):
    memory, disk = load(f"wds:{folder}"), streamed(folder)
    assert memory.train.in_memory and not disk.train.in_memory
    assert greys(epoch(memory.test, shuffle=False)) == greys(epoch(disk.test, shuffle=False))


@pytest.mark.parametrize(
    "pattern", ["photos-*.tar", "photos-{train,val}-*.tar", "photos-{train-{000..019},val-00?}.tar"]
)
def test_a_pattern_names_shards(folder, pattern):
    data = streamed(folder / pattern)
    assert (len(data.train), len(data.test)) == (100, 10)


def test_braces_count_with_leading_zeros():
    assert list(_braces("a{08..11}.{x,y}")) == [f"a{n}.{e}" for n in ("08", "09", "10", "11") for e in "xy"]


def test_folders_may_say_what_their_shards_are_for_and_val_is_for_validation_beside_test(tmp_path):
    for name, first in (("train", 0), ("val", 20), ("test", 40)):
        write(tmp_path / name / "0.tar", *samples(first, 10))
    data = streamed(tmp_path)
    assert (len(data.train), len(data.test), len(data.val)) == (10, 10, 10)
    assert sorted(greys(epoch(data.val, shuffle=False))) == list(range(20, 30))
    with pytest.raises(UserError, match="leave val_fraction at 0"):
        streamed(tmp_path, val_fraction=0.1)


def test_without_a_test_split_a_fifth_is_set_apart(tmp_path):
    write(tmp_path / "a.tar", *samples(0, 40))
    data = streamed(tmp_path, per_class=10)
    assert (len(data.train), len(data.test)) == (20, 8)
    assert not set(greys(epoch(data.test, shuffle=False))) & set(greys(epoch(data.train, shuffle=False)))


def test_classes_may_be_numbers_or_stand_in_json(tmp_path):
    def sample(i, label):
        return (f"{i}.png", picture(i)), (f"{i}.json", json.dumps({"label": label, "other": 1}).encode())

    write(tmp_path / "numbers.tar", *(m for i in range(24) for m in sample(i, i % 12)))
    assert streamed(tmp_path / "numbers.tar").classes == [str(i) for i in range(12)]


def test_the_order_is_a_permutation_of_few_shards_at_a_time(folder):
    train = streamed(folder).train
    order, shard = train.order(0, 0), train.source.where[:, 0]
    assert order.sort().values.tolist() == list(range(100))
    assert (
        len(shard[order[: 5 * WINDOW]].unique()) == WINDOW and len(shard[order[5 * WINDOW :]].unique()) == 20 - WINDOW
    )
    assert torch.equal(order, train.order(0, 0))
    assert not torch.equal(order, train.order(0, 1)) and not torch.equal(order, train.order(1, 0))
    assert shard[order[:20]].unique().numel() > 5


def test_neither_workers_nor_a_pause_nor_the_number_of_processes_change_what_is_read(folder):
    train = streamed(folder).train
    whole = epoch(train)
    assert greys(epoch(train, workers=2)) == greys(whole)
    assert greys(epoch(train, start=5)) == greys(whole[5:])
    ranks = [epoch(train, 4, rank=rank, world=2) for rank in range(2)]
    together = [greys([a]) + greys([b]) for a, b in zip(*ranks, strict=True)]
    assert together == [greys([batch]) for batch in whole]


def test_the_headers_are_read_once_until_a_shard_changes(folder, monkeypatch):
    streamed(folder)
    opened = []
    real = tarfile.open
    monkeypatch.setattr(
        tarfile, "open", lambda path, *rest, **how: opened.append(path.name) or real(path, *rest, **how)
    )
    streamed(folder)
    assert opened == []
    monkeypatch.undo()
    write(folder / "photos-val-001.tar", *samples(105, 7))
    monkeypatch.setattr(
        tarfile, "open", lambda path, *rest, **how: opened.append(path.name) or real(path, *rest, **how)
    )
    assert len(streamed(folder).test) == 12 and opened == ["photos-val-001.tar"]


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: cut(path, 700), "photos-train-003.tar: it is damaged"),
        (lambda path: cut(path, 3), "photos-train-003.tar: it is damaged"),
        (lambda path: path.write_bytes(b"x" * 3000), "photos-train-003.tar: it is damaged"),
        (lambda path: path.write_bytes(gzip.compress(path.read_bytes())), "photos-train-003.tar: it is compressed"),
        (lambda path: write(path), "photos-train-003.tar is empty"),
        (lambda path: write(path, ("7.png", picture(7))), "sample 7 in the shard .*003.tar has no class"),
        (lambda path: write(path, ("7.png", picture(7)), ("7.json", b"{}")), "sample 7 .* has no class"),
        (lambda path: write(path, ("7.cls", b"cat")), "sample 7 .* has no image"),
    ],
)
def test_a_bad_shard_is_named_in_one_line(folder, spoil, says):
    spoil(folder / "photos-train-003.tar")
    with pytest.raises(UserError, match=says) as error:
        streamed(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("nowhere/*.tar", "no shards match"),
        ("photos/photos-train-{000..020}.tar", "no such shard: .*photos-train-020.tar"),
        ("photos/photos-val-*.tar", "no shards for training, only val"),
        ("https://example.org/train-000.tar", "shards are files; https: is not read"),
        ("pipe:cat photos/photos-train-000.tar", "shards are files; pipe: is not read"),
    ],
)
def test_a_pattern_without_shards_is_refused_and_nothing_is_run(folder, monkeypatch, pattern, says):
    monkeypatch.chdir(folder.parent)
    with pytest.raises(UserError, match=says):
        load(f"wds:{pattern}")


def test_unknown_test_classes_a_broken_image_and_a_shard_that_goes_away_are_named(folder):
    val = folder / "photos-val-000.tar"
    write(val, ("7.png", picture(7)), ("7.cls", b"horse"))
    with pytest.raises(UserError, match=r"photos-val-000.tar has the class 'horse', which the training shards"):
        streamed(folder)
    write(val, ("7.png", b"no picture"), ("7.cls", b"cat"), ("8.png", picture(8)), ("8.cls", b"cat"))
    data = streamed(folder)
    with pytest.raises(UserError, match=r"cannot read image 7 in .*photos-val-000.tar"):
        epoch(data.test, shuffle=False)
    data.test.bad_images = "skip"
    with pytest.warns(UserWarning, match="skipped"):
        assert greys(epoch(data.test, shuffle=False))[0] == 8
    val.unlink()
    with pytest.raises(UserError, match=r"cannot read the shard .*photos-val-000.tar: No such file"):
        epoch(data.test, shuffle=False)


def test_the_command_trains_on_shards(folder, tmp_path):
    flags = ["--epochs", "1", "--batch-size", "16", "--device", "cpu", "--train.tensorboard", "false"]
    output = str(tmp_path / "run")
    assert cli.main(["train", "--data", f"wds:{folder}", "--data.in_memory", "never", "--output", output, *flags]) == 0
    assert cli.main(["evaluate", output]) == 0
