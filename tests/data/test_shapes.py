"""The embedded data set: deterministic, with masks that match, narrow in training and wide in test."""

from __future__ import annotations

import time

import pytest
import torch

from teachaugment.data import CLASSES as CLASSES_TABLE
from teachaugment.data import MASKS as MASKS_TABLE
from teachaugment.data import Reading, load
from teachaugment.data.shapes import CLASSES, TEST, TRAIN, generate, shapes
from teachaugment.errors import UserError


@pytest.fixture(scope="module")
def small():
    return shapes(train=300, test=300)


def test_default_has_a_thousand_training_and_two_thousand_test_images_in_under_two_seconds():
    begin = time.process_time()  # not the wall clock: other work on the machine must not decide
    data = shapes()
    took = time.process_time() - begin
    assert (len(data.train), len(data.test)) == (1000, 2000)
    assert data.train.image.shape == (1000, 3, 32, 32) and data.train.image.dtype == torch.uint8
    assert data.train.mask.shape == (1000, 32, 32) and data.train.label.dtype == torch.int64
    assert took < 2


def test_same_seed_same_images_and_other_seed_other_images(small):
    again, other = shapes(train=300, test=300), shapes(train=300, test=300, seed=1)
    for name in ("train", "test"):
        assert torch.equal(getattr(small, name).image, getattr(again, name).image)
        assert torch.equal(getattr(small, name).mask, getattr(again, name).mask)
        assert not torch.equal(getattr(small, name).image, getattr(other, name).image)


def test_a_smaller_set_is_the_beginning_of_a_larger_one(small):
    fewer = shapes(train=260, test=10)
    assert torch.equal(fewer.train.image, small.train.image[:260])
    assert torch.equal(fewer.test.mask, small.test.mask[:10])


def test_mask_holds_background_and_the_class_of_the_image_and_nothing_else(small):
    for split in (small.train, small.test):
        for mask, label in zip(split.mask, split.label, strict=True):
            assert set(mask.unique().tolist()) == {0, int(label) + 1}
        covered = (split.mask > 0).float().mean((1, 2))
        assert covered.min() > 0.02 and covered.max() < 0.6


def test_mask_lies_on_the_figure(small):
    """Inside the mask the colours are even; across its border they jump."""
    image, mask = small.train.image.float() / 255, small.train.mask > 0
    inside = torch.stack([i[:, m].std(1).mean() for i, m in zip(image, mask, strict=True)])
    everywhere = image.flatten(2).std(2).mean(1)
    assert inside.mean() < 0.6 * everywhere.mean()


def test_classes_are_balanced_and_sorted(small):
    assert sorted(CLASSES) == CLASSES == small.classes
    assert torch.equal(torch.bincount(small.train.label), torch.full((len(CLASSES),), 30))


def test_test_images_vary_more_in_pose_and_brightness_than_training_images(small):
    def spread(split):
        """Of the figure's area and place and the image's brightness, within the classes."""
        mask = (split.mask > 0).double()
        area = mask.sum((1, 2))
        place = (mask.sum(1) * torch.arange(32)).sum(1) / area
        brightness = (split.image.double() / 255).mean((1, 2, 3))
        values = torch.stack([area, place, brightness])
        return torch.stack([values[:, split.label == k].std(1) for k in range(len(CLASSES))]).mean(0)

    for narrow, wide in zip(spread(small.train), spread(small.test), strict=True):
        assert wide > 1.3 * narrow


@pytest.mark.parametrize("size", [8, 33, 64])
def test_any_size_shows_the_same_scene(size):
    split = generate(20, size, TRAIN, 0, "train")
    assert split.image.shape == (20, 3, size, size) and split.mask.shape == (20, size, size)
    share = (split.mask > 0).double().mean((1, 2))
    at_32 = (generate(20, 32, TRAIN, 0, "train").mask > 0).double().mean((1, 2))
    assert (share - at_32).abs().max() < 0.05


def test_figures_stay_different_under_the_widest_pose():
    """The outlines of no two classes coincide, whatever the pose: the best overlap stays clear of one."""
    split = generate(500, 32, TEST, 0, "overlap")
    masks = (split.mask > 0).float().flatten(1)
    overlap = masks @ masks.T
    union = masks.sum(1)[:, None] + masks.sum(1)[None] - overlap
    different = split.label[:, None] != split.label[None]
    assert (overlap / union)[different].max() < 0.95


def test_too_small_a_size_is_refused():
    with pytest.raises(UserError, match="at least 8"):
        shapes(size=4)


@pytest.mark.parametrize("table", [CLASSES_TABLE, MASKS_TABLE])
def test_a_number_names_another_draw(table):
    first, other, again = (load(name, Reading(), table) for name in ("shapes", "shapes:7", "shapes:7"))
    assert (first.name, other.name) == ("shapes", "shapes:7") and first.fingerprint != other.fingerprint
    assert torch.equal(other.train.image, again.train.image)
    assert not torch.equal(first.train.image, other.train.image)
    assert torch.equal(other.test.image, shapes(seed=7).test.image)


@pytest.mark.parametrize("source", ["shapes:", "shapes:x", "shapes:-1", "shapes:99999999999"])
def test_a_draw_without_a_number_is_refused(source):
    with pytest.raises(UserError, match="must be followed by a number"):
        load(source)
