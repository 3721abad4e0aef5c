"""Two processes that train one model: one is killed, the other says so and ends; started again, nothing was lost."""

from __future__ import annotations

import random
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from teachaugment.algorithm import TeachAugment
from teachaugment.engine import checkpoint, directory
from teachaugment.engine.trainer import Trainer

from .conftest import SETTINGS, Lab, Prepare, Process, nothing, signalled

WITHIN = 60  # seconds
PLACES: dict[str, tuple[Any, str, int]] = {
    "a step": (Trainer, "train_step", 6),
    "the augmenter's update": (TeachAugment, "update_augmenter", 3),
    "a save": (checkpoint, "save", 3),  # of rank 0
    "an evaluation": (Trainer, "evaluate", 3),
}


def both(lab: Lab, path: Path, *prepare: Prepare) -> list[Process]:
    """Begin a run of two processes, or go on with it, as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = [f"--{key}={value}" for key, value in {**SETTINGS, "train.batch_size": 4}.items()]
    words = ["--resume", path] if (path / directory.CONFIG).exists() else [*flags, "--output", path]
    found = []
    for rank in range(2):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
        before = prepare[rank] if prepare else nothing
        found.append(lab.start("train", *words, prepare=before, **place, **address))
    return found


@pytest.fixture(scope="session")
def undisturbed(lab: Lab) -> Path:
    path = lab.fresh()
    for process in both(lab, path):
        assert process.wait() == 0, process.said()
    return path


@pytest.mark.parametrize("count", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_one_of_two_processes_is_killed(lab, record, undisturbed, count):
    slowest = 0.0
    for i in range(count):
        path, numbers = lab.fresh(), random.Random(i)
        place = list(PLACES)[i % len(PLACES)]
        victim = 0 if place == "a save" else numbers.randrange(2)
        prepare = [nothing, nothing]
        owner, name, most = PLACES[place]
        prepare[victim] = signalled(owner, name, numbers.randint(1, most), signal.SIGKILL)
        processes = both(lab, path, *prepare)
        assert processes[victim].wait() == -signal.SIGKILL, processes[victim].said()
        began = time.monotonic()
        other = processes[1 - victim]
        assert other.wait(WITHIN) == 2, other.said()
        slowest = max(slowest, time.monotonic() - began)
        (line,) = other.error_lines()
        assert "has lost another one" in line and "Traceback" not in other.said()
        for process in both(lab, path):
            assert process.wait() == 0, process.said()
        lab.same(path, undisturbed)
    record(f"one of two processes killed, started again: the same (the other left within {slowest:.0f} s)", count)
