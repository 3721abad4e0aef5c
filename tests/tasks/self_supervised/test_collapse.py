"""The collapse detector fires on a collapsed network and not on a healthy one."""

from __future__ import annotations

import pytest
import small
import torch
from torch import nn

from teachaugment.batch import Batch
from teachaugment.models.simsiam import SimSiam
from teachaugment.tasks.self_supervised.collapse import effective_rank, spread
from teachaugment.tasks.self_supervised.simsiam import SelfSupervised


def test_spread_is_one_in_all_directions_and_zero_in_one():
    torch.manual_seed(0)
    assert spread(torch.randn(1000, 64)).item() == pytest.approx(1, abs=0.02)
    assert spread(torch.ones(10, 64) * torch.rand(10, 1)).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("shape", [(200, 40), (40, 200)])
def test_effective_rank_counts_directions(shape):
    torch.manual_seed(0)
    n, d = shape
    assert effective_rank(torch.eye(max(n, d))[:n, :d][: min(n, d)]).item() == pytest.approx(min(n, d), rel=1e-3)
    assert effective_rank(torch.ones(n, d)).item() == pytest.approx(1, abs=1e-3)
    basis = torch.linalg.qr(torch.randn(d, 3)).Q.T
    assert effective_rank(torch.randn(n, 3) @ basis).item() == pytest.approx(3, abs=0.3)


def outputs(constant: bool):
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    model = SimSiam(backbone, 32, dim=16, hidden=8, layers=2)
    if constant:  # what collapse does to a projector that ends in no batch norm, and what rounding leaves of one
        model.projector = nn.Linear(32, 16)
        nn.init.normal_(model.projector.weight, std=1e-4)
    return model(torch.rand(64, 3, 16, 16))


@pytest.mark.parametrize("constant", [False, True])
def test_a_collapsed_network_is_said_and_a_healthy_one_is_not(constant):
    task = SelfSupervised(small.dataset(["a"], (0.5,) * 3, (0.5,) * 3))
    meter = task.meter(torch.device("cpu"))
    meter.update(outputs(constant), Batch(torch.zeros(64, 3, 2, 2)), torch.tensor(-0.5))
    said = task.warning(meter.compute())
    assert (said is not None) is constant
    if said:
        assert "collapse" in said and "\n" not in said


def test_outputs_along_one_line_are_a_collapse_though_they_spread():
    """Two opposite clusters: the spread is that of a healthy network, the rank is not."""
    task = SelfSupervised(small.dataset(["a"], (0.5,) * 3, (0.5,) * 3))
    line = torch.where(torch.rand(64, 1) < 0.5, -1.0, 1.0) * torch.randn(1, 16)
    assert spread(line) > 0.5
    assert task.warning({"spread": float(spread(line)), "rank": float(effective_rank(line))})
