"""One pass over a split with one or more models; the device is waited for once, at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from teachaugment import distributed
from teachaugment.batch import Batch
from teachaugment.tasks import Meter, Task


@torch.no_grad()
def evaluate(
    models: Mapping[str, nn.Module], task: Task, batches: Iterable[Batch], device: torch.device
) -> dict[str, dict[str, Any]]:
    """The task's metrics for every model, each in eval mode and put back into the mode it was in."""
    meters = {name: task.meter(device) for name in models}
    modes = {name: [(module, module.training) for module in model.modules()] for name, model in models.items()}
    for model in models.values():
        model.eval()
    try:
        for batch in batches:
            image = task.normalize(batch.image)
            for name, model in models.items():
                meters[name].update(model(image), batch)
    finally:
        for saved in modes.values():
            for module, training in saved:
                module.training = training
    return {name: total(meter) for name, meter in meters.items()}


def total(meter: Meter) -> dict[str, Any]:
    """The metrics of what all processes have seen. A meter is not to be used after it."""
    distributed.sum_(value for value in vars(meter).values() if isinstance(value, torch.Tensor))
    return meter.compute()


def scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The single numbers among the metrics, for log lines; lists and counts stay in ``metrics.json``."""
    return {name: value for name, value in metrics.items() if isinstance(value, float)}
