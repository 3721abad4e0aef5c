"""``teach.fresh_batch``: the augmenter's update has a batch of its own, which seed, epoch and step decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small
import torch

from teachaugment.engine import build, checkpoint
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.trainer import Trainer

BASE = {
    "data.per_class": 4, "model.name": "cnn-4", "train.epochs": 3, "train.batch_size": 8, "teach.n_inner": 2,
    "teach.n_buffer": 1, "teach.fresh_batch": True, "train.tensorboard": False, "train.eval_every": 3,
}  # fmt: skip


def config(path: Path | None = None, **changed: Any):
    return small.settings(BASE, {**changed, **({"output": str(path)} if path else {})})


def rows_of(trainer: Trainer, epochs: int) -> tuple[list[list[int]], list[list[int]]]:
    """The images of the target's updates and those the strategy was given to learn from."""
    target, learned, step = [], [], trainer.strategy.step

    def watched(batch):
        if trainer.strategy.due:
            learned.append(batch.index.tolist())
        return step(batch)

    trainer.strategy.step = watched  # type: ignore[method-assign]
    train_step = trainer.train_step
    trainer.train_step = lambda batch, meter: (target.append(batch.index.tolist()), train_step(batch, meter))[1]  # type: ignore[method-assign]
    for _ in range(epochs):
        trainer.train_epoch(TrainingDisplay(trainer.total_steps))
    return target, learned


def test_the_augmenter_learns_from_other_images_and_as_often():
    target, learned = rows_of(build.build(config()), 2)
    assert len(target) == 10 and len(learned) == 5
    assert all(rows != target[2 * k + 1] for k, rows in enumerate(learned))
    flat = [row for rows in learned[:2] for row in rows]
    assert len(set(flat)) == len(flat), "within an epoch no image comes twice"
    _, same = rows_of(build.build(config(teach__fresh_batch=False)), 1)
    assert same == target[1:5:2]


@pytest.mark.parametrize("stop_at", [4, 8, 11])
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, monkeypatch, stop_at):
    torch.set_num_threads(1)
    small.train(config(tmp_path / "whole"), 20)
    step = Trainer.train_step

    def stops(self: Trainer, *arguments: Any) -> Any:
        if self.step == stop_at:
            raise KeyError
        return step(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyError):
        patch.setattr(Trainer, "train_step", stops)
        small.train(config(tmp_path / "run"), 20)
    small.go_on(config(tmp_path / "run"), tmp_path / "run", 20)
    states = [checkpoint.load(tmp_path / name / checkpoint.LAST) for name in ("whole", "run")]
    for part in ("target", "teach"):
        a, b = (torch.cat([v.flatten().float() for v in tensors(state[part])]) for state in states)
        assert torch.equal(a, b), part


def tensors(tree: Any) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    values = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return [tensor for value in values for tensor in tensors(value)]
