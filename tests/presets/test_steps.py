"""Two steps of every preset, with its own settings, on tiny data with a small network; and where its crops lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from teachaugment.config.resolve import Config, Layer, resolve
from teachaugment.data.splits import DataSet, Split
from teachaugment.engine import build
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.trainer import Trainer
from teachaugment.presets import PRESETS, layer

NARROWER = {
    "wrn-40-2": "wrn-16-1", "wrn-28-10": "wrn-16-1", "wrn-16-2": "wrn-16-1", "shake-26-2x96d": "shake-26-2x16d",
    "pyramidnet-272-200": "pyramidnet-29-24", "resnet-50": "torchvision/resnet18",
}  # fmt: skip
SIDE = 128  # of images whose red says where a pixel is from left to right, and whose green from top to bottom


def of_task(*tasks: str) -> list[str]:
    return [name for name, preset in PRESETS.items() if preset.value("task") in tasks]


def config(name: str, **changed: Any) -> Config:
    small = {"train.batch_size": 6, "teach.n_inner": 2, "device": "cpu", "data.workers": 0, "data.in_memory": "auto"}
    values = {**small, **{key.replace("__", "."): value for key, value in changed.items()}}
    return resolve(layer(name), Layer(values, {key: key for key in values}))


def two_steps(trainer: Trainer) -> dict[str, Any]:
    """The record of a first epoch of two steps, in which the augmenter has learned once."""
    assert trainer.steps_per_epoch == 2
    record = trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    assert trainer.step == 2 and np.isfinite(record["train"]["loss"]) and np.isfinite(record["teach"]["objective"])
    return record


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JPEG files in ImageNet's layout, larger than what is read of them."""
    root = tmp_path_factory.mktemp("imagenet")
    ramp = np.arange(SIDE, dtype=np.uint8) * 2
    pixels = np.stack([np.tile(ramp, (SIDE, 1)), np.tile(ramp[:, None], (1, SIDE)), np.zeros((SIDE, SIDE))], 2)
    for split in ("train", "val"):
        for k in range(3):
            (root / split / f"n{k}").mkdir(parents=True)
            for i in range(4):
                path = root / split / f"n{k}" / f"{i}.jpg"
                Image.fromarray(pixels.astype(np.uint8)).save(path, quality=95)
    return root


@pytest.fixture(scope="module")
def streets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images and masks in Cityscapes' layout."""
    root, random = tmp_path_factory.mktemp("cityscapes"), np.random.default_rng(0)
    for split, n in (("train", 4), ("val", 2)):
        for kind in ("leftImg8bit", "gtFine"):
            (root / kind / split / "ulm").mkdir(parents=True)
        for i in range(n):
            name = f"ulm_00000{i}_000019"
            image, ids = random.integers(0, 256, (40, 80, 3), np.uint8), random.integers(0, 34, (40, 80), np.uint8)
            Image.fromarray(image).save(root / "leftImg8bit" / split / "ulm" / f"{name}_leftImg8bit.png")
            Image.fromarray(ids).save(root / "gtFine" / split / "ulm" / f"{name}_gtFine_labelIds.png")
    return root


def in_memory(name: str) -> DataSet:
    """A stand-in for CIFAR or for the built-in images, as their loaders would give them."""
    classes = 100 if name == "cifar100" else 10
    split = Split(torch.randint(256, (16, 3, 16, 16), dtype=torch.uint8), torch.arange(16) % classes)
    half = (0.5, 0.5, 0.5)
    return DataSet(name, split, split, [f"class {i}" for i in range(classes)], 3, (16, 16), half, half)


@pytest.mark.parametrize("name", of_task("classification"))
def test_a_classifier(name, photos):
    full = resolve(layer(name))
    small = {"model__name": NARROWER.get(full.model.name, full.model.name)}
    if full.data.path == "imagenet":
        streams = {"data__root": str(photos), "data__size": 32, "data__in_memory": "never"}
        trainer = build.build(config(name, **small, **streams))
        assert not trainer.data.train.in_memory and trainer.data.train.area == 0.08
    else:
        trainer = build.build(config(name, **small), in_memory(full.data.path))
    decays = [group["weight_decay"] for group in trainer.optimizer.param_groups]
    assert decays == [full.optim.weight_decay, 0]
    record = two_steps(trainer)
    # The second of the warm-up's ten steps.
    assert record["lr"] == pytest.approx(full.optim.lr * 2 / 10, rel=1e-3)


