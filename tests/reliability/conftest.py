"""A laboratory for accidents: the smallest training there is, run by the real command in a forked process.

Forking spares each process the import of torch, and the data set is generated once; all else is what a user runs.
``make torture`` runs all of it and writes the table in docs/reliability.md.
"""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo  # which DistributedDataParallel imports: once here, and not in every forked process
from PIL import Image

from teachaugment.commands import cli
from teachaugment.config.resolve import Config, Layer, resolve
from teachaugment.data.splits import DataSet
from teachaugment.engine import build, checkpoint, directory
from teachaugment.engine.build import load_data
from teachaugment.engine.display import TrainingDisplay
from teachaugment.engine.trainer import Trainer

SETTINGS = {
    "data.size": 8, "data.per_class": 5, "data.val_fraction": 0.2, "train.batch_size": 8, "train.epochs": 3,
    "train.eval_every": 1, "train.tensorboard": "false", "train.save_minutes": 1e-9, "teach.n_inner": 2,
    "teach.n_buffer": 1, "optim.warmup_epochs": 1, "augment.strategy": "teachaugment", "device": "cpu",
}  # fmt: skip
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
ROWS: list[tuple[str, int, float]] = []  # what happened, how often, in how many seconds
Prepare = Callable[[], Any]  # what is done in a process before the command runs


def nothing() -> None:
    pass


def signalled(owner: Any, name: str, call: int, number: int = signal.SIGTERM) -> Prepare:
    """Prepare a process to send itself a signal before the n-th call of a function."""
    real, count = getattr(owner, name), 0

    def called(*arguments: Any, **keywords: Any) -> Any:
        nonlocal count
        count += 1
        if count == call:
            os.kill(os.getpid(), number)
        return real(*arguments, **keywords)

    return lambda: setattr(owner, name, called)


