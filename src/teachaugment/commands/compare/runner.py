"""Train runs, each in a process of its own, some side by side. What was stopped goes on from its last checkpoint."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from teachaugment.commands.compare.display import ComparisonDisplay
from teachaugment.commands.compare.plan import Run, words
from teachaugment.commands.compare.rows import finished, trained
from teachaugment.engine import checkpoint
from teachaugment.errors import UserError
from teachaugment.tasks import TASKS

POLL = 0.5  # seconds between two looks at the runs


def train_all(
    runs: Sequence[Run],
    jobs: int,
    threads: int,
    done: Callable[[Run], None],
    display: ComparisonDisplay,
    lock: int | None,
    deadline: float = math.inf,
) -> None:
    """Train all of ``runs``, at most ``jobs`` at a time; ``done`` is called as each one ends.

    At the ``deadline``, a time of ``time.monotonic``, those that are under way save what they have and end.
    """
    waiting, running = list(runs), dict[Run, subprocess.Popen]()
    with noted_signals() as stopped:
        try:
            while (waiting or running) and time.monotonic() < deadline:
                unfinished = {*waiting, *running}
                for run in [r for r in waiting if r.needs not in unfinished][: jobs - len(running)]:
                    waiting.remove(run)
                    running[run] = start(run, threads, lock)
                time.sleep(POLL)
                if stopped:
                    raise KeyboardInterrupt
                for run, process in list(running.items()):
                    if process.poll() is not None:
                        del running[run]
                        if process.returncode or not trained(run):
                            raise UserError(failure(run, process.returncode))
                        if not finished(run):
                            waiting.insert(0, run)
                            continue
                        done(run)
                        display.finished(run)
                display.show(waiting, list(running))
        finally:
            for process in running.values():
                process.terminate()
            for process in running.values():
                process.wait()
            display.close()


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Signals that ask to stop are noted, not raised: no process is lost between its start and where it is ended."""
    seen: list[int] = []
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]  # as nohup has it
    before = {number: signal.signal(number, lambda n, _: seen.append(n)) for number in heard}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start(run: Run, threads: int, lock: int | None) -> subprocess.Popen:
    """A process that trains the run, goes on with it, or tries its features; what it prints is in a file beside it."""
    config = run.config
    if run.needs is not None:
        config = replace(config, teach=replace(config.teach, teacher=str(run.needs.path)))
    resume = checkpoint.exists(run.path)
    if not resume:
        shutil.rmtree(run.path, ignore_errors=True)
    run.path.parent.mkdir(parents=True, exist_ok=True)
    command = ["train", *words(config), *(["--resume", str(run.path)] if resume else [])]
    if trained(run):
        command = [TASKS[run.config.task].follow_up or "", str(run.path)]
    with printed_file(run).open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "teachaugment", *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            pass_fds=[lock] if lock is not None else [],
        )


def printed_file(run: Run) -> Path:
    """The file that holds what a run's processes have printed."""
    return run.path.with_name(f"{run.path.name}.txt")


def failure(run: Run, code: int) -> str:
    """One line about a run that ended badly: its own last words, and where all of them are."""
    lines = printed_file(run).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    last = (lines or ["it printed nothing"])[-1].removeprefix("teachaugment: error: ")
    how = f"was ended by signal {-code}" if code < 0 else f"failed: {last}"
    return f"{run} {how}; what it printed is in {printed_file(run)}"


@contextmanager
def locked_directory(path: Path) -> Iterator[int | None]:
    """Take the lock on a directory: nobody else works in it, and no run is left that a killed command had started.

    The lock is handed down to the runs, so that it is free only when the last of them has ended.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield None
        return
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{path} is in use by another teachaugment compare, or by the last run of one that was killed; "
                "wait for it, or name another --output"
            ) from None
        yield file.fileno()
