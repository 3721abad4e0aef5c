"""What a run has written: settings, log and final metrics, as far as they are there and can be read."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teachaugment import tasks
from teachaugment.config.resolve import SETTINGS, default, read_run
from teachaugment.engine import directory
from teachaugment.strategies import STRATEGIES
from teachaugment.tasks import TASKS, TaskEntry

Points = list[tuple[float, float]]  # (epoch, value)


@dataclass(frozen=True)
class Record:
    """One run. A run that was interrupted has no metrics."""

    path: Path
    settings: dict[str, Any]  # "optim.lr" -> value
    start: dict[str, Any]
    epochs: list[dict[str, Any]]
    metrics: dict[str, Any]

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def strategy(self) -> str:
        return str(self.setting("augment.strategy"))

    @property
    def learns(self) -> bool:
        """Whether the augmentation was learned."""
        return self.strategy in STRATEGIES and STRATEGIES[self.strategy].learns

    @property
    def task(self) -> TaskEntry:
        """What the table of tasks says about its task."""
        name = str(self.setting("task"))
        return TASKS[name if name in TASKS else tasks.DEFAULT]

    @property
    def metric(self) -> str:
        """The name of the number that says how good a model is."""
        return str(self.metrics.get("metric") or self.task.metric)

    @property
    def done(self) -> int:
        """Epochs in the log."""
        return int(self.epochs[-1]["epoch"]) if self.epochs else 0

    def setting(self, key: str) -> Any:
        """A setting of the run; one that the run did not know has its default."""
        if key in self.settings:
            return self.settings[key]
        if key not in SETTINGS:
            return None
        return default(key, self.settings)

    def series(self, *path: str) -> Points:
        """A number of the log over the epochs that have it, such as ``series("test", "target", "loss")``."""
        found = []
        for record in self.epochs:
            value: Any = record
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            if isinstance(value, (int, float)):
                found.append((float(record["epoch"]), float(value)))
        return found

    @property
    def updates(self) -> bool:
        """Whether an augmenter has learned by gradient."""
        return self.final("teach", "objective") is not None

    def final(self, *path: str) -> float | None:
        """The last value of a series."""
        points = self.series(*path)
        return points[-1][1] if points else None

    def result(self, model: str) -> dict[str, Any]:
        """What the last evaluation says about the target or the teacher: on the test split, else as in the log."""
        if found := self.metrics.get("test", {}).get(model):
            return dict(found)
        for record in reversed(self.epochs):
            for split in ("test", "val"):
                if found := record.get(split, {}).get(model):
                    return dict(found)
        return {}


def read(path: Path) -> Record:
    """The run in a directory with ``config.yaml``; whatever else is missing or damaged is left out."""
    records = list(_lines(path / directory.LOG))
    starts = [record for record in records if record.get("event") == "start"]
    epochs = [record for record in records if record.get("event") == "epoch" and "epoch" in record]
    metrics: Any = {}
    with suppress(OSError, ValueError):  # an interrupted run has none
        metrics = json.loads((path / directory.METRICS).read_text(encoding="utf-8"))
    settings = dict(read_run(path / directory.CONFIG).values)
    return Record(path, settings, starts[0] if starts else {}, epochs, metrics if isinstance(metrics, dict) else {})


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log."""
    found = []
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


def chosen(record: Record) -> dict[str, Any]:
    """The settings that are not the defaults, without the place a run was written to."""
    others = {key: value for key, value in record.settings.items() if key in SETTINGS and key != "output"}
    usual = {key: default(key, record.settings) for key in others}
    return {key: value for key, value in others.items() if _plain(value) != _plain(usual[key])}


def differences(records: list[Record]) -> dict[str, list[Any]]:
    """The settings in which runs differ, without the places they were written to."""
    keys = dict.fromkeys(key for record in records for key in record.settings if key != "output")
    table = {key: [record.setting(key) for record in records] for key in keys}
    return {key: values for key, values in table.items() if any(_plain(v) != _plain(values[0]) for v in values)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
