"""Batches: the order is a function of seed and epoch, never of workers, ranks or where an epoch was taken up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.data import Reading, load
from teachaugment.data.folder import FolderSource
from teachaugment.data.loader import batches
from teachaugment.data.order import count, shuffled
from teachaugment.data.splits import Split
from teachaugment.data.streamed import StreamedSplit
from teachaugment.errors import UserError


@pytest.fixture
def memory():
    generator = torch.Generator().manual_seed(0)
    image = torch.randint(256, (23, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return Split(image, torch.arange(23) % 4, image[:, 0] % 5)


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for i in range(25):
        path = root / "ab"[i % 2] / f"{i:02}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 16 + i % 3, 3), dtype=np.uint8)).save(path)
    return load(root, Reading(size=12, in_memory="never", area=0.08))


def epoch(split, size=5, **keywords):
    settings = {"seed": 0, "epoch": 0, "shuffle": True, "device": "cpu", **keywords}
    return list(batches(split, size, **settings))


def rows(found):
    return [batch.index.tolist() for batch in found]


def flat(lists):
    return [item for part in lists for item in part]


def same(one, two):
    return len(one) == len(two) and all(
        torch.equal(a.image, b.image) and torch.equal(a.label, b.label) and torch.equal(a.index, b.index)
        for a, b in zip(one, two, strict=True)
    )


def test_order_is_a_permutation_that_seed_and_epoch_decide():
    assert torch.equal(shuffled(50, 1, 2), shuffled(50, 1, 2))
    assert torch.equal(shuffled(50, 1, 2).sort().values, torch.arange(50))
    assert not torch.equal(shuffled(50, 1, 2), shuffled(50, 1, 3)) and not torch.equal(
        shuffled(50, 1, 2), shuffled(50, 2, 2)
    )


def test_a_batch_has_floats_in_zero_to_one_and_what_belongs_to_the_images(memory):
    for batch in epoch(memory):
        assert batch.image.dtype == torch.float32 and batch.mask.dtype == torch.int64
        assert torch.equal(batch.image, memory.image[batch.index].float() / 255)
        assert torch.equal(batch.label, memory.label[batch.index])
        assert torch.equal(batch.mask, memory.mask[batch.index].long())


def test_white_is_one_and_black_is_zero():
    split = Split(torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1), torch.arange(2))
    assert epoch(split, shuffle=False)[0].image.flatten().tolist() == [0.0, 1.0]


def test_one_epoch_has_every_image_once_in_the_stated_order(memory):
    found = rows(epoch(memory, seed=3, epoch=4))
    assert [len(batch) for batch in found] == [5, 5, 5, 5, 3]
    assert flat(found) == shuffled(23, 3, 4).tolist()
    assert flat(rows(epoch(memory, shuffle=False))) == list(range(23))


def test_drop_last_leaves_out_the_batch_that_is_not_full(memory):
    assert [len(batch) for batch in rows(epoch(memory, drop_last=True))] == [5, 5, 5, 5]


@pytest.mark.parametrize("start", [0, 1, 3, 5])
def test_an_epoch_taken_up_in_the_middle_continues_exactly(memory, disk, start):
    assert same(epoch(memory, start=start), epoch(memory)[start:])
    assert same(epoch(disk.train, start=start), epoch(disk.train)[start:])


def test_skipped_batches_are_not_decoded(disk, monkeypatch):
    decoded = []
    read = StreamedSplit.read
    monkeypatch.setattr(StreamedSplit, "read", lambda self, i, *rest: decoded.append(i) or read(self, i, *rest))
    found = epoch(disk.train, start=3)
    assert sorted(decoded) == sorted(flat(rows(found)))


def test_worker_count_changes_nothing(disk):
    alone = epoch(disk.train, epoch=1)
    assert same(alone, epoch(disk.train, epoch=1, workers=2))
    assert same(epoch(disk.test, shuffle=False), epoch(disk.test, shuffle=False, workers=2))


def test_crops_are_a_function_of_seed_epoch_and_index(disk):
    def image(index, seed=0, number=0):
        return disk.train.read(index, seed, number).views[0]

    assert torch.equal(image(3), image(3))
    assert not torch.equal(image(3), image(3, seed=1)) and not torch.equal(image(3), image(3, number=1))
    first = {int(i): x for b in epoch(disk.train, 5) for i, x in zip(b.index, b.image, strict=True)}
    other = {int(i): x for b in epoch(disk.train, 3) for i, x in zip(b.index, b.image, strict=True)}
    assert all(torch.equal(first[i], other[i]) for i in first)


def test_evaluation_does_not_crop_at_random(disk):
    one, two = epoch(disk.test, shuffle=False, seed=0), epoch(disk.test, shuffle=False, seed=1, epoch=5)
    assert same(one, two)


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("size", [1, 4, 5, 30])
def test_ranks_get_equal_training_batches_and_share_no_image(memory, world, size):
    ranks = [rows(epoch(memory, size, rank=rank, world=world)) for rank in range(world)]
    assert len({tuple(map(len, rank)) for rank in ranks}) == 1
    seen = flat(map(flat, ranks))
    assert len(seen) == len(set(seen)) > 23 - world
    assert len(ranks[0]) == count(23, size, world=world)


@pytest.mark.parametrize("world", [2, 3, 4])
def test_ranks_together_have_the_batches_of_one_process(memory, world):
    together = [rows(epoch(memory, 2, rank=rank, world=world, drop_last=True)) for rank in range(world)]
    alone = rows(epoch(memory, 2 * world, drop_last=True))
    assert [sorted(flat(parts)) for parts in zip(*together, strict=True)] == [sorted(batch) for batch in alone]
    assert len(alone) == count(23, 2, drop_last=True, world=world)


@pytest.mark.parametrize("world", [2, 3, 30])
def test_ranks_evaluate_every_image_exactly_once(memory, world):
    seen = [flat(rows(epoch(memory, shuffle=False, rank=rank, world=world))) for rank in range(world)]
    assert sorted(flat(seen)) == list(range(23))


def test_loading_does_not_touch_the_global_random_state(memory, disk):
    before = torch.get_rng_state()
    epoch(memory), epoch(disk.train), epoch(disk.train, workers=1)
    assert torch.equal(before, torch.get_rng_state())


@pytest.fixture
def partly_broken(tmp_path):
    for i in range(12):
        path = tmp_path / "ab"[i % 2] / f"{i:02}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), (i, i, i)).save(path)
    for name in ("a/00.png", "a/02.png"):
        (tmp_path / name).write_bytes(b"no picture")
    paths = sorted(f"{p.parent.name}/{p.name}" for p in tmp_path.glob("*/*.png"))
    source = FolderSource(paths, torch.tensor([int(p[0] == "b") for p in paths]), tmp_path)
    return StreamedSplit(source, (8, 8))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_image_met_while_streaming_is_named_in_one_line(partly_broken, workers):
    with pytest.raises(UserError, match=r"a/00.png") as error:
        epoch(partly_broken, shuffle=False, workers=workers)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("area", [1.0, 0.2])
@pytest.mark.filterwarnings("ignore:skipped")
def test_skipping_leaves_broken_images_out_of_evaluation_and_keeps_training_batches_full(partly_broken, area):
    partly_broken.bad_images = "skip"
    seen = flat(rows(epoch(partly_broken, 1, shuffle=False)))
    assert seen == list(range(2, 12))
    partly_broken.area = area
    found = epoch(partly_broken, 4)
    assert [len(batch) for batch in found] == [4, 4, 4]
    assert not {0, 1} & set(flat(rows(found)))


def test_empty_plans_yield_nothing(memory, disk):
    assert epoch(memory, start=99) == [] and epoch(disk.train, start=99) == []


def test_balanced_epochs_draw_all_classes_equally_often():
    label = torch.tensor([0] * 90 + [1] * 9 + [2] * 3)
    split = Split(torch.zeros(len(label), 3, 2, 2, dtype=torch.uint8), label)

    def rows(seed: int, epoch: int) -> torch.Tensor:
        found = batches(split, 10, seed=seed, epoch=epoch, shuffle=True, device="cpu", balance=True)
        return torch.cat([batch.index for batch in found if batch.index is not None])

    first = rows(0, 0)
    assert len(first) == 102 and label[first].bincount().tolist() == [34, 34, 34]
    uses = first.bincount(minlength=102)
    for k in range(3):
        assert uses[label == k].max() - uses[label == k].min() <= 1
    assert torch.equal(first, rows(0, 0))
    assert not torch.equal(first, rows(0, 1)) and not torch.equal(first, rows(1, 0))
    assert rows(0, 1)[:30].tolist() != sorted(rows(0, 1)[:30].tolist())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_skipped_image_is_warned_about_once_and_not_every_epoch(partly_broken, workers, recwarn):
    partly_broken.bad_images = "skip"
    for _ in range(3):
        epoch(partly_broken, shuffle=False, workers=workers)
    said = [str(warning.message) for warning in recwarn if "skipped" in str(warning.message)]
    assert len(said) == 2 and len(set(said)) == 2
