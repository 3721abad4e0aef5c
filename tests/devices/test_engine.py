"""The engine's own step on the pretended device: flips, crops, both updates, the guard, and the sums of an epoch."""

from __future__ import annotations

import pytest
import small

from teachaugment.engine import build

from .pretended import DEVICE, Refused, Watched, pretended_device

TINY = {
    "data.size": 32, "train.batch_size": 8, "train.epochs": 4, "train.tensorboard": False,
    "teach.n_inner": 2, "teach.n_buffer": 1, "device": DEVICE.type,
}  # fmt: skip


def train(steps=3, fault=None, **changed):
    with pretended_device():
        trainer = build.build(small.settings(TINY, changed))
        batch = next(iter(trainer.batches("train", training=True)))
        meter = trainer.task.meter(trainer.device)
        trainer.step = 1  # in each hundredth step the values of a batch are looked at, which is meant to wait
        if fault is not None:
            before = trainer.task.before
            trainer.task.before = lambda part, generator: fault(before(part, generator))
        with Watched() as watched:
            for _ in range(steps):
                trainer.train_step(batch, meter)
    return watched


@pytest.mark.parametrize("strategy", ["none", "adaptive", "teachaugment"])
@pytest.mark.parametrize(
    ("task", "model"),
    [("classification", "cnn-4"), ("segmentation", "unet-16"), ("simsiam", "cnn-4"), ("detection", "fcos-small")],
)
def test_a_step_of_a_run_stays_on_its_device_and_waits_for_nothing(task, model, strategy):
    assert train(task=task, model__name=model, augment__strategy=strategy).operations > 100


def test_a_mistake_is_found():
    with pytest.raises(Refused, match="reads a number back"):
        train(fault=lambda batch: batch.replace(image=batch.image / batch.image.max().item()))
