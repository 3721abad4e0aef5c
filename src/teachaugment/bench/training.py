"""What a training step costs with TeachAugment and without, part by part and over whole cycles."""

from __future__ import annotations

import statistics
from typing import Any

import torch
import torch.nn.functional as F

from teachaugment.bench.clock import interleave, ratio, spread, summary
from teachaugment.bench.memory import peak
from teachaugment.bench.objects import make_teach, noise_batch, tensor_bytes
from teachaugment.bench.plan import Plan
from teachaugment.models import create

CYCLES = (1, 5)  # values of n_inner


def measure(plan: Plan, model: str, device: torch.device) -> dict[str, Any]:
    """One network, one optimiser, one fixed batch: plain steps and all that TeachAugment adds to them.

    Whole cycles are measured step by step with a plain step before each, so that both see the same machine.
    """
    torch.manual_seed(0)
    target = create(model, plan.classes).to(device).train()
    optimizer = torch.optim.SGD(target.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True)
    teach = make_teach(target, plan.classes, plan.snapshots, device)
    batch = noise_batch(plan.batch_size, plan.size, plan.classes, device)
    assert batch.label is not None
    label = batch.label

    def update_target(image: torch.Tensor) -> None:
        loss = F.cross_entropy(target(teach.normalize(image)), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def plain() -> None:
        update_target(batch.image)

    def augmented() -> None:
        update_target(teach.augment(batch).image)

    def one_step(n_inner: int) -> None:
        teach.n_inner = n_inner  # of any n_inner steps in a row, one updates the augmenter
        augmented()
        teach.step(batch)

    parts = {
        "plain": plain,
        "target": augmented,
        "draw": lambda: teach.augment(batch),
        "update": lambda: teach.update_augmenter(batch),
        "teacher": lambda: teach.teacher.update(teach.target),
    }
    steps = {f"n_inner {n}": (lambda n=n: one_step(n)) for n in CYCLES}
    cases = [("plain", plain), *(part for part in parts.items() if part[0] != "plain")]
    for n in CYCLES:
        cases += n * [(f"plain beside {n}", plain), (f"n_inner {n}", steps[f"n_inner {n}"])]
    rounds = interleave(cases, device, plan.repeats, plan.budget, f"training {model}")

    for one in rounds:  # every plain step counts as one
        one["plain"] = one["plain"] + [t for n in CYCLES for t in one[f"plain beside {n}"]]
    times = summary(rounds)
    plain_time = times["plain"]["median"]
    overhead = {}
    for n in CYCLES:
        step = times["target"]["median"] + times["teacher"]["median"]
        overhead[str(n)] = {
            "measured": ratio(rounds, f"n_inner {n}", f"plain beside {n}"),
            "from_parts": (n * step + times["update"]["median"]) / (n * plain_time),
            "step": spread([statistics.fmean(one[f"n_inner {n}"]) for one in rounds]),  # mean over a cycle
        }
    return {
        "model": model,
        "batch_size": plan.batch_size,
        "size": plan.size,
        "classes": plan.classes,
        "snapshots": plan.snapshots,
        "seconds": {name: times[name] for name in parts},
        "plain_steps": {name: ratio(rounds, name, "plain") for name in parts if name != "plain"},
        "overhead": overhead,
        "images_per_second": {
            "plain": plan.batch_size / plain_time,
            **{f"n_inner {n}": plan.batch_size / overhead[str(n)]["step"]["median"] for n in CYCLES},
        },
        "peak_bytes": {name: peak(function, device) for name, function in parts.items()},
        "kept_bytes": {
            "target": tensor_bytes(target),
            "teacher": tensor_bytes(teach.teacher.model),
            "augmenter": tensor_bytes(teach.augmenter),
            "replay": teach.replay.nbytes(),
        },
    }
