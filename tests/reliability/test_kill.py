"""A run that was killed anywhere and resumed equals the run that nobody disturbed, bit for bit."""

from __future__ import annotations

import os
import random
import signal
import time
from types import SimpleNamespace

import pytest

from teachaugment import files
from teachaugment.engine import checkpoint


def killed_in_a_save(operation: str, number: int):
    """Prepare a process to be killed at its n-th write, flush or rename of a checkpoint."""
    count = 0

    def counted(function):
        def call(*arguments, **keywords):
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **keywords)

        return call

    def prepare() -> None:
        if operation == "write":
            checkpoint._Hashed.write = counted(checkpoint._Hashed.write)
        else:
            calls = {**vars(os), operation: counted(getattr(os, operation))}
            files.os = SimpleNamespace(**calls)  # of this file alone: the log, too, is flushed

    return prepare


@pytest.mark.parametrize("count", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_a_random_moment(lab, record, count):
    for i in range(count):
        path, random_numbers = lab.fresh(), random.Random(i)
        process = lab.train(path)
        time.sleep(random_numbers.uniform(0, 1.1 * lab.seconds))
        process.send(signal.SIGKILL)
        assert process.wait() in (0, -signal.SIGKILL)
        lab.finish(path)
        lab.same(path)
    record("SIGKILL at a random moment, then resumed: bit for bit the undisturbed run", count)


@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_inside_a_save(lab, record, count):
    for i in range(count):
        path, random_numbers = lab.fresh(), random.Random(i)
        operation, most = [("write", 600), ("fsync", 40), ("replace", 40)][i % 3]
        process = lab.train(path, prepare=killed_in_a_save(operation, random_numbers.randint(1, most)))
        assert process.wait() == -signal.SIGKILL, process.said()
        lab.finish(path)
        lab.same(path)
    record("SIGKILL inside a save (at a write, a flush, a rename), then resumed: the same", count)
