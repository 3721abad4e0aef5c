"""Crops: a setting, never a consequence of where images are stored; several views of an image are independent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment.data import Reading, load
from teachaugment.data.loader import batches
from teachaugment.errors import UserError

SIDE = 128  # of images whose red says where a pixel is from left to right, and whose green from top to bottom


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    root = tmp_path_factory.mktemp("maps")
    ramp = np.arange(SIDE, dtype=np.uint8) * 2
    pixels = np.stack([np.tile(ramp, (SIDE, 1)), np.tile(ramp[:, None], (1, SIDE)), np.zeros((SIDE, SIDE))], 2)
    for i in range(100):
        path = root / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    return root


def boxes(view):
    """Left, top, right and lower edge [N] of what a view shows, as shares of the image."""
    pixel = view[:, :2].double() * 255 / 2 + 0.5  # of the original image
    near, far = pixel[:, :, 0, 0], pixel[:, :, -1, -1]
    half = (far - near) / (view.shape[-1] - 1) / 2  # of a pixel of the view
    return torch.cat([near - half, far + half], 1).T / SIDE


def epoch(split, **keywords):
    made = batches(split, 16, **{"seed": 0, "epoch": 0, "shuffle": False, "device": "cpu", **keywords})
    return [torch.cat(views) for views in zip(*((batch.image, *batch.others) for batch in made), strict=True)]


def test_without_random_crops_memory_and_disk_have_the_same_pixels(maps):
    memory, disk = (load(maps, Reading(size=24, in_memory=how)) for how in ("always", "never"))
    assert (memory.train.in_memory, disk.train.in_memory) == (True, False)
    for name in ("train", "test"):
        (one,), (two,) = epoch(getattr(memory, name)), epoch(getattr(disk, name))
        assert torch.equal(one, two)
    assert (memory.mean, memory.std) == (disk.mean, disk.std)


def test_views_are_cut_from_the_whole_image_and_show_the_least_area_or_more(maps):
    train = load(maps, Reading(size=32, area=0.2, views=2)).train
    views = epoch(train)
    assert len(views) == 2
    for left, top, right, bottom in map(boxes, views):
        for edge in (left, top, right, bottom):
            assert edge.min() > -0.02 and edge.max() < 1.02
        area = (right - left) * (bottom - top)
        assert area.min() > 0.2 * 0.95 and area.max() <= 1.02  # the edges are measured to about a pixel
        assert area.mean() == pytest.approx(0.6, abs=0.06)
        # All of the image is seen by some crop.
        assert min(left.min(), top.min()) < 0.03 and max(right.max(), bottom.max()) > 0.97


def test_views_are_independent_and_not_nested(maps):
    one, two = map(boxes, epoch(load(maps, Reading(size=32, area=0.2, views=2)).train))
    inside = ((two[:2] >= one[:2]) & (two[2:] <= one[2:])).all(0)
    around = ((one[:2] >= two[:2]) & (one[2:] <= two[2:])).all(0)
    assert (inside | around).float().mean() < 0.5
    areas, centres = ([(b[2] - b[0]) * (b[3] - b[1]) for b in (one, two)], [b[0] + b[2] for b in (one, two)])
    for first, second in (areas, centres):
        assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.3


def test_a_view_is_a_function_of_seed_epoch_index_and_view(maps):
    train = load(maps, Reading(size=16, area=0.2, views=2)).train
    first, second = train.read(3, 0, 0).views
    assert all(torch.equal(a, b) for a, b in zip(train.read(3, 0, 0).views, (first, second), strict=True))
    assert torch.equal(train.with_crops(0.2).read(3, 0, 0).views[0], first)
    others = [second, train.read(3, 0, 1).views[0], train.read(3, 1, 0).views[0], train.read(4, 0, 0).views[0]]
    assert not any(torch.equal(first, other) for other in others)
    alone, helped = (epoch(train, shuffle=True, workers=workers) for workers in (0, 2))
    assert all(torch.equal(a, b) for a, b in zip(alone, helped, strict=True))


def test_an_evaluation_sees_the_centre_once(maps):
    data = load(maps, Reading(size=16, area=0.2, views=2, val_fraction=0.1))
    whole = load(maps, Reading(size=16, in_memory="never", val_fraction=0.1))
    assert data.train.cropped and not data.test.cropped and not data.val.cropped
    for split, same in ((data.train.whole(), whole.train), (data.test, whole.test), (data.val, whole.val)):
        (seen,), (expected,) = epoch(split), epoch(same)
        assert torch.equal(seen, expected)


def test_random_crops_stream_unless_every_image_has_the_stored_size_already(maps):
    cut = load(maps, Reading(size=32, area=0.2))
    assert not cut.train.in_memory and cut.train.cropped
    kept = load(maps, Reading(size=SIDE, area=0.2))
    assert kept.train.in_memory and not kept.train.cropped
    with pytest.raises(UserError, match=r"area 0\.2.* not all are 32 x 32; leave in_memory at auto") as error:
        load(maps, Reading(size=32, area=0.2, in_memory="always"))
    assert "\n" not in str(error.value)
    assert load(maps, Reading(size=SIDE, area=0.2, in_memory="always")).train.in_memory
    assert not load(maps, Reading(size=SIDE, area=0.2, in_memory="never")).train.in_memory
