"""How far a comparison has come, and how long it will still take."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Any, TextIO

from teachaugment import progress
from teachaugment.commands.compare.plan import Run
from teachaugment.commands.compare.rows import Row, epochs_of
from teachaugment.engine import directory

SPOKEN_EVERY = 30  # seconds between two lines where there is no terminal


@lru_cache(maxsize=256)
def _done(run: Run, size: int) -> tuple[int, float]:
    """Epochs done and the seconds they took; ``size`` of the log says when to look again."""
    epochs = epochs_of(run)
    return len(epochs), sum(e["time"]["seconds"] + e["time"].get("evaluation_seconds", 0.0) for e in epochs)


def epochs_done(run: Run) -> tuple[int, float]:
    log = Path(run.path / directory.LOG)
    return _done(run, log.stat().st_size) if log.exists() else (0, 0.0)


def seconds_left(open_: Iterable[tuple[str, int]], known: dict[str, list[float]], jobs: int) -> float | None:
    """From the strategy and the open epochs of each run: by the seconds per epoch of its strategy, or of all."""
    rates = {strategy: mean(seconds) for strategy, seconds in known.items()}
    if not rates:
        return None
    each = [epochs * rates.get(strategy, mean(rates.values())) for strategy, epochs in open_]
    return max(sum(each) / jobs, max(each, default=0.0))


class Progress:
    """A bar on a terminal, otherwise a line for each finished run and one every half minute."""

    def __init__(self, runs: Sequence[Run], rows: dict[str, Row], jobs: int, stream: TextIO | None = None):
        self.stream = stream if stream is not None else sys.stderr
        self.runs, self.rows, self.jobs = runs, rows, jobs
        self.spoken = time.monotonic()
        layout = "{desc} {percentage:3.0f}%|{bar}| {unit}"
        self.bar: Any = progress.bar(self.stream, sum(run.epochs for run in runs), 0, layout)

    def show(self, waiting: Sequence[Run], running: Sequence[Run]) -> None:
        """``waiting`` have not been started here; a stopped one may have epochs done all the same."""
        done = {run: epochs_done(run) for run in (*waiting, *running)}
        left = self.left(done)
        now = ", ".join(f"{run} {done[run][0]}/{run.epochs}" for run in running)
        count = len(self.runs) - len(done)
        if self.bar is not None:
            self.bar.n = sum(run.epochs for run in self.runs) - sum(run.epochs - done[run][0] for run in done)
            self.bar.unit = f"{left} left  {now}"
            self.bar.set_description_str(f"{count} of {len(self.runs)} runs")
        elif running and time.monotonic() - self.spoken > SPOKEN_EVERY:
            self.say(f"{count} of {len(self.runs)} runs done, {left} left; {now}")

    def left(self, done: dict[Run, tuple[int, float]]) -> str:
        known: dict[str, list[float]] = {}
        for run in self.runs:
            if run.key in self.rows:
                known.setdefault(run.strategy, []).append(self.rows[run.key]["seconds"] / run.epochs)
        for run, (epochs, seconds) in done.items():
            if epochs and run.strategy not in known:
                known[run.strategy] = [seconds / epochs]
        seconds_ = seconds_left([(run.strategy, run.epochs - done[run][0]) for run in done], known, self.jobs)
        return "?" if seconds_ is None else progress.duration(seconds_)

    def finished(self, run: Run) -> None:
        row = self.rows[run.key]
        count = sum(run.key in self.rows for run in self.runs)
        value = f"{row['metric']} {100 * row['test']['target']:.1f} %, {progress.duration(row['seconds'])}"
        self.say(f"run {count} of {len(self.runs)}: {run}: {value}")

    def say(self, line: str) -> None:
        self.spoken = time.monotonic()
        if self.bar is not None:
            self.bar.write(line, file=self.stream)
        else:
            print(line, file=self.stream, flush=True)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
