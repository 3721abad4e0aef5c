"""What the target gets wrong on test images: the hardest classes, and which are taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from teachaugment.commands.report.record import Record

CLASSES = 20  # in a table
PAIRS = 12  # of classes in a list


class Cell(NamedTuple):
    """One of a confusion matrix."""

    share: float  # of the true class
    right: bool
    words: str


@dataclass(frozen=True)
class Mistakes:
    caption: str  # of the hardest classes
    hardest: list[tuple[str, float]]  # class and share, the lowest first
    classes: list[str]
    confusion: list[list[Cell]]  # of few classes: rows are the true ones
    pairs: list[list[str]]  # of many classes: those taken for each other most often


def mistakes(record: Record) -> Mistakes | None:
    """None where the run has not been evaluated class by class."""
    result = record.metrics.get("test", {}).get("target", {})
    classes = [str(name) for name in record.metrics.get("classes", [])]
    found = result.get(record.task.class_metric, [])
    shares = sorted((s, name) for s, name in zip(found, classes, strict=False) if s is not None)
    matrix = result.get("confusion") or []
    if len(matrix) != len(classes):
        matrix = []
    if not shares and not matrix:
        return None
    many = f"{CLASSES} hardest of {len(shares)} classes"
    caption = f"{record.task.class_words} on test images, "
    caption += many if len(shares) > CLASSES else "hardest first"
    hardest = [(name, share) for share, name in shares[:CLASSES]]
    few = len(classes) <= CLASSES
    shown = (cells(matrix, classes), []) if few else ([], pairs(matrix, classes))
    return Mistakes(caption, hardest, classes, *shown)


def cells(matrix: Sequence[Sequence[float]], classes: Sequence[str]) -> list[list[Cell]]:
    """A confusion matrix of counts as shares of each true class."""
    made = []
    for i, row in enumerate(matrix):
        total = sum(row)
        words = [f"{classes[i]} taken for {classes[j]}: {count:g} of {total:g}" for j, count in enumerate(row)]
        made.append([Cell(count / total if total else 0.0, i == j, words[j]) for j, count in enumerate(row)])
    return made


def pairs(matrix: Sequence[Sequence[float]], classes: Sequence[str]) -> list[list[str]]:
    """The classes that are taken for each other most often."""
    found = [(row[j], i, j, sum(row)) for i, row in enumerate(matrix) for j in range(len(row)) if i != j and row[j]]
    found.sort(reverse=True)
    return [[classes[i], f"taken for {classes[j]}", f"{n} of {total}"] for n, i, j, total in found[:PAIRS]]
