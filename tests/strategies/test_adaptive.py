"""The strategy ``adaptive`` in a run: every task, the log, the policy, exact resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small import go_on, settings, train

from teachaugment import load_policy
from teachaugment.config.resolve import Config
from teachaugment.engine import build, checkpoint, directory
from teachaugment.engine.trainer import Trainer
from teachaugment.strategies import DEFAULT

TINY = {
    "augment.strategy": DEFAULT, "data.size": 16, "data.per_class": 8, "train.batch_size": 20, "train.epochs": 6,
    "train.eval_every": 6, "train.tensorboard": False, "device": "cpu",
}  # fmt: skip
OTHER_TASKS = {
    "segmentation": {"task": "segmentation", "model.name": "unet-16", "train.epochs": 2},
    "simsiam": {"task": "simsiam", "train.epochs": 2, "views.dim": 16, "views.hidden": 8},
}


def tiny(path: Path, **changed: Any) -> Config:
    return settings({**TINY, "output": str(path)}, changed)


def log(path: Path) -> list[dict[str, Any]]:
    found = map(json.loads, (path / directory.LOG).read_text().splitlines())
    return [entry for entry in found if entry["event"] == "epoch"]


@pytest.fixture
def eager(monkeypatch):
    """A governor that opens at once: a network of a few steps masters nothing."""
    monkeypatch.setattr("teachaugment.governor.ASKED", 0.0)
    monkeypatch.setattr("teachaugment.governor.RATIO", 0.0)


def test_it_is_the_default_and_waits_for_the_network(tmp_path):
    assert DEFAULT == "adaptive"
    train(tiny(tmp_path / "run", train__epochs=2), tests=20)
    found = [entry["teach"] for entry in log(tmp_path / "run")]
    assert all({"strength", "plain_mastery", "augmented_mastery"} <= entry.keys() for entry in found)
    assert found[-1]["strength"] == 0 and load_policy(tmp_path / "run").strength == 0


def test_the_strength_is_in_the_log_the_policy_and_the_report(eager, tmp_path):
    train(tiny(tmp_path / "run"), tests=20)
    strength = log(tmp_path / "run")[-1]["teach"]["strength"]
    policy = load_policy(tmp_path / "run")
    assert 0 < strength == policy.strength and policy.augmenter.name == "operations"
    assert load_policy(tmp_path / "run", strength=0.5).strength == strength / 2
    images = torch.rand(32, 3, 16, 16)
    assert not torch.equal(policy(images), images)
    page = (tmp_path / "run" / directory.REPORT).read_text()
    assert "How strong the augmentation is, and why" in page and "of its training images as they are" in page
    assert "The augmenter still does nothing" not in page


@pytest.mark.parametrize("task", OTHER_TASKS)
def test_masks_and_views(eager, task, tmp_path):
    train(settings({**TINY, **OTHER_TASKS[task], "output": str(tmp_path / "run")}, {}), tests=8)
    assert log(tmp_path / "run")[-1]["teach"]["strength"] > 0
    assert 0 <= log(tmp_path / "run")[-1]["teach"]["plain_mastery"] <= 1


class Stopped(Exception):
    pass


@pytest.mark.parametrize("stop_at", [5, 9])
def test_a_resumed_run_equals_the_uninterrupted_one(eager, tmp_path, monkeypatch, stop_at):
    train(tiny(tmp_path / "whole"), tests=20)
    step = Trainer.train_step

    def stops(self: Trainer, *arguments: Any) -> Any:
        if self.step == stop_at:
            raise Stopped
        return step(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Trainer, "train_step", stops)
        train(tiny(tmp_path / "run"), tests=20)
    go_on(tiny(tmp_path / "run"), tmp_path / "run", tests=20)
    one, other = (checkpoint.load(tmp_path / name / checkpoint.LAST) for name in ("whole", "run"))
    assert all(torch.equal(value, other["target"][name]) for name, value in one["target"].items())
    governors = [state["teach"]["governor"] for state in (one, other)]
    for name in ("counts", "arms"):
        assert torch.equal(*(governor.pop(name) for governor in governors))
    assert governors[0] == governors[1] and governors[0]["strength"] > 0


def test_a_run_without_augmentation_pays_for_none(tmp_path):
    trainer = build.build(tiny(tmp_path / "run"))
    batch = next(trainer.batches("train"))
    assert trainer.strategy.augment(batch) is batch and not trainer.strategy.due
