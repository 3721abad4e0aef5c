"""Consistency regularisation as a run has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from teachaugment.batch import Batch
from teachaugment.engine import build, checkpoint, directory, restore
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.run import run
from teachaugment.engine.trainer import Trainer
from teachaugment.strategies.consistency import DISTANCES

from .conftest import PURE, Plain, first_batch, tiny, trainer, weights

pytestmark = pytest.mark.usefixtures("few_images")


@pytest.mark.parametrize("name", DISTANCES)
def test_the_targets_loss_is_its_own_and_the_distance_to_the_teacher(plain, name, monkeypatch):
    made = trainer(augment__strategy=name, **PURE)
    teacher = made.strategy.teacher.model
    with torch.no_grad():
        teacher.linear.weight.add_(torch.randn_like(teacher.linear.weight))
    seen: list[Batch] = []
    forward = made.task.forward
    monkeypatch.setattr(made.task, "forward", lambda network, batch: seen.append(batch) or forward(network, batch))
    start, kept = Plain(10), weights(teacher)
    start.load_state_dict(made.target.state_dict())
    before = weights(made.target)
    monkeypatch.setattr(made.strategy, "step", lambda batch: None)
    meter = made.task.meter(made.device)
    made.train_step(first_batch(made), meter)
    output = start(seen[0].image)
    expected = teacher(seen[0].image)
    loss = nn.functional.cross_entropy(output, seen[0].label) + DISTANCES[name](output, expected)
    loss.backward()
    torch.testing.assert_close(before - weights(made.target), torch.cat([p.grad.flatten() for p in start.parameters()]))
    assert meter.compute()["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert torch.equal(weights(teacher), kept) and all(p.grad is None for p in teacher.parameters())


@pytest.mark.parametrize("name", DISTANCES)
def test_a_resumed_consistency_run_equals_the_uninterrupted_one(name, tmp_path, monkeypatch):
    def start(path: Path) -> dict[str, Any]:
        config = tiny(augment__strategy=name, output=str(path), train__epochs=3)
        return run(build.build(config), directory.create_run(config))

    whole = start(tmp_path / "whole")
    assert whole["test"].keys() == {"target", "teacher"} and "probabilities" not in whole
    step = Trainer.train_step

    def stops(self: Trainer, *arguments: Any) -> Any:
        if self.step == 3:
            raise KeyboardInterrupt
        return step(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "train_step", stops)
        start(tmp_path / "stopped")
    made, path = restore.resume(
        tiny(augment__strategy=name, output=str(tmp_path / "stopped"), train__epochs=3), tmp_path / "stopped"
    )
    assert made.step == 2
    run(made, path)
    states = [checkpoint.load(tmp_path / name / checkpoint.LAST) for name in ("whole", "stopped")]
    for part in ("target", "consistency"):
        first, second = (torch.utils._pytree.tree_leaves(state[part]) for state in states)
        assert len(first) == len(second) > 0
        assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(first, second, strict=True))
    files = [(tmp_path / name / directory.METRICS).read_bytes() for name in ("whole", "stopped")]
    assert files[0] == files[1]
    again = restore.evaluate_run(tiny(augment__strategy=name), tmp_path / "whole", "last", None)
    assert again["test"]["teacher"]["accuracy"] == whole["test"]["teacher"]["accuracy"]


def test_consistency_with_a_pretrained_teacher_is_distillation(tmp_path):
    config = tiny(augment__strategy="none", output=str(tmp_path / "run"))
    run(build.build(config), directory.create_run(config))
    made = trainer(augment__strategy="consistency-kld", teach__teacher=str(tmp_path / "run"))
    teacher = made.strategy.teacher.model
    before = weights(teacher)
    made.train_epoch(TrainingDisplay(made.total_steps))
    assert torch.equal(weights(teacher), before) and not torch.equal(weights(made.target), before)


def test_consistency_in_half_precision():
    made = trainer(augment__strategy="consistency-mse", train__amp="bf16")
    record = made.train_epoch(TrainingDisplay(made.total_steps))
    assert torch.isfinite(torch.tensor(record["train"]["loss"]))
    assert made.evaluate("test").keys() == {"target", "teacher"}