@pytest.mark.parametrize("name", of_task("segmentation"))
def test_a_segmenter_on_images_that_stream(name, streets):
    model = resolve(layer(name)).model.name.replace("101", "18")
    streams = {"data__root": str(streets), "data__crop": 32, "data__in_memory": "never", "train__batch_size": 2}
    trainer = build.build(config(name, model__name=model, model__pretrained=False, **streams))
    train = trainer.data.train
    assert not train.in_memory and train.windows and train.scale == 1
    image, mask = train.source.pair(0)
    window = train.read(0, seed=0, epoch=0)
    # A crop of the pixels as they are: nothing is magnified.
    places = [(y, x) for y in range(40 - 31) for x in range(80 - 31)]
    same = [torch.equal(window.views[0], image[:, y : y + 32, x : x + 32]) for y, x in places]
    y, x = places[same.index(True)]
    assert torch.equal(window.mask, mask[y : y + 32, x : x + 32])
    record = two_steps(trainer)
    assert record["lr"] == pytest.approx(5e-3 * (1 - 1 / 600) ** 0.9)


@pytest.mark.parametrize("name", of_task("detection"))
def test_a_detector(name):
    built_in = {"data__path": "shapes", "data__size": 48, "model__name": "fcos-small", "model__pretrained": False}
    trainer = build.build(config(name, **built_in))
    trainer.data.train = trainer.data.train.select(torch.arange(12))
    two_steps(trainer)


def without_labels(name: str, photos: Path, **changed: Any) -> Config:
    """CIFAR cannot stream: its preset reads the files as a folder here."""
    named = {"data__root": str(photos), "data__size": 32}
    data = named if name.startswith("imagenet") else {"data__path": str(photos), "data__size": 16}
    return config(name, **data, data__in_memory="never", **changed)


@pytest.mark.parametrize("name", of_task("simsiam"))
def test_features_without_labels_of_images_that_stream(name, photos):
    full = resolve(layer(name))
    small = {"model__name": NARROWER.get(full.model.name, full.model.name), "views__dim": 32, "views__hidden": 8}
    trainer = build.build(without_labels(name, photos, **small))
    assert not trainer.data.train.in_memory and trainer.data.train.views == 2
    assert {group["weight_decay"] for group in trainer.optimizer.param_groups} == {full.optim.weight_decay}
    blocks = [module for module in trainer.target.modules() if hasattr(module, "bn2")]
    assert blocks and all(block.bn2.weight.eq(0).all() and block.bn1.weight.eq(1).all() for block in blocks)
    record = two_steps(trainer)
    rates = {group["steady"]: group["lr"] for group in trainer.optimizer.param_groups}
    assert record["lr"] == rates[False] < full.optim.lr  # cosine, without a warm-up
    assert rates.get(True) == (full.optim.lr if full.views.fixed_lr else None)
    assert any(block.bn2.weight.ne(0).any() for block in blocks)


def boxes(views: list[Tensor]) -> Tensor:
    """Left, top, right and lower edge [4, N] of what views of the images show, as shares of the whole."""
    pixel = torch.stack(views)[:, :2].double() / 2 + 0.5  # of the original image
    # A line through all pixels of each axis: JPEG and the filter's ends make single ones inexact.
    along, n = pixel.mean((2,))[:, 0], pixel.shape[-1]
    down = pixel.mean((3,))[:, 1]
    at = torch.arange(n).double() - (n - 1) / 2
    edges = []
    for line in (along, down):
        slope, middle = (line * at).sum(1) / (at**2).sum(), line.mean(1)
        edges.append((middle - slope * n / 2, middle + slope * n / 2))
    (left, right), (top, bottom) = edges
    return torch.stack([left, top, right, bottom]) / SIDE


@pytest.mark.parametrize("name", [*of_task("simsiam"), "imagenet-resnet-50"])
def test_crops_are_cut_from_the_whole_image_and_show_the_least_area_or_more(name, photos):
    simsiam = name != "imagenet-resnet-50"
    streams = {"data__root": str(photos), "data__size": 32, "data__in_memory": "never"}
    made = without_labels(name, photos) if simsiam else config(name, **streams)
    train, least = build.load_data(made).train, 0.2 if simsiam else 0.08
    samples = [train.read(i, seed=0, epoch=epoch).views for epoch in range(15) for i in range(len(train))]
    assert len(samples) == 180 and {len(views) for views in samples} == {2 if simsiam else 1}
    shown = [boxes(list(view)) for view in zip(*samples, strict=True)]
    for left, top, right, bottom in shown:
        assert min(left.min(), top.min()) > -0.03 and max(right.max(), bottom.max()) < 1.03
        assert min(left.min(), top.min()) < 0.03 and max(right.max(), bottom.max()) > 0.97
        area = (right - left) * (bottom - top)
        assert area.min() > least * 0.9 and area.min() < least + 0.1 and area.max() < 1.03
    if simsiam:
        one, two = shown
        for part in range(4):  # none of a view's edges says anything about the other's
            assert abs(torch.corrcoef(torch.stack([one[part], two[part]]))[0, 1]) < 0.25
