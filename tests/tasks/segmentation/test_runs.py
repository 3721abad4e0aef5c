"""Segmentation from end to end: settings, both updates, pictures, resuming, evaluation, and one's own loop."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small
import torch
from PIL import Image
from torch import nn

from teachaugment import TeachAugment
from teachaugment.batch import IGNORE, Batch
from teachaugment.commands import cli
from teachaugment.commands.train import outcome
from teachaugment.config.resolve import Config
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.run import run
from teachaugment.errors import UserError

TINY = {
    "task": "segmentation", "data.size": 16, "data.per_class": 2, "train.batch_size": 4, "train.epochs": 2,
    "train.tensorboard": False, "teach.n_inner": 2, "teach.n_buffer": 1, "device": "cpu",
}  # fmt: skip


def tiny(**changed: Any) -> Config:
    return small.settings(TINY, changed)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    small.train(tiny(output=str(path)), tests=40)
    return path


def test_a_run_leaves_metrics_policy_and_pictures(finished):
    metrics = json.loads((finished / directory.METRICS).read_text())
    assert metrics["metric"] == "miou" and metrics["classes"][:2] == ["background", "crescent"]
    for name in ("target", "teacher"):
        assert len(metrics["test"][name]["class_iou"]) == 11 and 0 <= metrics["test"][name]["miou"] <= 1
    for name in (directory.PICTURE, directory.PREDICTIONS):
        assert Image.open(finished / name).width > 200
    assert (finished / directory.POLICY).exists()


def test_the_report_speaks_of_iou(finished):
    out = outcome("segmentation", json.loads((finished / directory.METRICS).read_text()), finished)
    assert "% mIoU on 40 test images" in out and "IoU of each class" in out and directory.PREDICTIONS in out


def test_a_resumed_run_equals_the_uninterrupted_one(finished, tmp_path):
    path = tmp_path / "run"
    config = tiny(output=str(path))
    trainer = small.few_tests(build.build(config), 40)
    directory.create_run(config)
    trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    checkpoint.save(path / checkpoint.LAST, trainer.state_dict())
    resumed, _ = restore.resume(config, path)
    run(small.few_tests(resumed, 40), path)
    first, second = (checkpoint.load(place / checkpoint.LAST) for place in (finished, path))
    for part in ("target", "teach"):
        a, b = (torch.cat([t.double().flatten() for t in _tensors(state[part])]) for state in (first, second))
        assert torch.equal(a, b)
    assert (path / directory.METRICS).read_bytes() == (finished / directory.METRICS).read_bytes()


def _tensors(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    children = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else []
    return [tensor for child in children for tensor in _tensors(child)]


def test_a_run_is_evaluated_again(finished, monkeypatch):
    real = build.load_data
    monkeypatch.setattr(
        build,
        "load_data",
        lambda *given, **named: small.few_tests(SimpleNamespace(data=real(*given, **named)), 40).data,
    )
    result = restore.evaluate_run(tiny(output=str(finished)), finished, "last", None)
    assert result["metric"] == "miou" and result["test"]["target"]["images"] == 40


def test_a_run_is_evaluated_on_a_folder(finished, tmp_path):
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
    for i in range(3):
        image = torch.randint(256, (18, 20 + 2 * i, 3), dtype=torch.uint8)
        Image.fromarray(image.numpy()).save(tmp_path / "images" / f"{i}.jpg")
        Image.fromarray((image[..., 0] % 11).numpy()).save(tmp_path / "masks" / f"{i}.png")
    names = json.loads((finished / directory.METRICS).read_text())["classes"]
    (tmp_path / "classes.txt").write_text("\n".join(names))
    result = restore.evaluate_run(tiny(output=str(finished)), finished, "last", str(tmp_path))
    assert result["test"]["target"]["images"] == 3 and result["test"]["target"]["miou"] > 0


def test_the_target_of_a_run_can_be_the_teacher(finished):
    trainer = build.build(tiny(teach__teacher=str(finished)))
    record = trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    assert record["teach"]["teacher_term"] > 0


def test_every_parameter_of_the_augmenter_gets_a_gradient_from_masks():
    trainer = build.build(tiny(train__batch_size=16))
    assert trainer.strategy.teach.augmenter.settings.classes is None
    batch = trainer.task.before(next(trainer.batches("train", training=True)), trainer.generator)
    trainer.strategy.teach.update_augmenter(
        batch
    )  # the last layers start at zero: the others follow in the second update
    trainer.strategy.teach.update_augmenter(batch)
    for name, p in trainer.strategy.teach.augmenter.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all() and p.grad.abs().sum() > 0, name


def test_image_and_mask_receive_the_same_warp():
    """An image that shows its own mask still shows it after geometry alone."""
    teach = TeachAugment(nn.Conv2d(3, 2, 1), augmenter="neural")
    nn.init.normal_(teach.augmenter.geometry.noise.last.weight, std=3)
    mask = torch.zeros(16, 40, 40, dtype=torch.int64)
    mask[:, 8:30, 5:25] = 1
    with torch.no_grad():
        draw = teach.augmenter.sample(16, None, torch.Generator().manual_seed(0))
        seen = teach.augmenter.warp(Batch(mask[:, None].expand(-1, 3, -1, -1).float(), None, mask), draw)
    assert seen.mask is not None and (seen.mask == IGNORE).any() and (seen.mask != mask).any()
    known = seen.mask != IGNORE
    wrong = ((seen.image[:, 0] - seen.mask).abs() > 0.5) & known
    assert wrong.float().mean() < 0.005  # at the border bilinear and nearest may round apart


def test_ones_own_loop_needs_only_batches_with_masks():
    network = nn.Conv2d(3, 4, 3, padding=1)
    teach = TeachAugment(network, n_inner=1, augmenter="neural")
    batch = Batch(torch.rand(8, 3, 16, 16), None, torch.randint(4, (8, 16, 16)))
    for _ in range(3):
        seen = teach.augment(batch)
        assert seen.mask is not None and seen.mask.dtype == torch.int64
        measured = teach.step(batch)
        assert measured is not None and all(value.isfinite() for value in measured.values())


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"model__name": "cnn-4"}, "model 'cnn-4' is for classification, not for segmentation"),
        ({"task": "classification", "model__name": "unet-16"}, "model 'unet-16' is for segmentation"),
        ({"model__name": "unet-17"}, "unknown model 'unet-17'; did you mean 'unet-16'"),
        ({"augment__cutout": 8}, "augment.cutout is for classification"),
        ({"data__path": "cifar10"}, "cifar10 has no masks"),
    ],
)
def test_what_does_not_fit_the_task_is_refused_in_one_line(changed, says):
    with pytest.raises(UserError, match=says) as error:
        build.build(tiny(**changed))
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_the_command_without_data_reaches_a_sensible_miou(tmp_path):
    """The acceptance of the task, about as long as a user waits."""
    assert cli.main(["train", "--task", "segmentation", "--output", str(tmp_path / "run")]) == 0
    metrics = json.loads((tmp_path / "run" / directory.METRICS).read_text())
    assert metrics["test"]["target"]["miou"] > 0.5
