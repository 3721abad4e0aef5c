"""The class ``TeachAugment``, used in ways that cannot work: one line says why, and nothing is half done."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from teachaugment import TeachAugment, UserError

from .conftest import differences


def network():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(800, 4))


def images(n=16):
    return torch.rand(n, 3, 12, 12), torch.randint(4, (n,))


def state_of(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def train(teach, target, steps):
    optimizer = torch.optim.SGD(target.parameters(), 0.05)
    for _ in range(steps):
        x, y = images()
        loss = F.cross_entropy(target(teach(x, y)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        teach.step(x, y)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_inner": 0}, {"n_inner": 1.5}, {"ema_decay": 2}, {"ema_decay": -0.1}, {"replay_decay": -1},
        {"replay_decay": 0}, {"n_buffer": -1}, {"fraction": 0}, {"at_once": 0}, {"smoothing": 1}, {"lr": torch.nan},
        {"dropout": 1}, {"temperature": 0}, {"group": 0}, {"group": True}, {"ema_warmup": 0}, {"seed": "x"},
        {"affine_width": -1}, {"color_weight": -1}, {"views": 0}, {"channels": 0}, {"num_classes": 0},
    ],
    ids=str,
)  # fmt: skip
def test_numbers_that_cannot_work_are_refused_in_one_line(wrong):
    with pytest.raises(UserError, match=f"^{next(iter(wrong))} must be a (whole )?number") as caught:
        TeachAugment(network(), **{"num_classes": 4, **wrong})
    assert "\n" not in str(caught.value)


def spoilt(state, *path, value=None):
    """A copy with something else at a place, or without it."""
    state = copy.deepcopy(state)
    at = state
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return state


def test_a_state_is_loaded_as_a_whole_or_not_at_all(record):
    target = network()
    teach, other = (
        TeachAugment(target, num_classes=4, augmenter="neural", n_inner=1, n_buffer=1, seed=seed) for seed in (0, 1)
    )
    for one in (teach, other):
        train(one, target, 2)
        one.end_epoch()
    good, before = other.state_dict(), copy.deepcopy(teach.state_dict())
    weight = next(iter(good["augmenter"]))
    moments = ("optimizer", "state", next(iter(good["optimizer"]["state"])), "exp_avg")
    wrong = [
        {}, [], None, spoilt(good, "teacher"), spoilt(good, "steps"), spoilt(good, "steps", value="3"),
        spoilt(good, "augmenter", weight), spoilt(good, "augmenter", weight, value=torch.zeros(1)),
        spoilt(good, "replay", "values", weight), spoilt(good, "replay", "count", value=10**9),
        spoilt(good, "optimizer", "param_groups"), spoilt(good, *moments, value=torch.ones(3)),
        spoilt(good, "teacher", "model", value={}), spoilt(good, "teacher", "updates", value=-1),
        spoilt(good, "kind", value="dda"), {**good, "second": good["augmenter"]},
    ]  # fmt: skip
    for state in wrong:
        with pytest.raises(UserError) as caught:
            teach.load_state_dict(state)
        assert "\n" not in str(caught.value)
        assert not differences(before, teach.state_dict())
    teach.load_state_dict(good)
    assert not differences(good, teach.state_dict())
    record("states of TeachAugment that do not fit: nothing is loaded", len(wrong))


def test_a_gradient_that_is_not_finite_does_not_reach_the_augmenter():
    target = network()
    teach = TeachAugment(target, num_classes=4, augmenter="neural", n_inner=1)
    before = state_of(teach.augmenter)
    with torch.no_grad():
        next(target.parameters()).fill_(torch.inf)
    with pytest.raises(UserError, match="a gradient of the augmenter is not finite"):
        teach.step(*images())
    assert not differences(before, state_of(teach.augmenter))


@pytest.mark.parametrize("way", [copy.deepcopy, lambda teach: pickle.loads(pickle.dumps(teach))])
@pytest.mark.parametrize("how", [{}, {"augmenter": "neural", "n_inner": 1, "n_buffer": 1}], ids=["default", "neural"])
def test_a_copy_goes_on_as_the_original_does(way, how):
    x, y = images()
    target = network()
    teach = TeachAugment(target, num_classes=4, **how)
    train(teach, target, 2)
    teach.end_epoch()
    twin = way(teach)
    assert twin.target is not target  # it has copies of all, its target too
    for one in (teach, twin):
        one.step(x, y)
    assert not differences(state_of(teach.augmenter), state_of(twin.augmenter))
    assert torch.equal(teach(x, y), twin(x, y))
