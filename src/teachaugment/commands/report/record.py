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
from teachaugment.governor import SHARE
from teachaugment.strategies import STRATEGIES
from teachaugment.tasks import TASKS, TaskEntry

LARGEST = 1e30  # of numbers that are shown; what is not finite is not
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
            if is_number(value):
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

    def shares(self) -> dict[str, float]:
        """Of the strength, what each operation gets at the end."""
        names = dict.fromkeys(key for epoch in self.epochs for key in epoch.get("teach", {}) if key.startswith(SHARE))
        found = {name.removeprefix(SHARE): self.final("teach", name) for name in names}
        return {name: share for name, share in found.items() if share is not None}

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
    """The run in a directory with ``config.yaml``; what is missing, damaged or of another type is left out."""
    records = list(_lines(path / directory.LOG))
    starts = [_numbers(record) for record in records if record.get("event") == "start"]
    epochs = [_epoch(record) for record in records if record.get("event") == "epoch" and _counts(record.get("epoch"))]
    metrics: Any = {}
    with suppress(OSError, ValueError, RecursionError):  # an interrupted run has none
        metrics = json.loads((path / directory.METRICS).read_text(encoding="utf-8"))
    settings = {key: value for key, value in read_run(path / directory.CONFIG).values.items() if _fits(key, value)}
    return Record(path, settings, starts[0] if starts else {}, epochs, _metrics(metrics))


def is_number(value: Any) -> bool:
    """Whether a value can be drawn."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST


def _counts(value: Any) -> bool:
    return isinstance(value, int) and is_number(value) and value >= 0


def _fits(key: str, value: Any) -> bool:
    """Whether a setting has a value that it may have; one of another version is shown as it is, if it is plain."""
    if key not in SETTINGS:
        return value is None or isinstance(value, (str, bool)) or is_number(value)
    try:
        SETTINGS[key].parse(value)
    except ValueError:
        return False
    return True


def _numbers(found: Any) -> dict[str, Any]:
    return {name: value for name, value in found.items() if is_number(value)} if isinstance(found, dict) else {}


def _epoch(record: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        **_numbers(record),
        **{key: _numbers(record.get(key)) for key in ("train", "teach", "time")},
    }
    for split in ("val", "test"):
        if isinstance(record.get(split), dict):
            made[split] = {str(model): _numbers(values) for model, values in record[split].items()}
    return made


def _metrics(found: Any) -> dict[str, Any]:
    """The final metrics, each of its type."""
    if not isinstance(found, dict) or not found:
        return {}
    classes = found["classes"] if isinstance(found.get("classes"), list) else []
    made: dict[str, Any] = {"classes": [str(name) for name in classes]}
    if isinstance(found.get("metric"), str):
        made["metric"] = found["metric"]
    made["test"] = _results(found.get("test"), len(classes))
    best = found.get("best")
    if isinstance(best, dict) and _counts(best.get("epoch")):
        results, model = _results(best.get("test"), len(classes)), str(best.get("model", "target"))
        if str(made.get("metric")) in results.get(model, {}):
            made["best"] = {"epoch": best["epoch"], "model": model, "test": results}
    return made


def _results(found: Any, classes: int) -> dict[str, Any]:
    """What was measured of each model: numbers, a number for each class, and how often each is taken for each."""
    made = {}
    for model, values in found.items() if isinstance(found, dict) else ():
        made[str(model)] = _numbers(values)
        for name, rows in values.items() if isinstance(values, dict) else ():
            if isinstance(rows, list) and len(rows) == classes:
                square = all(isinstance(row, list) and len(row) == classes for row in rows)
                numbers = [number for row in rows for number in (row if isinstance(row, list) else [row])]
                flat = not any(isinstance(row, list) for row in rows)
                if (flat or square) and all(number is None or is_number(number) for number in numbers):
                    made[str(model)][name] = rows
    return made


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
        except (ValueError, RecursionError):
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
