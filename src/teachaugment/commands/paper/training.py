"""Train what is missing, within some hours; each finished run leaves a JSON line, and one that fails stops no other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from teachaugment.commands.compare import rows as kept
from teachaugment.commands.compare import runner
from teachaugment.commands.compare.display import ComparisonDisplay
from teachaugment.commands.compare.plan import Run
from teachaugment.commands.compare.rows import Row
from teachaugment.commands.paper.plan import Task, estimated
from teachaugment.errors import UserError
from teachaugment.progress import duration
from teachaugment.terminal import say_here

THREADS = 1  # of each run: as many runs side by side as there are cores


class PaperDisplay(ComparisonDisplay):
    """How far the runs are; what is left is added up from their estimates, which differ from place to place."""

    def __init__(self, tasks: Sequence[Task], done: dict[str, Row], kept_rows: Mapping[str, Row], jobs: int) -> None:
        super().__init__([task.run for task in tasks], done, jobs)
        self.seconds = {task.run: estimated(task, kept_rows) for task in tasks}

    def left(self, done: dict[Run, tuple[int, float]]) -> str:
        shares = (self.seconds[run] * (1 - epochs / run.epochs) for run, (epochs, _) in done.items())
        return f"about {duration(sum(shares) / self.jobs)}"


def train(tasks: Sequence[Task], done: dict[str, Row], file: Path, output: Path, jobs: int, hours: float) -> list[str]:
    """Train the tasks that ``done`` has no row of, and add theirs to it and to the file. What went wrong is returned.

    Raises KeyboardInterrupt where it is told to stop.
    """
    deadline = time.monotonic() + 3600 * hours
    by_run = {task.run: task for task in tasks}
    shown = {task.run.key: done[task.key] for task in tasks if task.key in done}
    failures: list[str] = []

    def keep(run: Run) -> None:
        task = by_run[run]
        row = kept.collect(replace(run, strategy=task.strategy), task.shared.values, THREADS)
        kept.append(file, row)
        done[task.key] = shown[run.key] = row

    with runner.locked_directory(output) as lock:
        for task in tasks:
            if task.key not in done and kept.finished(task.run):
                keep(task.run)  # it ended, but was not noted any more
        needed = {task.run.needs for task in tasks if task.key not in done}
        todo = [t for t in tasks if t.key not in done or (t.run in needed and not kept.finished(t.run))]
        while todo and time.monotonic() < deadline:
            try:
                display = PaperDisplay(tasks, shown, done, jobs)
                runner.train_all([task.run for task in todo], jobs, THREADS, keep, display, lock, deadline)
                todo = []
            except UserError as error:  # one of them; the others go on
                failures.append(str(error))
                say_here(f"teachaugment: {error}")
                broken = [task.run for task in todo if str(task.run.path) in str(error)]
                if not broken:
                    raise
                todo = [
                    task
                    for task in todo
                    if task.run not in broken and task.run.needs not in broken and not kept.finished(task.run)
                ]
    return failures
