"""One pass over a split with one or more models; the device is waited for once, at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch
from torch import nn

from teachaugment import distributed
from teachaugment.batch import Batch
from teachaugment.networks import evaluating
from teachaugment.tasks.task import GatheringMeter, Meter, ReferringMeter, Task


@torch.no_grad()
def evaluate(
    models: Mapping[str, nn.Module],
    task: Task,
    batches: Iterable[Batch],
    device: torch.device,
    reference: Iterable[Batch] = (),
) -> dict[str, dict[str, Any]]:
    """The task's metrics for every model, each in eval mode and put back into the mode it was in.

    ``reference``: images that the metrics compare with, for a task that has such metrics.
    """
    meters = {name: task.meter(device) for name in models}
    with evaluating(*models.values()):
        for batch in reference:
            image = task.normalize(batch.image)
            for name, model in models.items():
                cast(ReferringMeter, meters[name]).refer(task.predict(model, image), batch)
        for batch in batches:
            image = task.normalize(batch.image)
            for name, model in models.items():
                meters[name].update(task.predict(model, image), batch)
    return {name: total(meter) for name, meter in meters.items()}


def total(meter: Meter) -> dict[str, Any]:
    """The metrics of what all processes have seen. A meter is not to be used after it."""
    distributed.sum_(sums(meter).values())
    if isinstance(meter, GatheringMeter):
        meter.gather()
    return meter.compute()


def sums(meter: Meter) -> dict[str, torch.Tensor]:
    """All that has been counted, by name: the tensors themselves."""
    return {name: value for name, value in vars(meter).items() if isinstance(value, torch.Tensor)}


def scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The single numbers among the metrics, for log lines; lists and counts stay in ``metrics.json``."""
    return {name: value for name, value in metrics.items() if isinstance(value, float)}
