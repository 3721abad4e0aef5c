from __future__ import annotations

import pytest
from torch import nn
from torch.optim import SGD, AdamW

from teachaugment import models
from teachaugment.config.sections import OptimConfig
from teachaugment.engine.optim import default_milestones, learning_rate, optimizer


@pytest.mark.parametrize("epochs", [1, 2, 3, 7])
@pytest.mark.parametrize("warmup_epochs", [0, 1, 5])
@pytest.mark.parametrize("per_epoch", [2, 5, 13])
def test_the_cosine_ends_at_zero_whatever_the_number_of_epochs(epochs, warmup_epochs, per_epoch):
    total = epochs * per_epoch
    rates = [learning_rate(s, total, peak=0.1, warmup=warmup_epochs * per_epoch) for s in range(total)]
    assert rates[-1] == 0
    assert all(0 < rate <= 0.1 for rate in rates[:-1])
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1]) and rates[top:] == sorted(rates[top:], reverse=True)


def test_the_warm_up_is_linear_up_to_the_peak():
    rates = [learning_rate(s, 100, peak=1.0, warmup=4) for s in range(5)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0] and rates[4] < 1


def test_a_single_step_is_not_wasted():
    assert learning_rate(0, 1, peak=0.1) == 0.1


def test_the_constant_schedule_is_constant():
    assert {learning_rate(s, 9, peak=0.1, schedule="constant") for s in range(9)} == {0.1}


def test_the_step_schedule_divides_by_ten_at_each_milestone():
    rates = [learning_rate(s, 270, peak=1.0, schedule="step", milestones=(90, 180, 240)) for s in (89, 90, 180, 269)]
    assert rates == pytest.approx([1, 0.1, 0.01, 0.001])
    assert default_milestones(270) == [90, 180, 240]


def test_the_poly_schedule_is_that_of_the_appendix():
    rates = [learning_rate(s, 100, peak=5e-3, schedule="poly") for s in range(100)]
    assert rates == pytest.approx([5e-3 * (1 - s / 100) ** 0.9 for s in range(100)])
    assert learning_rate(4, 100, peak=1.0, warmup=4, schedule="poly") == 1


def test_weight_decay_spares_biases_and_normalisation_layers():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    model[3].weight.requires_grad_(False)
    decayed, spared = optimizer(OptimConfig(), model).param_groups
    assert decayed["weight_decay"] == 5e-4 and [id(p) for p in decayed["params"]] == [id(model[0].weight)]
    assert spared["weight_decay"] == 0
    expected = [model[0].bias, model[1].weight, model[1].bias, model[3].bias]
    assert [id(p) for p in spared["params"]] == [id(p) for p in expected]


def test_weight_decay_on_norms_and_biases_if_asked():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    groups = optimizer(OptimConfig(weight_decay=5e-4, decay_norms=True), model).param_groups
    assert [group["weight_decay"] for group in groups] == [5e-4, 5e-4]
    assert sum(len(group["params"]) for group in groups) == 4


def test_layers_and_backbone_have_learning_rates_of_their_own():
    model = models.create("cnn-4", 4)
    made = optimizer(OptimConfig(name="adamw", layer_decay=0.5, backbone_lr=0.1, betas=(0.8, 0.9)), model)
    assert isinstance(made, AdamW) and made.defaults["betas"] == (0.8, 0.9)
    scale = {id(p): group["scale"] for group in made.param_groups for p in group["params"]}
    found = [scale[id(model.get_parameter(f"features.{k}.0.weight"))] for k in (0, 2, 4, 6)]
    assert found == pytest.approx([0.1 / 16, 0.1 / 8, 0.1 / 4, 0.1 / 2]) and scale[id(model.head.bias)] == 1
    assert len(scale) == len(list(model.parameters()))
    assert {group["weight_decay"] for group in made.param_groups} == {0.0, 5e-4}


def test_without_factors_the_groups_are_those_of_earlier_runs():
    made = optimizer(OptimConfig(), models.create("cnn-4", 4))
    assert isinstance(made, SGD) and [group["weight_decay"] for group in made.param_groups] == [5e-4, 0.0]
    assert all(group["scale"] == 1 and not group["steady"] for group in made.param_groups)
