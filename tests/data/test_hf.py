"""Hugging Face data sets. Runs where ``datasets`` is installed: pip install '.[hf]'."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from PIL import Image

from teachaugment.data import Reading, load
from teachaugment.data.loader import batches
from teachaugment.errors import UserError


def test_without_datasets_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install '\.\[hf\]'"):
        load("hf:mnist")


@pytest.fixture
def saved(tmp_path):
    datasets = pytest.importorskip("datasets")
    random = np.random.default_rng(0)

    def table(n):
        images = [Image.fromarray(random.integers(0, 256, (12, 12), dtype=np.uint8)) for _ in range(n)]
        features = datasets.Features({"picture": datasets.Image(), "what": datasets.ClassLabel(names=["cat", "dog"])})
        return datasets.Dataset.from_dict({"picture": images, "what": [i % 2 for i in range(n)]}, features=features)

    datasets.DatasetDict({"train": table(10), "test": table(4)}).save_to_disk(str(tmp_path / "Pets"))
    datasets.DatasetDict({"train": table(10)}).save_to_disk(str(tmp_path / "untested"))
    numbers = datasets.Dataset.from_dict({"x": [1, 2]})
    datasets.DatasetDict({"train": numbers}).save_to_disk(str(tmp_path / "numbers"))
    return tmp_path


@pytest.mark.parametrize("in_memory", ["always", "never"])
def test_a_saved_data_set_is_read(saved, in_memory):
    found = load(f"hf:{saved}/Pets", Reading(in_memory=in_memory))
    assert (len(found.train), len(found.test), found.classes) == (10, 4, ["cat", "dog"])
    assert found.name == "pets" and found.size == (12, 12) and found.channels == 3
    batch = next(batches(found.train, 4, seed=0, epoch=0, shuffle=True, device="cpu"))
    assert batch.image.shape == (4, 3, 12, 12)


def test_without_a_test_split_some_images_are_held_out(saved):
    found = load(f"hf:{saved}/untested", Reading(val_fraction=0.25, per_class=2))
    assert (len(found.train), len(found.test), len(found.val)) == (4, 2, 2)


def test_an_image_that_cannot_be_read_is_named_or_left_out(tmp_path):
    datasets = pytest.importorskip("datasets")
    Image.new("RGB", (12, 12)).save(tmp_path / "good.png")
    good = {"bytes": (tmp_path / "good.png").read_bytes(), "path": None}
    features = datasets.Features({"picture": datasets.Image(), "what": datasets.ClassLabel(names=["cat", "dog"])})
    cells = [{"bytes": b"no image", "path": None}, *[good] * 9]
    table = datasets.Dataset.from_dict({"picture": cells, "what": [i % 2 for i in range(10)]}, features=features)
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(str(tmp_path / "pets"))
    with pytest.raises(UserError, match=f"0 of hf:{tmp_path}/pets"):
        load(f"hf:{tmp_path}/pets")
    with pytest.warns(UserWarning, match="skipped 2 unreadable"):  # one of each split
        found = load(f"hf:{tmp_path}/pets", Reading(bad_images="skip"))
    assert (len(found.train), found.size) == (9, (12, 12))


def test_other_tables_and_unknown_names_are_refused_in_one_line(saved, monkeypatch):
    with pytest.raises(UserError, match="no column of images; its columns are x"):
        load(f"hf:{saved}/numbers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="cannot load hf:") as error:
        load(f"hf:{saved}/nowhere", Reading(root=saved / "cache"))
    assert "\n" not in str(error.value)
