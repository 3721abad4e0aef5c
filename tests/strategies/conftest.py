"""Small runs of a strategy: settings, data that are generated once, and a network whose gradients add up by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import small
import torch
from torch import Tensor, nn

from teachaugment.batch import Batch
from teachaugment.config.resolve import Config
from teachaugment.data.splits import DataSet
from teachaugment.engine import build
from teachaugment.engine.trainer import Trainer

TINY = {
    "data.size": 8, "data.per_class": 2, "train.batch_size": 10, "train.epochs": 2, "train.eval_every": 2,
    "train.tensorboard": False, "teach.n_inner": 2, "teach.n_buffer": 1, "device": "cpu",
}  # fmt: skip


def tiny(**changed: Any) -> Config:
    return small.settings(TINY, changed)


@pytest.fixture(scope="session")
def shapes() -> DataSet:
    data = build.load_data(tiny())
    return replace(data, test=data.test.select(torch.arange(40)))


@pytest.fixture
def few_images(shapes, monkeypatch):
    """Generated once for all tests, and evaluated on 40 images."""
    monkeypatch.setattr(build, "load_data", lambda config, training=True: replace(shapes))


def trainer(**changed: Any) -> Trainer:
    return build.build(tiny(**changed))


PURE = {  # one step of the target is its gradient
    "optim__lr": 1.0, "optim__momentum": 0, "optim__nesterov": False, "optim__weight_decay": 0,
    "optim__warmup_epochs": 0, "optim__schedule": "constant",
}  # fmt: skip


def weights(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def first_batch(made: Trainer) -> Batch:
    return next(made.batches("train", training=True))


class Plain(nn.Module):
    """Without batch norm and dropout: the gradient of a mean is the mean of the gradients."""

    def __init__(self, classes: int, channels: int = 3):
        super().__init__()
        self.linear = nn.Linear(channels * 64, classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.linear(image.flatten(1))


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr("teachaugment.models.create", lambda name, classes, channels, *rest: Plain(classes, channels))
