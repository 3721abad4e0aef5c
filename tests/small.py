"""Small things that many tests are made of: settings, a data set, one step of a task, an ellipse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from teachaugment.batch import Batch
from teachaugment.commands.report.write import write_report
from teachaugment.config.resolve import Config, Layer, resolve
from teachaugment.data.splits import DataSet, Split
from teachaugment.engine import build, directory, restore
from teachaugment.engine.run import run
from teachaugment.engine.trainer import Trainer
from teachaugment.tasks.task import Task


def settings(base: Mapping[str, Any], changed: Mapping[str, Any]) -> Config:
    """A configuration from ``base`` and from changes whose names have ``__`` in place of the dot.

    Without a word about the strategy it is the paper's, which has the most that can go wrong.
    """
    values = {**base, **{key.replace("__", "."): value for key, value in changed.items()}}
    if "augment.policy" not in values:
        values = {"augment.strategy": "teachaugment", **values}
    return resolve(Layer(values, {key: f"--{key}" for key in values}))


def dataset(
    classes: Sequence[str], mean: Sequence[float] = (0.5, 0.4, 0.3), std: Sequence[float] = (0.2, 0.2, 0.1)
) -> DataSet:
    """A data set of two black images, for tasks that only want to know about one."""
    split = Split(torch.zeros(2, len(mean), 8, 8, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64))
    return DataSet("tiny", split, split, list(classes), len(mean), (8, 8), tuple(mean), tuple(std))


def one_step(
    task: Task,
    network: Callable[[Tensor], Any],
    batch: Batch,
    augment: Callable[[Batch], Batch] = lambda batch: batch,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Any, Batch]:
    """Loss, output and what the network saw, in the order in which a training step asks for them."""
    generator = generator or torch.Generator().manual_seed(0)
    seen = task.after(augment(task.before(batch, generator)), generator)
    output = task.forward(network, seen)
    return task.loss(output, seen), output, seen


def few_tests(trainer: Trainer, count: int) -> Trainer:
    """Training is what matters: evaluate on few images."""
    trainer.data.test = trainer.data.test.select(torch.arange(count))
    return trainer


def train(config: Config, tests: int) -> dict[str, Any]:
    """A whole run in ``config.output``."""
    return run(few_tests(build.build(config), tests), directory.create_run(config), report=write_report)


def go_on(config: Config, path: Path, tests: int) -> dict[str, Any]:
    """The rest of a run."""
    trainer, path = restore.resume(config, path)
    return run(few_tests(trainer, tests), path, report=write_report)


def ellipse(box: Sequence[float], size: tuple[int, int]) -> Tensor:
    """1 where a pixel's middle is in the ellipse that just fits into a box."""
    left, top, right, bottom = box
    y, x = (torch.arange(side) + 0.5 for side in size)
    across, down = (2 * x - left - right) / (right - left), (2 * y - top - bottom) / (bottom - top)
    return (across.square()[None] + down.square()[:, None] <= 1).float()
