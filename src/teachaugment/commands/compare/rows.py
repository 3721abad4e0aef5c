"""What is kept of a finished run: one JSON line in the results file. Rows outlive the runs' directories."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teachaugment.commands.compare.old_rows import settings_of
from teachaugment.commands.compare.plan import Run, configure, identity
from teachaugment.config.resolve import Layer
from teachaugment.engine import directory
from teachaugment.errors import UserError
from teachaugment.tasks import TASKS

Row = dict[str, Any]
LARGEST = 1e30  # of a number that anybody has measured; what is not finite is no number
WRONG = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)  # what damaged files lead to

CHOSEN = "chosen"  # beside target and teacher: what a validation split chose among their epochs


def read(path: Path) -> list[Row]:
    """The rows of a file; a last line without its end, of a process that was killed while writing, does not count."""
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the results {path}: {getattr(error, 'strerror', None) or 'not a text'}") from None
    rows = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = json.loads(line)
            if not is_row(row):
                raise ValueError
        except (ValueError, RecursionError):
            raise UserError(f"{path}, line {number} is not a row of teachaugment compare") from None
        rows.append(row)
    return rows


def is_row(row: Any) -> bool:
    """Whether a line of JSON has what every row has; rows of version 0.1 have ``flags`` instead of ``settings``."""
    return (
        isinstance(row, dict)
        and isinstance(row.get("strategy"), str)
        and type(row.get("seed")) is int
        and all(_all_numbers(row.get(split, {})) for split in ("test", "val"))
        and "test" in row
        and _is_number(row.get("seconds"))
        and _is_number(row.get("train_seconds", 0.0))
        and isinstance(row.get("metric", ""), str)
        and (isinstance(row.get("settings"), dict) or _all_texts(row.get("flags")))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST


def _all_numbers(found: Any) -> bool:
    return isinstance(found, dict) and all(map(_is_number, found.values()))


def _all_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(word, str) for word in found)


def append(path: Path, row: Row) -> None:
    """Add a row and put it on the disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            file.seek(0)
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)  # what a killed process left of a line
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None


def settings_layer(row: Row) -> Layer:
    """The settings that a row's run has in common with all runs of its comparison."""
    settings = row["settings"] if "settings" in row else settings_of(row["flags"])
    return Layer(settings, {key: key for key in settings})


def key(row: Row) -> str | None:
    """The ``identity`` of the run a row is of; None when this version does not know its settings."""
    try:
        return identity(configure(settings_layer(row), row["strategy"], row["seed"]))
    except UserError:
        return None


def epochs_of(run: Run) -> list[dict[str, Any]]:
    """The records of the epochs that a run has done."""
    try:
        lines = (run.path / directory.LOG).read_bytes().split(b"\n")[:-1]
        return [record for record in map(json.loads, lines) if record["event"] == "epoch"]
    except FileNotFoundError:
        return []
    except WRONG:
        raise UserError(f"{run.path / directory.LOG} is damaged; {_again(run)}") from None


def _again(run: Run) -> str:
    return f"remove {run.path} to train this run again"


def trained(run: Run) -> bool:
    """Whether a run has left everything it leaves at its end."""
    try:
        last = (run.path / directory.LOG).read_bytes().split(b"\n")[-2:-1]
        return (run.path / directory.METRICS).exists() and bool(last) and json.loads(last[0])["event"] == "end"
    except (FileNotFoundError, *WRONG):  # cut short: to be gone on with
        return False


def finished(run: Run) -> bool:
    """Whether a run has been trained and measured: where its task has a follow-up, that has been done too."""
    return trained(run) and (TASKS[run.config.task].follow_up is None or (run.path / directory.LINEAR).exists())


def collect(run: Run, settings: Mapping[str, Any], threads: int) -> Row:
    """The row of a finished run, from its directory; ``settings`` are those its whole comparison shares."""
    try:
        row = _collected(run, settings, threads)
    except WRONG:
        row = {}
    if not is_row(row):
        raise UserError(f"what {run.path} has measured is damaged; {_again(run)}")
    return row


def _collected(run: Run, settings: Mapping[str, Any], threads: int) -> Row:
    metrics, epochs = json.loads((run.path / directory.METRICS).read_text(encoding="utf-8")), epochs_of(run)
    metric, last = metrics["metric"], epochs[-1]
    training = sum(record["time"]["seconds"] for record in epochs)
    evaluation = sum(record["time"].get("evaluation_seconds", 0.0) for record in epochs)
    test = {model: values[metric] for model, values in metrics["test"].items()}
    if best := metrics.get("best"):  # the epoch and the network that the validation split chose
        test[CHOSEN] = best["test"][best["model"]][metric]
    val = {model: values[metric] for model, values in last.get("val", {}).items()}
    if TASKS[run.config.task].follow_up:
        found = json.loads((run.path / directory.LINEAR).read_text(encoding="utf-8"))["test"]
        linear = {model: values["accuracy"] for model, values in found.items()}
        measured = {"metric": "linear accuracy", "test": linear, "val": {}, metric: {"test": test, "val": val}}
    else:
        measured = {"metric": metric, "test": test, "val": val}
    return {
        "strategy": run.strategy,
        "seed": run.seed,
        "settings": dict(settings),
        **measured,
        f"train_{metric}": last["train"].get(metric),
        "test_images": metrics["test"]["target"].get("images"),
        "probabilities": metrics.get("probabilities"),
        "seconds": round(training + evaluation, 1),
        "train_seconds": round(training, 1),
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, "
        + ("one thread per run" if threads == 1 else f"{threads} threads per run"),
    }
