"""All parts of a plan, one after the other, to plain data."""

from __future__ import annotations

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
    if "startup" in plan.parts:
        results["startup"] = startup.measure(plan.start_ups)
    if "training" in plan.parts:
        results["training"] = [training.measure(plan, model, device) for model in plan.models]
    if "augmentation" in plan.parts:
        results["augmentation"] = augmentation.measure(plan, device)
    if "color" in plan.parts:
        results["color"] = color.measure(plan, device)
    if "scaling" in plan.parts:
        results["scaling"] = scaling.measure(plan, device)
    if "input" in plan.parts:
        results["input"] = inputs.measure(plan, device)
    if "options" in plan.parts:
        results["options"] = options.measure(plan, device)
    results["machine"]["load_at_the_end"] = machine.load()
    results["targets"] = targets.compare(results)
    return results
