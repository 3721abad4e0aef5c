"""A folder of photographs: what the first line says, which network is trained, and which images are tested on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small
import torch
import yaml
from PIL import Image

from teachaugment.config.resolve import Config
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.errors import UserError

BASE = {
    "model.name": "cnn-4",
    "data.size": 16,
    "data.val_fraction": 0.0,
    "train.epochs": 1,
    "train.batch_size": 8,
    "train.tensorboard": False,
    "augment.strategy": "none",
    "device": "cpu",
}


def tiny(path: Path, **changed: Any) -> Config:
    return small.settings({**BASE, "data.path": str(path)}, changed)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for name in ("cat", "dog"):
        (root / name).mkdir()
        for i in range(10):
            pixels = random.integers(0, 256, (20, 66 + i, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / name / f"{i}.png")
    return root


def keys(config: Config, split: str) -> set[bytes]:
    return {image.numpy().tobytes() for image in getattr(build.load_data(config), split).image}


def test_the_first_line_says_size_crop_and_split(photos):
    line = build.describe(build.build(tiny(photos)), Path("somewhere"))
    assert "and 4 test images (a fifth, set apart by data.split_seed 0) of 2 classes" in line
    assert "66×20 … 75×20 pixels read as 16×16 (the middle of each; --data.fit squash or pad keeps all of it)" in line
    assert "read as 16×16 (squashed)" in build.describe(build.build(tiny(photos, data__fit="squash")), Path("x"))
    cropped = build.describe(build.build(tiny(photos, augment__area=0.3)), Path("x"))
    assert "(random crops; in evaluations the middle of each" in cropped
    shapes = small.settings({**BASE, "data.path": "shapes", "data.per_class": 2}, {})
    assert "test images of 10 classes, 16×16 pixels" in build.describe(build.build(shapes), Path("x"))


def test_the_default_network_suits_the_size_of_the_images(photos):
    def network(**values: Any) -> str:
        return small.settings({"data.path": str(photos), **values}, {}).model.name

    assert network() == network(**{"data.size": 96}) == "torchvision/resnet18"
    assert network(**{"data.size": 32}) == "cnn-4" and network(**{"model.name": "wrn-16-1"}) == "wrn-16-1"
    assert small.settings({}, {}).model.name == small.settings({"data.size": 96}, {}).model.name == "cnn-4"


def test_the_same_images_are_tested_on_whatever_the_seed(photos):
    tested = keys(tiny(photos), "test")
    assert len(tested) == 4 and keys(tiny(photos, seed=1), "test") == tested
    assert keys(tiny(photos, data__split_seed=1), "test") != tested


def test_a_run_from_before_keeps_its_split(photos, tmp_path):
    """Such a run has no data.split_seed in its file and in its checkpoint: its split followed the seed."""
    config = tiny(photos, seed=3, data__split_seed=3, output=str(tmp_path / "run"))
    small.train(config, 4)
    file = tmp_path / "run" / directory.CONFIG
    tree = yaml.safe_load(file.read_text())
    del tree["data"]["split_seed"]
    file.write_text(yaml.safe_dump(tree))
    state = torch.load(tmp_path / "run/last.pt", weights_only=True)
    del state["config"]["data"]["split_seed"]
    checkpoint.save(tmp_path / "run/last.pt", {key: value for key, value in state.items() if key != "format"})
    found = directory.settings_of(tmp_path / "run")
    assert found.data.split_seed is None and keys(found, "test") == keys(config, "test")
    trainer, _ = restore.resume(found, tmp_path / "run")
    assert {image.numpy().tobytes() for image in trainer.data.test.image} == keys(config, "test")


def test_a_teacher_that_knows_the_test_images_is_refused(photos, tmp_path):
    small.train(tiny(photos, data__split_seed=1, output=str(tmp_path / "run")), 4)
    taught = {"augment__strategy": "teachaugment", "teach__teacher": str(tmp_path / "run"), "seed": 1}
    with pytest.raises(UserError, match=r"another split .* data.split_seed 1: .*; add --data.split_seed 1") as error:
        build.build(tiny(photos, **taught))
    assert "\n" not in str(error.value)
    build.build(tiny(photos, data__split_seed=1, **taught))
