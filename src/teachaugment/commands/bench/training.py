"""What a training step costs with TeachAugment and without, part by part and over whole cycles."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import torch

from teachaugment.commands.bench.clock import Case, Round, interleave, ratio, spread, summary
from teachaugment.commands.bench.memory import peak
from teachaugment.commands.bench.objects import (
    labels,
    make_governed,
    make_teach,
    noise_batch,
    tensor_bytes,
    training_step,
)
from teachaugment.commands.bench.plan import Plan
from teachaugment.models import create

# n_inner, and the share of the batch for the augmenter's update
CYCLES = {"1": (1, 1.0), "5": (5, 1.0), "5, half batch": (5, 0.5), "5, quarter batch": (5, 0.25)}
ADAPTIVE = {"full strength": 1.0, "strength zero": 0.0}  # of the default


def measure(plan: Plan, model: str, device: torch.device) -> dict[str, Any]:
    """One network, one optimiser, one fixed batch: plain steps and all that TeachAugment adds to them.

    Whole cycles are measured step by step with a plain step before each, so that both see the same machine.
    """
    torch.manual_seed(0)
    target = create(model, plan.classes).to(device).train()
    optimizer = torch.optim.SGD(target.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, nesterov=True)
    teach = make_teach(target, plan.classes, plan.snapshots, device)
    batch = noise_batch(plan.batch_size, plan.size, plan.classes, device)
    label = labels(batch)

    def plain() -> None:
        training_step(target, optimizer, teach.normalize(batch.image), label)

    def augmented() -> None:
        training_step(target, optimizer, teach.normalize(teach.augment(batch).image), label)

    def one_step(n_inner: int, fraction: float) -> None:
        # Of n_inner steps in a row, one updates the augmenter.
        teach.hyperparameters = teach.hyperparameters.changed({"n_inner": n_inner, "fraction": fraction})
        augmented()
        teach.step(batch)

    governed = {name: make_governed(target, strength, device) for name, strength in ADAPTIVE.items()}
    augmented_by = {name: each.augment(batch) for name, each in governed.items()}
    with torch.no_grad():
        output = target(teach.normalize(batch.image))

    def see_mastery(name: str) -> None:
        with_default = governed[name]
        assert with_default.governor is not None and with_default.examiner is not None
        with_default.governor.steps = 0  # a step with a measurement
        with_default.observe(output, augmented_by[name])
        with_default.examiner.step(batch, with_default.augment)

    parts = {
        "plain": plain,
        "target": augmented,
        "draw": lambda: teach.augment(batch),
        "update": lambda: teach.update_augmenter(batch),
        "teacher": lambda: teach.teacher.update(teach.target),
    }
    cases: list[Case] = [("plain", plain), *(part for part in parts.items() if part[0] != "plain")]
    for name, (n, fraction) in CYCLES.items():
        pair: list[Case] = [(f"plain beside {name}", plain), (f"n_inner {name}", partial(one_step, n, fraction))]
        cases += n * pair
    for name in ADAPTIVE:
        cases += [
            (f"{name}: draw", partial(governed[name].augment, batch)),
            (f"{name}: see", partial(see_mastery, name)),
        ]
    rounds = interleave(cases, device, plan.repeats, plan.budget, f"training {model}")

    for one in rounds:  # every plain step counts as one
        one["plain"] = one["plain"] + [t for name in CYCLES for t in one[f"plain beside {name}"]]
    times = summary(rounds)
    plain_time = times["plain"]["median"]
    overhead = {}
    for name, (n, fraction) in CYCLES.items():
        step = times["target"]["median"] + times["teacher"]["median"]
        overhead[name] = {
            "measured": ratio(rounds, f"n_inner {name}", f"plain beside {name}"),
            "from_parts": (n * step + fraction * times["update"]["median"]) / (n * plain_time),
            "step": spread([statistics.fmean(one[f"n_inner {name}"]) for one in rounds]),  # mean over a cycle
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
        "adaptive": {name: spread([cost_of_adaptive(one, name) for one in rounds]) for name in ADAPTIVE},
        "images_per_second": {
            "plain": plan.batch_size / plain_time,
            **{f"n_inner {name}": plan.batch_size / overhead[name]["step"]["median"] for name in CYCLES},
        },
        "peak_bytes": {name: peak(function, device) for name, function in parts.items()},
        "kept_bytes": {
            "target": tensor_bytes(target),
            "teacher": tensor_bytes(teach.teacher.model),
            "augmenter": tensor_bytes(teach.augmenter),
            "replay": teach.replay.nbytes(),
        },
    }


def cost_of_adaptive(one: Round, name: str) -> float:
    """Times a plain training, from the parts that the default adds to a step: a few hundredths, which whole steps would
    hide in their noise."""
    draw, see, teacher, plain = (
        statistics.fmean(one[case]) for case in (f"{name}: draw", f"{name}: see", "teacher", "plain")
    )
    return 1 + (draw + teacher + see) / plain
