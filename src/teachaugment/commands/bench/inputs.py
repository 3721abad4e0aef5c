"""Whether reading keeps up: one batch of in-memory data against one step of a small network."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch

from teachaugment.batch import Batch
from teachaugment.commands.bench.clock import interleave, ratio, summary
from teachaugment.commands.bench.objects import Normalize, labels, training_step
from teachaugment.commands.bench.plan import Plan
from teachaugment.data.loader import batches
from teachaugment.data.splits import Split
from teachaugment.models import create


def measure(plan: Plan, device: torch.device) -> dict[str, Any]:
    """A batch from the loader and a plain training step, in turn."""
    torch.manual_seed(0)
    target = create(plan.input_model, plan.classes).to(device).train()
    optimizer = torch.optim.SGD(target.parameters(), lr=0.01, momentum=0.9)
    normalize = Normalize().to(device)
    n = max(plan.input_images, plan.batch_size)
    split = Split(
        torch.randint(256, (n, 3, plan.size, plan.size), dtype=torch.uint8), torch.randint(plan.classes, (n,))
    )

    def endless() -> Iterator[Batch]:
        for epoch in count():
            yield from batches(split, plan.batch_size, seed=0, epoch=epoch, shuffle=True, device=device, drop_last=True)

    stream = endless()
    batch = next(stream)
    label = labels(batch)

    def step() -> None:
        training_step(target, optimizer, normalize(batch.image), label)

    cases = [("step", step), ("input", lambda: next(stream))]
    rounds = interleave(cases, device, plan.repeats, plan.budget, "input")
    return {
        "model": plan.input_model,
        "batch_size": plan.batch_size,
        "size": plan.size,
        "images": n,
        "seconds": summary(rounds),
        "of_a_step": ratio(rounds, "input", "step"),
    }
