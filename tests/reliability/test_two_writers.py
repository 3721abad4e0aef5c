"""One process at a time writes a run: a second one is refused, by the name of the first, and nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest

from teachaugment import files
from teachaugment.engine import checkpoint, directory, lock
from teachaugment.engine.trainer import Trainer

from .conftest import signalled
from .test_ranks import both


def epochs(lab, path) -> Counter[int]:
    return Counter(line["epoch"] for line in lab.lines(path) if line["event"] == "epoch")


@pytest.mark.parametrize("count", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_a_second_writer_is_refused_and_a_kill_after_it_loses_nothing(lab, record, count):
    for i in range(count):
        path, numbers = lab.fresh(), random.Random(i)
        process = lab.train(path)
        lab.until((path / checkpoint.LAST).exists, process)
        process.send(signal.SIGSTOP)  # still going, however long the second one takes
        second = lab.train(path)
        assert second.wait() == 2 and len(second.said().splitlines()) == 1, second.said()
        assert f"{path} is being written by process {process.pid} on " in second.said()
        process.send(signal.SIGCONT)
        time.sleep(numbers.uniform(0, lab.seconds))
        process.send(signal.SIGKILL)
        assert process.wait() in (0, -signal.SIGKILL)
        lab.finish(path)
        lab.same(path)
        assert set(epochs(lab, path).values()) == {1}
    record("SIGKILL of a run that a second writer was refused for, then resumed: the same", count)


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_two_starts_with_one_output(lab, record, count):
    for _ in range(count):
        path = lab.fresh()
        starts = [lab.train(path), lab.train(path)]
        assert sorted(process.wait() for process in starts) == [0, 2], [process.said() for process in starts]
        (refused,) = (process for process in starts if process.code == 2)
        assert len(refused.said().splitlines()) == 1
        lab.same(path)
    record("two starts with one --output: one trains, the other says why not", count)


def test_ranks_that_outlive_their_launcher(lab, record):
    """Both go on, and those of the resumed run are told so; killed, the run goes on."""
    path = lab.fresh()
    real = Trainer.train_step

    def slow(*arguments):
        time.sleep(0.2)
        return real(*arguments)

    first = both(lab, path, *[lambda: setattr(Trainer, "train_step", slow)] * 2)
    lab.until((path / checkpoint.LAST).exists, first[0])
    again = both(lab, path)
    assert again[0].wait() == 2 and "is being written by process" in again[0].said(), again[0].said()
    assert again[1].wait() == 2
    for process in first:
        process.send(signal.SIGKILL)
        process.wait()
    for process in both(lab, path):
        assert process.wait() == 0, process.said()
    assert set(epochs(lab, path).values()) == {1}
    record("processes that outlive their launcher: the resumed run is refused until they have ended", 1)


def test_a_killed_process_leaves_neither_lock_nor_half_files(lab):
    path, count = lab.fresh(), 0

    def prepare() -> None:
        real = os.fsync

        def fsync(descriptor: int) -> None:
            nonlocal count
            count += 1
            if count == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            real(descriptor)

        files.os = type("os", (), {**vars(os), "fsync": staticmethod(fsync)})

    assert lab.train(path, prepare=prepare).wait() == -signal.SIGKILL
    assert any(entry.name.startswith(files.UNFINISHED) for entry in path.iterdir())
    lab.finish(path)
    lab.same(path)
    assert not [entry.name for entry in path.iterdir() if entry.name.startswith(".")]


def test_a_start_killed_before_its_settings_are_written_leaves_a_directory_to_begin_in(lab):
    path = lab.fresh()
    process = lab.train(path, prepare=signalled(directory, "create_whole", 1, signal.SIGKILL))
    assert process.wait() == -signal.SIGKILL and [entry.name for entry in path.iterdir()] == [lock.NAME]
    lab.finish(path)
    lab.same(path)


def test_a_copy_of_a_run_that_is_being_written_is_refused(lab):
    path, into = lab.fresh(), lab.fresh()
    process = lab.train(path, train__epochs=200)
    lab.until((path / checkpoint.LAST).exists, process)
    second = lab.start("train", "--resume", path, "--output", into)
    assert second.wait() == 2 and "is being written by" in second.said(), second.said()
    process.send(signal.SIGTERM)
    assert process.wait() == 143
    second = lab.start("train", "--resume", path, "--output", into, "--epochs", "3", "--force")
    assert second.wait() in (0, 2), second.said()
    assert not (path / lock.NAME).exists()
