from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from teachaugment.data import Reading, cache, finish, load


@pytest.fixture
def photos(tmp_path):
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(5):
            Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(
                tmp_path / "photos" / name / f"{i}.png"
            )
    return tmp_path / "photos"


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """How often images were measured."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calls, real = [], finish.statistics

    def counted(*arguments):
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(finish, "statistics", counted)
    return calls


def test_a_streamed_folder_is_measured_once(photos, measured):
    first, second = (load(photos, Reading(in_memory="never")) for _ in range(2))
    assert len(measured) == 1 and (first.mean, first.std) == (second.mean, second.std)


def test_changed_files_and_another_size_are_measured_again(photos, measured):
    load(photos, Reading(in_memory="never"))
    load(photos, Reading(in_memory="never", size=16))
    assert len(measured) == 2
    for file in photos.rglob("*.png"):
        os.utime(file, ns=(1, 1))
    load(photos, Reading(in_memory="never"))
    assert len(measured) == 3


def test_a_cache_that_cannot_be_used_is_as_good_as_none(photos, measured, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for _ in range(2):
        load(photos, Reading(in_memory="never"))
    assert len(measured) == 2


def test_a_damaged_entry_is_measured_again(photos, measured):
    first = load(photos, Reading(in_memory="never"))
    for entry in (cache.home() / "statistics").iterdir():
        entry.write_text("{")
    assert load(photos, Reading(in_memory="never")).mean == first.mean and len(measured) == 2


def test_what_was_measured_on_images_resized_otherwise_is_not_taken(photos, measured):
    """Version 0.1 resized by another filter, and remembered its measurements under names without one."""
    data = load(photos, Reading(in_memory="never"))
    (entry,) = (cache.home() / "statistics").iterdir()
    earlier = entry.rename(entry.with_name(entry.name.replace("-bicubic", "")))
    earlier.write_text('{"mean": [0, 0, 0], "std": [1, 1, 1]}')
    assert load(photos, Reading(in_memory="never")).mean == data.mean and len(measured) == 2
