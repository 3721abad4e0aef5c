"""The presets for segmentation: the numbers of the appendix, and a step of each on tiny data with a small backbone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from teachaugment.config.resolve import Config, Layer, resolve
from teachaugment.data.splits import DataSet, Split
from teachaugment.engine import build
from teachaugment.engine.display import TrainingDisplay
from teachaugment.presets import PRESETS, layer

MIOU = {"cityscapes-fcn32s": "72.1", "cityscapes-pspnet": "78.8", "cityscapes-deeplabv3": "79.4"}


def config(name: str, **changed: Any) -> Config:
    values = {key.replace("__", "."): value for key, value in changed.items()}
    return resolve(layer(name), Layer(values, {key: key for key in values}))


def test_all_rows_of_the_papers_table_are_there():
    assert {name for name, preset in PRESETS.items() if preset.settings.get("task") == "segmentation"} == MIOU.keys()


@pytest.mark.parametrize("name", MIOU)
def test_a_preset_has_the_numbers_of_the_appendix(name):
    made, preset = config(name), PRESETS[name]
    optim, teach = made.optim, made.teach
    assert (optim.lr, optim.momentum, optim.nesterov, optim.schedule) == (5e-3, 0.9, False, "poly")
    assert (optim.warmup_epochs, made.train.epochs, made.data.crop) == (0, 300, 1024)
    assert (teach.smoothing, teach.n_buffer, teach.color_weight, teach.n_inner) == (0.1, 10, 10, 5)
    assert (made.augment.strategy, made.augment.flip, made.augment.crop) == ("teachaugment", True, 0)
    assert made.model.name.endswith("-resnet-101") and made.model.pretrained
    assert preset.paper is not None and preset.paper.startswith(f"{MIOU[name]} % mIoU")


@pytest.mark.parametrize("name", MIOU)
def test_a_preset_builds_and_runs_two_steps_with_a_small_backbone(name):
    image = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
    split = Split(image, torch.zeros(4, dtype=torch.int64), torch.randint(19, (4, 32, 32), dtype=torch.uint8))
    classes, half = [f"class {i}" for i in range(19)], (0.5, 0.5, 0.5)
    dataset = DataSet("cityscapes", split, split, classes, 3, (32, 32), half, half)
    small = {"model__name": config(name).model.name.replace("101", "18"), "model__pretrained": False}
    size = {"train__batch_size": 2, "train__accumulate": 1, "teach__n_inner": 2, "device": "cpu"}
    trainer = build.build(config(name, **small, **size), dataset)
    record = trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    assert trainer.step == 2 and np.isfinite(record["train"]["loss"]) and np.isfinite(record["teach"]["objective"])
    assert record["lr"] == pytest.approx(5e-3 * (1 - 1 / 600) ** 0.9)
