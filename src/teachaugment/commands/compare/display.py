"""How far a comparison has come, and how long it will still take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import TextIO

from teachaugment.commands.compare.plan import Run
from teachaugment.commands.compare.rows import Row, epochs_of
from teachaugment.engine import directory
from teachaugment.progress import Display, duration

SPOKEN_EVERY = 30  # seconds between two lines where there is no terminal


@lru_cache(maxsize=256)
def _epochs_in_log(run: Run, size: int) -> tuple[int, float]:
    """Epochs done and the seconds they took; ``size`` of the log says when to look again."""
    epochs = epochs_of(run)
    return len(epochs), sum(e["time"]["seconds"] + e["time"].get("evaluation_seconds", 0.0) for e in epochs)


def epochs_done(run: Run) -> tuple[int, float]:
    """How many epochs a run has done, and how many seconds they took."""
    log = Path(run.path / directory.LOG)
    return _epochs_in_log(run, log.stat().st_size) if log.exists() else (0, 0.0)


def seconds_left(remaining: Iterable[tuple[str, int]], known: dict[str, list[float]], jobs: int) -> float | None:
    """From the strategy and the remaining epochs of each run, by the seconds per epoch of its strategy, or of all."""
    rates = {strategy: mean(seconds) for strategy, seconds in known.items()}
    if not rates:
        return None
    each = [epochs * rates.get(strategy, mean(rates.values())) for strategy, epochs in remaining]
    return max(sum(each) / jobs, max(each, default=0.0))


class ComparisonDisplay(Display):
    """A bar on a terminal, otherwise a line for each finished run and one every half minute."""

    def __init__(self, runs: Sequence[Run], rows: dict[str, Row], jobs: int, stream: TextIO | None = None):
        super().__init__(sum(run.epochs for run in runs), 0, "{desc} {percentage:3.0f}%|{bar}| {unit}", stream)
        self.runs, self.rows, self.jobs = runs, rows, jobs

    def show(self, waiting: Sequence[Run], running: Sequence[Run]) -> None:
        """``waiting`` have not been started here; a stopped one may have epochs done all the same."""
        done = {run: epochs_done(run) for run in (*waiting, *running)}
        left = self.left(done)
        now = ", ".join(f"{run} {done[run][0]}/{run.epochs}" for run in running)
        count = len(self.runs) - len(done)
        if self.bar is not None:
            epochs = sum(run.epochs for run in self.runs) - sum(run.epochs - done[run][0] for run in done)
            self.bar.change(n=epochs, unit=f"{left} left  {now}")
            self.bar.set_description_str(f"{count} of {len(self.runs)} runs")
        elif running and self.silent_for(SPOKEN_EVERY):
            self.say(f"{count} of {len(self.runs)} runs done, {left} left; {now}")

    def left(self, done: dict[Run, tuple[int, float]]) -> str:
        """The time left, from the epochs that the runs which are not finished have done."""
        known: dict[str, list[float]] = {}
        for run in self.runs:
            if run.key in self.rows:
                known.setdefault(run.strategy, []).append(self.rows[run.key]["seconds"] / run.epochs)
        for run, (epochs, seconds) in done.items():
            if epochs and run.strategy not in known:
                known[run.strategy] = [seconds / epochs]
        left = seconds_left([(run.strategy, run.epochs - done[run][0]) for run in done], known, self.jobs)
        return "?" if left is None else duration(left)

    def finished(self, run: Run) -> None:
        """The line of a run that has ended."""
        row = self.rows[run.key]
        count = sum(run.key in self.rows for run in self.runs)
        value = f"{row['metric']} {100 * row['test']['target']:.1f} %, {duration(row['seconds'])}"
        self.say(f"run {count} of {len(self.runs)}: {run}: {value}")
