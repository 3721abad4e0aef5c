"""Several copies of a batch, and mixed images, on top of a strategy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from teachaugment.batch import Batch
from teachaugment.engine.display import TrainingDisplay

from .conftest import PURE, Plain, first_batch, trainer, weights

pytestmark = pytest.mark.usefixtures("few_images")


@pytest.mark.parametrize("strategy", ["none", "teachaugment", "trivialaugment"])
def test_the_loss_of_copies_is_the_mean_over_independent_draws(plain, strategy, monkeypatch):
    made = trainer(augment__strategy=strategy, augment__copies=3, **PURE)
    seen: list[Batch] = []
    forward = made.task.forward
    monkeypatch.setattr(made.task, "forward", lambda network, batch: seen.append(batch) or forward(network, batch))
    batch, before = first_batch(made), weights(made.target)
    start = Plain(10)
    start.load_state_dict(made.target.state_dict())
    meter = made.task.meter(made.device)
    made.train_step(batch, meter)
    assert len(seen) == 3 and meter.compute()["images"] == 30
    assert not torch.equal(seen[0].image, seen[1].image) and not torch.equal(seen[1].image, seen[2].image)
    assert all(torch.equal(copy.label, batch.label) for copy in seen)
    loss = sum(nn.functional.cross_entropy(start(copy.image), copy.label) for copy in seen) / 3
    loss.backward()
    step = torch.cat([p.grad.flatten() for p in start.parameters()])
    torch.testing.assert_close(before - weights(made.target), step)


def test_copies_are_reproducible_and_one_copy_is_what_there_was():
    runs = []
    for copies in (1, 1, 2, 2):
        made = trainer(augment__copies=copies)
        made.train_epoch(TrainingDisplay(made.total_steps))
        runs.append(weights(made.target))
    assert torch.equal(runs[0], runs[1]) and torch.equal(runs[2], runs[3]) and not torch.equal(runs[0], runs[2])


def test_the_augmenter_sees_each_batch_once_whatever_the_copies(monkeypatch):
    made, seen = trainer(augment__copies=3, teach__n_inner=1), []
    step = made.strategy.step
    monkeypatch.setattr(made.strategy, "step", lambda batch: seen.append(len(batch)) or step(batch))
    made.train_epoch(TrainingDisplay(made.total_steps))
    assert seen == [10, 10]


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
@pytest.mark.parametrize("strategy", ["none", "teachaugment", "augmix"])
def test_mixing_on_top_of_a_strategy(name, strategy, monkeypatch):
    made = trainer(augment__strategy=strategy, augment__mix=name)
    seen: list[Any] = []
    loss_of = made.task.loss
    monkeypatch.setattr(made.task, "loss", lambda *given: (loss := loss_of(*given), seen.append((loss, *given)))[0])
    record = made.train_epoch(TrainingDisplay(made.total_steps))
    loss, output, batch = seen[-1]
    assert batch.label.shape == (10, 10)
    by_hand = -(batch.label * output.log_softmax(1)).sum(1).mean()
    assert loss.item() == pytest.approx(by_hand.item(), rel=1e-5)
    assert 0 <= record["train"]["accuracy"] <= 1
    assert made.evaluate("test")["target"]["images"] == 40


def test_mixing_is_part_of_the_targets_update_only():
    made = trainer(augment__mix="mixup", teach__n_inner=1)
    batch = first_batch(made)
    measured = made.train_step(batch, made.task.meter(made.device))
    assert measured is not None and all(value.isfinite() for value in measured.values())
    assert batch.label is not None and batch.label.dtype == torch.int64


def test_training_accuracy_on_mixed_images_goes_by_the_larger_part():
    made = trainer(augment__strategy="none")
    meter = made.task.meter(made.device)
    label = torch.zeros(2, 10)
    label[0, 3], label[0, 4], label[1, 3], label[1, 4] = 0.7, 0.3, 0.2, 0.8
    output = 9.0 * torch.eye(10)[[3, 3]]
    meter.update(output, Batch(torch.zeros(2, 3, 8, 8), label), torch.tensor(0.5))
    assert meter.compute()["accuracy"] == 0.5 and meter.compute()["loss"] == 0.5
