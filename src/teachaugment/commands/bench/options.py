"""``--channels-last`` and ``--compile`` on and off: a training step, and the augmenter's update, in each form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import nn

from teachaugment.commands.bench.clock import Case, interleave, ratio, seconds, summary
from teachaugment.commands.bench.objects import Normalize, labels, make_teach, noise_batch, training_step
from teachaugment.commands.bench.plan import Plan
from teachaugment.models import create


def measure(plan: Plan, device: torch.device) -> dict[str, Any]:
    """Both updates in every form, in turn; the first step of each form is timed by itself."""
    cases: list[Case] = []
    first_step, first_update = {}, {}
    for form in plan.forms:
        step, update = _form(plan, form, device)
        first_step[form], first_update[form] = seconds(step, device), seconds(update, device)  # which compile
        cases += [(f"{form} step", step), (f"{form} update", update)]
    rounds = interleave(cases, device, plan.repeats, plan.budget, "options")
    return {
        "model": plan.input_model,
        "batch_size": plan.batch_size,
        "size": plan.size,
        "seconds": summary(rounds),
        "times_plain": {name: ratio(rounds, name, f"plain {name.split()[-1]}") for name, _ in cases},
        "first_step_seconds": first_step,
        "first_update_seconds": first_update,
    }


def _form(plan: Plan, form: str, device: torch.device) -> tuple[Callable[[], object], Callable[[], object]]:
    """The two updates with a network of its own; ``--compile`` compiles the passes of both."""
    torch.manual_seed(0)
    target = create(plan.input_model, plan.classes).to(device).train()
    if form == "channels-last":
        target = target.to(memory_format=torch.channels_last)
    batch = noise_batch(plan.batch_size, plan.size, plan.classes, device)
    optimizer = torch.optim.SGD(target.parameters(), lr=0.01, momentum=0.9)
    network = torch.compile(target) if form == "compile" else target
    teach = make_teach(cast(nn.Module, network), plan.classes, 0, device)
    normalize = Normalize().to(device)
    label = labels(batch)

    def step() -> None:
        training_step(network, optimizer, normalize(batch.image), label)

    return step, lambda: teach.update_augmenter(batch)
