"""The running statistics of batch norm follow within the training that there is."""

from __future__ import annotations

import pytest
import small
import torch
from torch import nn

from teachaugment.engine.batch_norm import let_statistics_settle
from teachaugment.engine.build import build


@pytest.mark.parametrize(
    "own, steps, expected",
    [(0.01, 40, 0.1), (0.01, 500, 0.02), (0.01, 100_000, 0.01), (0.1, 500, 0.1), (0.3, 40, 0.3), (None, 40, None)],
)
def test_the_momentum_is_raised_where_the_training_is_short_and_never_lowered(own, steps, expected):
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, momentum=own), nn.BatchNorm1d(4, momentum=own))
    let_statistics_settle(network, steps)
    assert [network[1].momentum, network[2].momentum] == [expected, expected]


@pytest.mark.parametrize("momentum", [0.01, 0.0003])
def test_after_a_short_training_the_statistics_are_those_of_the_images(momentum):
    norm = nn.BatchNorm2d(3, momentum=momentum)
    let_statistics_settle(norm, 100)
    generator = torch.Generator().manual_seed(0)
    for _ in range(100):
        norm(5 + 3 * torch.randn(16, 3, 8, 8, generator=generator))
    torch.testing.assert_close(norm.running_mean, torch.full((3,), 5.0), atol=0.1, rtol=0)
    torch.testing.assert_close(norm.running_var, torch.full((3,), 9.0), atol=0.5, rtol=0)


def test_a_run_sets_it_for_its_network():
    changed = {"data.size": 32, "data.per_class": 4, "train.batch_size": 8, "train.epochs": 2, "device": "cpu"}
    trainer = build(small.settings({**changed, "model.name": "torchvision/mobilenet_v3_small"}, {}))
    norms = [module for module in trainer.target.modules() if isinstance(module, nn.BatchNorm2d)]
    assert norms and {norm.momentum for norm in norms} == {0.1}
