"""What somebody wants to know first: did augmentation help, and which weights are to be used."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from teachaugment import tasks
from teachaugment.commands.report.record import Record, chosen, read
from teachaugment.config.settings import as_text
from teachaugment.engine import checkpoint, directory
from teachaugment.errors import UserError

BASELINE = "none"
# Settings in which a run and its baseline may differ: what only the strategy uses, and where and how fast it ran.
FREE = ("augment.strategy", "augment.policy", "augment.policy_file", "output", "device", "data.workers")
MOST = 50  # directories beside a run that are looked at


class Answer(NamedTuple):
    question: str
    answer: str


def answers(record: Record) -> list[Answer]:
    """In the order in which people ask."""
    found = [] if record.strategy == BASELINE else [Answer("Did augmentation help?", helped(record))]
    if record.metrics:
        found.append(Answer("Which weights?", weights(record)))
    return found


def helped(record: Record) -> str:
    """The same training without the strategy, if it is beside this run; otherwise how to find out."""
    mine = record.result("target").get(record.metric) if record.metrics else None
    other = None if mine is None else baseline(record)
    if other is not None and mine is not None:
        theirs = other.result("target")[record.metric]
        points = 100 * (mine - theirs)
        words = f"{abs(points):.1f} points {'more' if points > 0 else 'less'}" if round(points, 1) else "no difference"
        return (
            f"{100 * mine:.1f} % of the test images with {record.strategy}, {100 * theirs:.1f} % without "
            f"({other.name}): {words}, on one seed. Whether that is more than chance, several seeds tell "
            "(teachaugment compare)."
        )
    return f"This run alone cannot tell. Train with and without it on the same seeds: {compare_command(record)}"


def compare_command(record: Record) -> str:
    """With every setting of this run that is no default."""
    task, own = record.setting("task"), {"task", "seed", "data.path", "model.name", "train.epochs", *FREE}
    words = [] if task == tasks.DEFAULT else ["--task", str(task)]
    words += ["--data", str(record.setting("data.path")), "--model", str(record.setting("model.name"))]
    for key, value in chosen(record).items():
        words += [] if key in own or key.startswith("teach.") else [f"--{key}", as_text(value)]
    words += ["--strategies", f"{BASELINE},{record.strategy}", "--seeds", "3"]
    words += ["--epochs", str(record.setting("train.epochs"))]
    return f"teachaugment compare {shlex.join(words)}"


def baseline(record: Record) -> Record | None:
    """A finished run beside this one that differs in nothing but its strategy, which is none."""
    beside = sorted(record.path.resolve().parent.glob(f"*/{directory.METRICS}"))[:MOST]
    for path in (file.parent for file in beside):
        if path == record.path.resolve() or not (path / directory.CONFIG).is_file():
            continue
        try:
            other = read(path)
        except UserError:
            continue
        if other.strategy == BASELINE and _same(record, other) and record.metric in other.result("target"):
            return other
    return None


def _same(one: Record, other: Record) -> bool:
    keys = {key for run in (one, other) for key in run.settings if key not in FREE and not key.startswith("teach.")}
    return all(_plain(one.setting(key)) == _plain(other.setting(key)) for key in keys)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def weights(record: Record) -> str:
    """Which file, and whether target or teacher; only a validation split may choose."""
    best, name = record.metrics.get("best"), record.metric
    use = f"teachaugment predict and export take {{}} from {_shown(record.path)} by themselves."
    if best:
        model = best.get("model", "target")
        right = 100 * best["test"][model][name]
        why = "on the validation split no epoch of target or teacher was better by more than chance"
        file = checkpoint.BEST
        return f"The {model} of epoch {best['epoch']} ({file}, {right:.1f} % on test images): {why}. {use.format('it')}"
    found = {model: record.result(model).get(name) for model in ("target", "teacher")}
    known = {model: value for model, value in found.items() if value is not None}
    if len(known) < 2:
        return f"The target of the last epoch ({checkpoint.LAST}). {use.format('it')}"
    numbers = " and ".join(f"the {model} {100 * value:.1f} %" for model, value in known.items())
    return (
        f"The target of the last epoch ({checkpoint.LAST}). On test images {numbers}; which is better may only be "
        f"chosen on a validation split: --val-fraction 0.1. {use.format('the target')}"
    )


def _shown(path: Path) -> str:
    return path.resolve().name
