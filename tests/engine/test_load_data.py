"""The random crops of a run are cut while decoding or on the device, and never twice, wherever its images are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from teachaugment.config.resolve import Config, Layer, resolve
from teachaugment.engine import build
from teachaugment.errors import UserError


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    root, random = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for i in range(20):
        path = root / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(path)
    return root


def config(photos: Path, **changed: Any) -> Config:
    values = {"data.path": str(photos), "data.size": 8, "train.batch_size": 8, "device": "cpu"}
    values |= {key.replace("__", "."): value for key, value in changed.items()}
    return resolve(Layer(values, {key: key for key in values}))


@pytest.mark.parametrize("in_memory", ["auto", "never"])
def test_without_an_area_nothing_is_cropped_at_random(photos, in_memory):
    trainer = build.build(config(photos, data__in_memory=in_memory))
    assert trainer.data.train.in_memory == (in_memory == "auto")
    assert not trainer.data.train.cropped and trainer.task.area == 1


@pytest.mark.parametrize(("size", "on_device"), [(8, False), (16, True)])
def test_crops_are_cut_from_whole_images_by_either_the_reader_or_the_task(photos, size, on_device):
    trainer = build.build(config(photos, data__size=size, augment__area=0.2))
    assert trainer.data.train.in_memory == on_device and trainer.data.train.cropped != on_device
    assert trainer.task.area == (0.2 if on_device else 1)


def test_unaugmented_images_are_whole(photos):
    trainer = build.build(config(photos, augment__area=0.2, augment__strategy="unaugmented"))
    assert not trainer.data.train.cropped and trainer.task.area == 1


def test_what_is_only_evaluated_is_not_cropped(photos):
    assert build.load_data(config(photos, augment__area=0.2), training=False).train.in_memory


@pytest.mark.parametrize("size", [8, 16])
def test_two_views_come_from_the_reader_or_from_the_task(photos, size):
    trainer = build.build(config(photos, task="simsiam", data__size=size, views__dim=8, views__hidden=4))
    batch = next(trainer.batches("train", training=True))
    assert len(batch.others) == (1 if size == 8 else 0)
    made = trainer.task.before(batch, trainer.generator)
    assert len(made.others) == 1 and made.others[0].shape == made.image.shape == (8, 3, size, size)
    assert next(trainer.reference()).others == ()


@pytest.mark.parametrize("task", ["segmentation", "simsiam"])
def test_the_area_of_classification_is_refused_for_other_tasks(task):
    with pytest.raises(UserError, match=r"augment\.area is "):
        build.build(config(Path("shapes"), task=task, augment__area=0.2))


def test_imagenet_has_its_usual_area_by_default():
    assert resolve(Layer({"data.path": "imagenet"}, {"data.path": ""})).augment.area == 0.08
    simsiam = {"data.path": "imagenet", "task": "simsiam"}
    assert resolve(Layer(simsiam, dict.fromkeys(simsiam, ""))).augment.area == 1
    assert resolve(Layer({}, {})).augment.area == 1
