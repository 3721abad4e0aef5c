"""Every preset: the numbers of the appendix, and two steps of it on tiny data with a small network of its family."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from teachaugment import models
from teachaugment.config.resolve import Config, Layer, resolve
from teachaugment.data import Reading, load
from teachaugment.data.splits import DataSet, Split
from teachaugment.engine import build
from teachaugment.engine.display import TrainingDisplay
from teachaugment.errors import UserError
from teachaugment.presets import PRESETS, layer

# Tab. 8 of the paper: learning rate and batch size of one GPU, weight decay, epochs, schedule, number of GPUs.
TABLE = {
    "wrn-40-2": (0.1, 2e-4, 200, 128, "cosine", 1),
    "wrn-28-10": (0.1, 5e-4, 200, 128, "cosine", 1),
    "shake-26-2x96d": (0.01, 1e-3, 1800, 128, "cosine", 4),
    "pyramidnet-272-200": (0.05, 5e-5, 1800, 64, "cosine", 4),
    "resnet-50": (0.05, 1e-4, 270, 128, "step", 4),
}
# Tab. 1 (WRN-40-2) and Tab. 5.
ERRORS = {
    "cifar10-wrn-40-2": "3.7", "cifar10-wrn-28-10": "2.5", "cifar10-shake-26-2x96d": "2.0",
    "cifar10-pyramidnet-272-200": "1.5", "cifar100-wrn-40-2": "20.3", "cifar100-wrn-28-10": "16.8",
    "cifar100-shake-26-2x96d": "14.5", "cifar100-pyramidnet-272-200": "11.8", "imagenet-resnet-50": "22.2",
}  # fmt: skip
NARROWER = {
    "wrn-40-2": "wrn-16-1", "wrn-28-10": "wrn-16-1", "wrn-16-2": "wrn-16-1", "shake-26-2x96d": "shake-26-2x16d",
    "pyramidnet-272-200": "pyramidnet-29-24", "resnet-50": "torchvision/resnet18",
}  # fmt: skip


def config(name: str, **changed: Any) -> Config:
    values = {key.replace("__", "."): value for key, value in changed.items()}
    return resolve(layer(name), Layer(values, {key: key for key in values}))


def test_all_rows_of_the_papers_tables_are_there():
    assert ERRORS.keys() <= PRESETS.keys()


@pytest.mark.parametrize("name", ERRORS)
def test_a_preset_of_the_paper_has_the_numbers_of_the_appendix(name):
    made, preset = config(name), PRESETS[name]
    lr, decay, epochs, batch, schedule, gpus = TABLE[made.model.name]
    optim, train = made.optim, made.train
    assert (optim.lr, optim.weight_decay, train.epochs, train.batch_size) == (lr, decay, epochs, batch)
    assert (optim.schedule, optim.warmup_epochs, optim.momentum, optim.nesterov) == (schedule, 5, 0.9, True)
    assert preset.gpus == gpus and preset.paper is not None and preset.paper.startswith(f"{ERRORS[name]} %")
    assert made.augment.strategy == "teachaugment" and made.augment.flip
    assert train.accumulate == 1 and (made.teach.n_inner, made.teach.color_weight, made.teach.ema_decay) == (
        5,
        10,
        0.999,
    )
    if name.startswith("cifar"):
        assert (made.augment.crop, made.augment.cutout, made.optim.clip, made.teach.n_buffer) == (4, 16, 5.0, 10)
        assert made.data.path == name.partition("-")[0] and made.teach.replay_decay == 0.99
    else:
        assert (made.augment.crop, made.augment.cutout, made.optim.clip, made.teach.n_buffer) == (0, 0, 0.0, 1)
        assert (made.augment.jitter, made.augment.lighting, made.data.size) == (0.4, 0.1, 224)
        assert made.optim.milestones == (90, 180, 240) and made.teach.smoothing == 0.1


@pytest.mark.parametrize("epochs", [100, 200, 400])
def test_the_presets_without_labels_have_the_numbers_of_the_appendix(epochs):
    made, preset = config(f"imagenet-simsiam-{epochs}"), PRESETS[f"imagenet-simsiam-{epochs}"]
    assert (made.task, made.model.name, made.train.epochs, made.train.batch_size) == (
        "simsiam",
        "resnet-50",
        epochs,
        256,
    )
    assert (made.optim.lr, made.optim.momentum, made.optim.nesterov, made.optim.weight_decay) == (
        0.05,
        0.9,
        False,
        1e-4,
    )
    assert (made.views.layers, made.views.dim, made.views.hidden, made.views.fixed_lr) == (3, 2048, 512, True)
    views = made.views
    assert (views.area, views.jitter, views.grey, views.blur, made.augment.crop) == (0.2, 0.4, 0.2, 0.5, 0)
    assert preset.paper is not None and {100: "68.2", 200: "70.2", 400: "71.0"}[epochs] in preset.paper
    classification = config("imagenet-resnet-50").teach  # "the same as the parameters for ImageNet classification"
    assert (made.teach.n_inner, made.teach.n_buffer, made.teach.color_weight) == (
        classification.n_inner,
        classification.n_buffer,
        classification.color_weight,
    )


def test_easier_data_have_more_smoothing():
    """The tendency that the text describes."""
    for network in ("wrn-40-2", "wrn-28-10", "shake-26-2x96d", "pyramidnet-272-200"):
        ten, hundred = (config(f"{name}-{network}").teach.smoothing for name in ("cifar10", "cifar100"))
        assert ten > hundred > 0


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_says_command_number_and_cost(name):
    preset = PRESETS[name]
    assert preset.command == f"teachaugment train {name}"
    for part in (preset.command, preset.paper or "Not in the paper", f"{preset.value('train.epochs'):,} epochs of"):
        assert part in preset.description
    assert preset.gpus == 1 or "--accumulate 4" in preset.description
    assert preset.value("model.name") in models.MODELS


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root, random = tmp_path_factory.mktemp("imagenet"), np.random.default_rng(0)
    for split in ("train", "val"):
        for k in range(3):
            (root / split / f"n{k}").mkdir(parents=True)
            for i in range(4):
                pixels = random.integers(0, 256, (40, 36, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / f"n{k}" / f"{i}.jpg")
    return root


def few(name: str, root: Path) -> tuple[str, DataSet]:
    """A stand-in for the preset's data, as its loader would give it."""
    if name == "imagenet":
        return name, load(name, Reading(root=root, size=32, area=0.08, in_memory="never"))
    classes = 100 if name == "cifar100" else 10
    image = torch.randint(256, (16, 3, 16, 16), dtype=torch.uint8)
    split = Split(image, torch.arange(16) % classes)
    mean = (0.5, 0.5, 0.5)
    return name, DataSet(name, split, split, [f"class {i}" for i in range(classes)], 3, (16, 16), mean, mean)


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if "task" not in preset.settings])
def test_a_preset_builds_and_runs_two_steps_at_reduced_width(name, folder):
    torch.set_num_threads(1)
    full = config(name)
    narrow = NARROWER.get(full.model.name, full.model.name)
    small = config(name, model__name=narrow, train__batch_size=6, teach__n_inner=2, device="cpu", data__workers=0)
    _, dataset = few(full.data.path, folder)
    trainer = build.build(small, dataset)
    assert trainer.steps_per_epoch == 2
    record = trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    assert trainer.step == 2 and np.isfinite(record["train"]["loss"]) and np.isfinite(record["teach"]["objective"])
    warm = 2 / 10 if full.optim.warmup_epochs else 1  # the second of five epochs' steps, or nearly the peak
    assert record["lr"] == pytest.approx(full.optim.lr * warm, rel=1e-3)


def test_flags_and_files_are_stronger_than_a_preset():
    made = config("cifar10-wrn-28-10", optim__lr=0.3)
    assert made.optim.lr == 0.3 and made.model.name == "wrn-28-10"


def test_an_unknown_preset_suggests_the_nearest():
    with pytest.raises(UserError, match=r"unknown preset 'cifar10-wrn-28-1'; did you mean 'cifar10-wrn-28-10'\?"):
        layer("cifar10-wrn-28-1")


def test_presets_do_not_import_torch():
    code = "import sys, teachaugment.presets; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
