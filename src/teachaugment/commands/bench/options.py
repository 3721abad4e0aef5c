"""``--channels-last`` and ``--compile`` on and off: a training step, and the augmenter's update, in each form."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from teachaugment.commands.bench.clock import Case, interleave, ratio, seconds, summary
from teachaugment.commands.bench.objects import Normalize, labels, make_teach, noise_batch, training_step
from teachaugment.commands.bench.plan import Plan
from teachaugment.models import create


def measure(plan: Plan, device: torch.device) -> dict[str, Any]:
    """Both updates in every form, in turn; the first step of each form is timed by itself."""
    cases: list[Case] = []
    first = {}
    for form in plan.forms:
        step, update = _form(plan, form, device)
        began = time.perf_counter()
        seconds(step, device)  # compilation happens here
        first[form] = time.perf_counter() - began
        cases += [(f"{form} step", step), (f"{form} update", update)]
    rounds = interleave(cases, device, plan.repeats, plan.budget, "options")
    return {
        "model": plan.input_model,
        "batch_size": plan.batch_size,
        "size": plan.size,
        "seconds": summary(rounds),
        "times_plain": {name: ratio(rounds, name, f"plain {name.split()[-1]}") for name, _ in cases},
        "first_step_seconds": first,
    }


def _form(plan: Plan, form: str, device: torch.device) -> tuple[Callable[[], object], Callable[[], object]]:
    """The two updates with a network of its own. ``--compile`` compiles the target's step; the frozen passes of the
    augmenter's update call the network itself."""
    torch.manual_seed(0)
    target = create(plan.input_model, plan.classes).to(device).train()
    if form == "channels-last":
        target = target.to(memory_format=torch.channels_last)
    batch = noise_batch(plan.batch_size, plan.size, plan.classes, device)
    teach = make_teach(target, plan.classes, 0, device)
    optimizer = torch.optim.SGD(target.parameters(), lr=0.01, momentum=0.9)
    network: Callable[[Tensor], Tensor] = torch.compile(target) if form == "compile" else target
    normalize = Normalize().to(device)
    label = labels(batch)

    def step() -> None:
        training_step(network, optimizer, normalize(batch.image), label)

    return step, lambda: teach.update_augmenter(batch)
