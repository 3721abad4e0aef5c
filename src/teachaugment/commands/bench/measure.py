"""All parts of a plan, one after the other, to plain data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from teachaugment.commands.bench import (
    augmentation,
    color,
    inputs,
    machine,
    memory,
    options,
    photographs,
    scaling,
    startup,
    targets,
    training,
)
from teachaugment.commands.bench.plan import Plan


def choose_device(name: str | None) -> torch.device:
    if name is not None:
        return torch.device(name)
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return accelerator or torch.device("cpu")


def measure(plan: Plan) -> dict[str, Any]:
    """The results as ``--json`` writes them: seconds, bytes and ratios, each time as median and quartiles."""
    device = choose_device(plan.device)
    results: dict[str, Any] = {
        "machine": machine.describe(device),
        "memory_method": memory.method(device),
        "plan": asdict(plan),
    }
    measures: dict[str, Callable[[], Any]] = {
        "startup": lambda: startup.measure(plan.start_ups),
        "training": lambda: [training.measure(plan, model, device) for model in plan.models],
        "augmentation": lambda: augmentation.measure(plan, device),
        "color": lambda: color.measure(plan, device),
        "scaling": lambda: scaling.measure(plan, device),
        "input": lambda: inputs.measure(plan, device),
        "photographs": lambda: photographs.measure(plan, device),
        "options": lambda: options.measure(plan, device),
    }
    results |= {part: measure_part() for part, measure_part in measures.items() if part in plan.parts}
    results["machine"]["load_at_the_end"] = machine.load()
    results["targets"] = targets.compare(results)
    return results
