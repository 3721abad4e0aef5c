"""Outside ``tasks/`` nothing asks which task it is: such questions are counted, and there are none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from teachaugment.tasks import TASKS

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "teachaugment"
FILES = sorted(p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py") if "tasks" not in p.parts)
# What only one kind of task measures: to look for it in a result is to ask for the task.
METRICS = {"miou", "class_iou", "pixel_accuracy", "map", "map_50", "class_map", "knn", "class_accuracy"}
CLASSES = {TASKS[name].where.partition(":")[2] for name in TASKS}
# Where a batch is only passed on: whether it has a mask or boxes is the task's to know.
PASSES_ON = ("engine/", "commands/", "config/", "show/")


def questions(tree: ast.AST, file: str) -> list[str]:
    """The places in a source that ask which task it is."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            words = {word.value for word in ast.walk(node) if isinstance(word, ast.Constant)}
            about_truth = any(isinstance(n, ast.Attribute) and n.attr in ("mask", "boxes") for n in ast.walk(node))
            if words & TASKS.keys() or (about_truth and file.startswith(PASSES_ON)):
                found.append(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            if CLASSES & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
                found.append(node)
        elif isinstance(node, ast.Constant) and node.value in METRICS:
            found.append(node)
    return [f"line {node.lineno}: {ast.unparse(node)}" for node in found]


@pytest.mark.parametrize("file", FILES)
def test_nothing_outside_asks_which_task_it_is(file):
    assert questions(ast.parse((PACKAGE / file).read_text(encoding="utf-8")), file) == []


@pytest.mark.parametrize(
    "source",
    [
        "if config.task == 'segmentation': pass",
        "x = config.task in ('simsiam', 'byol')",
        "isinstance(task, Segmentation)",
        "if 'knn' in result: pass",
        "if batch.mask is not None: pass",
        "if batch.boxes is not None: pass",
    ],
)
def test_such_questions_are_seen(source):
    assert len(questions(ast.parse(source), "engine/run.py")) == 1
