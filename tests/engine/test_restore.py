"""A run goes on as it began: with the mean and the standard deviation that its network knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import small
import torch

from teachaugment.data import splits
from teachaugment.engine import restore
from teachaugment.errors import UserError

TINY = {
    "train.batch_size": 8, "train.epochs": 1, "train.tensorboard": False, "augment.strategy": "none", "device": "cpu",
}  # fmt: skip
EARLIER = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


def arrays(path: Path, brightest: int = 256) -> str:
    """Images of ten classes, as many for training as for testing."""
    image = np.random.default_rng(0).integers(0, brightest, (20, 8, 8, 3), dtype=np.uint8)
    label = np.arange(20) % 10
    np.savez(path, x_train=image, y_train=label, x_test=image, y_test=label)
    return str(path)


def test_a_run_on_cifar_goes_on_with_the_constants_it_began_with(tmp_path, monkeypatch):
    data, run = arrays(tmp_path / "cifar10.npz"), tmp_path / "run"
    with monkeypatch.context() as version:
        version.setitem(splits.STATISTICS, "cifar10", EARLIER)
        small.train(small.settings(TINY, {"data__path": data, "output": str(run)}), tests=20)
    more = small.settings(TINY, {"data__path": data, "output": str(run), "train__epochs": 2})
    trainer, _ = restore.resume(more, run)
    assert (trainer.data.mean, trainer.data.std) == EARLIER != splits.STATISTICS["cifar10"]
    seen = trainer.task.normalize(torch.full((1, 3, 1, 1), 0.5)).flatten().tolist()
    assert seen == pytest.approx([(0.5 - mean) / std for mean, std in zip(*EARLIER, strict=True)])


def test_a_run_does_not_go_on_with_images_that_look_otherwise(tmp_path):
    data, run = arrays(tmp_path / "mine.npz"), tmp_path / "run"
    config = small.settings(TINY, {"data__path": data, "output": str(run)})
    small.train(config, tests=20)
    arrays(tmp_path / "mine.npz", brightest=128)
    with pytest.raises(UserError, match=r"was trained on images whose mean was .*; name the data it began with"):
        restore.resume(config, run)