@dataclass
class Process:
    """A forked process, the leader of a group of its own, and what it said."""

    pid: int
    output: Path
    code: int | None = None

    def wait(self, seconds: float = 120) -> int:
        """Its exit code, negative for a signal; a process that does not end is killed, and that is a failure."""
        deadline = time.monotonic() + seconds
        while self.ended() is None:
            if time.monotonic() > deadline:
                os.killpg(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                pytest.fail(f"no end after {seconds} s; it said: {self.said()}")
            time.sleep(0.005)
        assert self.code is not None
        return self.code

    def ended(self) -> int | None:
        if self.code is None:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if done else None
        return self.code

    def send(self, number: int, group: bool = False) -> None:
        (os.killpg if group else os.kill)(self.pid, number)

    def said(self) -> str:
        return self.output.read_text()

    def error_lines(self) -> list[str]:
        return [line for line in self.said().splitlines() if line.startswith("teachaugment: error:")]


class Lab:
    def __init__(self, root: Path):
        self.root, self.count = root, 0
        self.reference, self.seconds = root / "reference", 0.0
        self.config = resolve(Layer(SETTINGS, SETTINGS))
        self.data = load_data(self.config)
        for split in ("test", "val"):
            setattr(self.data, split, getattr(self.data, split).select(torch.arange(64)))

    def load(self, config: Config, training: bool = True) -> DataSet:
        """The generated data, generated once."""
        return copy.copy(self.data) if config.data == self.config.data else load_data(config, training)

    def start(self, *arguments: object, prepare: Prepare = nothing, **environment: object) -> Process:
        """``teachaugment`` with these arguments, in a process of its own."""
        self.count += 1
        output = self.root / f"output-{self.count}.txt"
        output.touch()
        pid = os.fork()
        if pid:
            return Process(pid, output)
        code = 99
        try:
            os.setsid()
            os.environ.update({name: str(value) for name, value in environment.items()})
            file = open(output, "w", buffering=1)  # noqa: SIM115 (it stays open until the process ends)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout = sys.stderr = file
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # pytest records warnings; a user sees them.
            warnings.showwarning = lambda message, *_, **__: print(f"teachaugment: warning: {message}", file=sys.stderr)
            build.load_data = self.load
            prepare()
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            traceback.print_exc(file=file)
        finally:
            file.flush()
            os._exit(code)

    def train(self, path: Path, *more: object, prepare: Prepare = nothing, **changed: Any) -> Process:
        """Begin a run, or go on with it if there is one."""
        if (path / directory.CONFIG).exists():
            return self.start("train", "--resume", path, *more, prepare=prepare)
        changed = {**SETTINGS, **{key.replace("__", "."): value for key, value in changed.items()}}
        flags = [f"--{key}={value}" for key, value in changed.items()]
        return self.start("train", *flags, "--output", path, *more, prepare=prepare)

    def finish(self, path: Path, *more: object, **options: Any) -> Process:
        """Train to the end, which must be reached."""
        process = self.train(path, *more, **options)
        assert process.wait() == 0, process.said()
        return process

    def stopped(self, step: int = 8) -> Path:
        """A run that was stopped after this many steps, in the second epoch unless given."""
        path, real = self.fresh(), Trainer.train_step

        def train_step(trainer: Trainer, *arguments: Any) -> Any:
            if trainer.step + 1 == step:
                os.kill(os.getpid(), signal.SIGTERM)
            return real(trainer, *arguments)

        process = self.train(path, prepare=lambda: setattr(Trainer, "train_step", train_step))
        assert process.wait() == 143, process.said()
        return path

    def until(self, condition: Callable[[], bool], process: Process, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert process.ended() is None and time.monotonic() < deadline, process.said()
            time.sleep(0.005)

    def fresh(self) -> Path:
        self.count += 1
        return self.root / f"run-{self.count}"

    def lines(self, path: Path) -> list[dict[str, Any]]:
        """The log without what depends on the clock."""
        records = [json.loads(line) for line in (path / directory.LOG).read_text().splitlines()]
        return [{key: value for key, value in record.items() if key != "time"} for record in records]

    def unlike(self, a: Path, b: Path) -> list[str]:
        """How two runs differ: weights, optimisers, teacher, replay, counters, log, metrics, policy, picture."""
        found = []
        for name in (checkpoint.LAST, checkpoint.BEST):
            first, second = (checkpoint.load(path / name) for path in (a, b))
            for state in (first, second):
                for key in ("output", "data", "train"):
                    state["config"].pop(key)
            found += differences(first, second, name)
        found += differences(self.lines(a), self.lines(b), directory.LOG)
        files = (directory.METRICS, directory.POLICY, directory.PICTURE)
        return found + [name for name in files if (a / name).read_bytes() != (b / name).read_bytes()]

    def same(self, path: Path, other: Path | None = None) -> None:
        """The run is, bit for bit, the one that nothing has disturbed."""
        found = self.unlike(other or self.reference, path)
        assert not found, found


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Where two states differ, bit for bit, through all containers."""
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return [f"{where}: other keys"]
        return [found for key in a for found in differences(a[key], b[key], f"{where}.{key}")]
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return [f"{where}: other length"]
        return [found for i, pair in enumerate(zip(a, b, strict=True)) for found in differences(*pair, f"{where}[{i}]")]
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return [] if a.dtype == b.dtype and torch.equal(a, b) else [where]
    return [] if a == b else [f"{where}: {a!r} != {b!r}"]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """With a run that nothing has disturbed, to compare with."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    torch.set_num_threads(1)
    laboratory = Lab(tmp_path_factory.mktemp("lab"))
    # What is imported on the way is then there in all the processes that are forked.
    build.build(laboratory.config, laboratory.load(laboratory.config)).train_epoch(TrainingDisplay(1))
    began = time.monotonic()
    laboratory.finish(laboratory.reference)
    laboratory.seconds = time.monotonic() - began
    return laboratory


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of image files, to be read while a run trains."""
    numbers = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(25):
            pixels = numbers.integers(0, 256, (12, 12, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i:02}.png")
    return tmp_path / "photos"


@pytest.fixture
def streaming(photos: Path) -> dict[str, Any]:
    """The settings of a run that reads them from disk."""
    return {"data__path": photos, "data__size": 8, "data__per_class": "none", "data__in_memory": "never"}


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Iterator[Callable[[str, int], None]]:
    """For the table: what happened, and how often. Called at the end, after everything was as it should be."""
    began = time.monotonic()
    yield lambda what, times: ROWS.append((what, times, time.monotonic() - began))


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    if not ROWS:
        return
    longest: dict[str, tuple[str, int, float]] = {}  # the short version of a test is part of its long one
    for what, times, seconds in ROWS:
        name = what.split(" (")[0]
        if name not in longest or times > longest[name][1]:
            longest[name] = what, times, seconds
    lines = ["| what happens | times | as it should be | seconds |", "|---|---|---|---|"]
    lines += [f"| {what} | {times} | {times} | {seconds:.0f} |" for what, times, seconds in longest.values()]
    terminalreporter.section("reliability")
    terminalreporter.write("\n".join(lines) + "\n")
    if os.environ.get("TORTURE") and exitstatus == 0:
        text = DOCUMENT.read_text(encoding="utf-8")
        date, table = time.strftime("%Y-%m-%d"), "\n".join(lines)
        begin, end = "<!-- written by make torture -->", "<!-- end -->"
        section = f"{begin}\n{date}, Python {sys.version.split()[0]}, torch {torch.__version__}:\n\n{table}\n{end}"
        DOCUMENT.write_text(re.sub(f"{begin}.*{end}", lambda _: section, text, flags=re.S), encoding="utf-8")
