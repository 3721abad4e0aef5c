"""Asked to stop by a signal, a run saves and leaves within seconds, and resumed it equals the run nobody disturbed."""

from __future__ import annotations

import random
import signal
import time
from typing import Any

import pytest

from teachaugment.algorithm import TeachAugment
from teachaugment.engine import checkpoint, directory, epoch_sums, evaluate, log, precision, run
from teachaugment.engine.interrupts import Interrupts
from teachaugment.engine.trainer import Trainer
from teachaugment.teachers import EMATeacher

from .conftest import signalled

# Where in a step or between two epochs the signal arrives: before this call, the n-th of its kind in the run.
PLACES: dict[str, tuple[Any, str, int]] = {
    "a step": (Trainer, "train_step", 12),
    "the target's update": (precision.Precision, "step", 12),
    "the teacher's update": (EMATeacher, "update", 12),
    "the augmenter's update": (TeachAugment, "update_augmenter", 6),
    "the augmenter's backward pass": (TeachAugment, "backward", 6),
    "waiting for images": (Interrupts, "_between", 14),
    "an evaluation": (evaluate, "sums", 6),
    "counting an epoch": (Trainer, "end_epoch", 3),
    "adding up an epoch": (epoch_sums.EpochSums, "results", 3),
    "the log": (log.Log, "write", 4),
    "a save": (checkpoint, "save", 14),
    "the end": (run, "finish", 1),
}


@pytest.mark.parametrize(
    "points",
    [
        [("the augmenter's update", 2), ("an evaluation", 2), ("a save", 5)],
        pytest.param(30, marks=pytest.mark.slow),
    ],
    ids=["few", "all"],
)
def test_stopped_in_any_phase(lab, record, points):
    if isinstance(points, int):
        numbers = random.Random(0)
        places = [list(PLACES)[i % len(PLACES)] for i in range(points)]
        points = [(place, numbers.randint(1, PLACES[place][2])) for place in places]
    for place, call in points:
        path = lab.fresh()
        process = lab.train(path, prepare=signalled(*PLACES[place][:2], call))
        code = process.wait()
        # A signal at the very end comes too late to stop anything.
        assert code == 143 or (place == "the end" and code == 0), (place, call, process.said())
        assert code == 0 or "continue with: teachaugment train --resume" in process.said()
        lab.finish(path)
        lab.same(path)
    record("graceful stops at epoch edges and in every phase of an update", len(points))


def test_the_number_of_workers_may_change_at_every_resume(lab, record, streaming):
    """0, 2, 0, stopped in mid-epoch each time, against a run that stays with 0."""
    whole, path = lab.fresh(), lab.fresh()
    lab.finish(whole, **streaming)
    stops = [signalled(*PLACES[place][:2], call) for place, call in (("a step", 3), ("the augmenter's update", 2))]
    assert lab.train(path, prepare=stops[0], **streaming).wait() == 143
    assert lab.train(path, "--workers", 2, prepare=stops[1]).wait() == 143
    lab.finish(path, "--workers", 0)
    lab.same(path, whole)
    record("workers 0 → 2 → 0 over two stops, images read from disk", 1)


def slow_evaluation() -> None:
    real = Trainer.batches

    def batches(self: Any, split: str, training: bool = False) -> Any:
        for batch in real(self, split, training):
            if not training:
                time.sleep(0.5)
            yield batch

    Trainer.batches = batches


def slow_save() -> None:
    real = checkpoint._Hashed.write

    def write(self: Any, data: Any) -> int:
        time.sleep(0.0005)
        return real(self, data)

    checkpoint._Hashed.write = write


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_a_signal_ends_a_run_within_ten_seconds(lab, record, streaming, count):
    """With images in memory and with two workers, in slow evaluations and slow saves; sent to one process or to all."""
    cases = [
        ({}, lambda: None),
        ({**streaming, "data__workers": 2}, lambda: None),
        ({}, slow_evaluation),
        ({}, slow_save),
    ]
    slowest = 0.0
    for i in range(count):
        options, prepare = cases[i % len(cases)]
        number = signal.SIGINT if i // len(cases) % 2 else signal.SIGTERM
        path = lab.fresh()
        process = lab.train(path, prepare=prepare, train__epochs=200, **options)
        lab.until((path / checkpoint.LAST).exists, process)
        time.sleep(random.Random(i).uniform(0, 1))
        began = time.monotonic()
        process.send(number, group=i % 2 == 1)
        assert process.wait() == 128 + number, process.said()
        slowest = max(slowest, time.monotonic() - began)
        assert slowest < 10
        assert checkpoint.load(path / checkpoint.LAST)["step"] > 0 and "Traceback" not in process.said()
    record(f"SIGTERM and Ctrl-C at random moments, left within 10 s (slowest {slowest:.1f} s)", count)


def test_a_second_signal_leaves_at_once(lab):
    path = lab.fresh()
    process = lab.train(path, prepare=lambda: setattr(Trainer, "train_step", lambda *_: time.sleep(600)))
    lab.until((path / directory.LOG).exists, process)
    time.sleep(0.3)
    process.send(signal.SIGTERM)
    time.sleep(1.2)
    began = time.monotonic()
    process.send(signal.SIGTERM)
    assert process.wait() == 143 and time.monotonic() - began < 2
