"""Consistency regularisation against the appendix's equation."""

import math

import pytest
import torch
from torch import nn

from teachaugment.batch import Batch
from teachaugment.strategies.consistency import DISTANCES, Consistency, kld, mse
from teachaugment.teachers import EMATeacher


def log(*rows):
    return torch.tensor(rows).log()


def test_divergence_by_hand():
    target, teacher = log([0.5, 0.5], [0.2, 0.8]), log([0.9, 0.1], [0.2, 0.8])
    by_hand = 0.9 * math.log(0.9 / 0.5) + 0.1 * math.log(0.1 / 0.5)
    assert kld(target, teacher).item() == pytest.approx(by_hand / 2, abs=1e-6)


def test_squared_difference_by_hand():
    target, teacher = log([0.5, 0.5], [0.2, 0.8]), log([0.9, 0.1], [0.2, 0.8])
    assert mse(target, teacher).item() == pytest.approx((0.4**2 + 0.4**2) / 4, abs=1e-6)


@pytest.mark.parametrize("distance", DISTANCES.values())
def test_the_gradient_pulls_the_target_to_the_teacher_and_leaves_the_teacher_alone(distance):
    target = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    regular = Consistency(target, EMATeacher(target), distance)
    with torch.no_grad():
        target[1].weight.add_(torch.randn(3, 12))
    image = torch.rand(8, 3, 2, 2)
    before = [p.clone() for p in regular.teacher.model.parameters()]
    losses = []
    optimizer = torch.optim.SGD(target.parameters(), 0.5)
    for _ in range(20):
        loss = regular.loss(target(image), Batch(image))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    teacher = list(regular.teacher.model.parameters())
    assert all(p.grad is None and not p.requires_grad for p in teacher)
    assert all(torch.equal(a, b) for a, b in zip(before, teacher, strict=True))
    regular.step(Batch(image))
    assert not all(torch.equal(a, b) for a, b in zip(before, regular.teacher.model.parameters(), strict=True))


@pytest.mark.parametrize("distance", DISTANCES.values())
def test_the_distance_of_equal_networks_is_zero(distance):
    logits = torch.randn(5, 7)
    assert distance(logits, logits.clone()).item() == pytest.approx(0, abs=1e-6)


def test_the_teacher_is_kept_in_the_state():
    target = nn.Linear(3, 2)
    first, second = (Consistency(target, EMATeacher(target), kld) for _ in range(2))
    with torch.no_grad():
        target.weight.add_(1)
    first.step(Batch(torch.zeros(1, 3, 2, 2)))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.teacher.model.weight, second.teacher.model.weight)
    assert second.teacher.updates == 1
