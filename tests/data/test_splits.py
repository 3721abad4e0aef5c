"""Choices of images depend on the seed alone; statistics are those of the training images."""

from __future__ import annotations

import pytest
import torch

from teachaugment.data import Reading, load
from teachaugment.data.splits import STATISTICS, Split, at_most_per_class, hold_out, statistics


@pytest.fixture
def split():
    n = 60
    image = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 3, 4, 4).clone()
    return Split(image, torch.arange(n) % 3, image[:, 0].clone())


def names(split):
    return split.image[:, 0, 0, 0].tolist()


def test_per_class_takes_so_many_of_each_and_only_the_seed_decides_which(split):
    chosen = at_most_per_class(split, 5, seed=3)
    assert torch.bincount(chosen.label).tolist() == [5, 5, 5]
    assert names(chosen) == names(at_most_per_class(split, 5, seed=3)) != names(at_most_per_class(split, 5, seed=4))
    assert torch.equal(chosen.image[:, 0], chosen.mask)


def test_fewer_per_class_is_part_of_more_per_class(split):
    assert set(names(at_most_per_class(split, 5, seed=0))) < set(names(at_most_per_class(split, 9, seed=0)))


def test_per_class_beyond_what_there_is_takes_all(split):
    assert names(at_most_per_class(split, 1000, seed=0)) == names(split)


def test_validation_is_disjoint_stratified_and_decided_by_the_seed(split):
    train, val = hold_out(split, 0.2, seed=1)
    assert sorted(names(train) + names(val)) == names(split)
    assert torch.bincount(val.label).tolist() == [4, 4, 4]
    assert names(val) == names(hold_out(split, 0.2, seed=1)[1]) != names(hold_out(split, 0.2, seed=2)[1])


def test_no_validation_split_unless_asked_for(split):
    train, val = hold_out(split, 0.0, seed=0)
    assert train is split and val is None


def test_validation_does_not_depend_on_per_class():
    some, more = (load("shapes", Reading(size=8, val_fraction=0.1, per_class=n)) for n in (10, 20))
    assert torch.equal(some.val.image, more.val.image)
    assert (len(some.train), len(more.train), len(some.val)) == (100, 200, 100)


def test_mean_and_std_are_measured_on_the_training_images():
    data = load("shapes", Reading(size=8, per_class=20))
    pixels = data.train.image.double() / 255
    assert data.mean == pytest.approx(pixels.mean((0, 2, 3)).tolist(), abs=1e-9)
    assert data.std == pytest.approx(pixels.std((0, 2, 3), correction=0).tolist(), abs=1e-9)


def test_known_sets_have_their_known_statistics():
    assert statistics("cifar10", torch.zeros(1, 3, 2, 2, dtype=torch.uint8)) == STATISTICS["cifar10"]


def test_a_channel_without_variation_does_not_divide_by_zero():
    assert statistics("x", torch.zeros(2, 1, 3, 3, dtype=torch.uint8)) == ((0.0,), (1.0,))


def test_moving_a_split_keeps_the_copy(split):
    assert split.to("cpu") is split
    assert split.to("meta") is split.to("meta")
