"""How time and memory of the augmentation grow with pixels, batch, classes and snapshots in the replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from teachaugment.algorithm import TeachAugment
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.commands.bench.clock import Case, interleave, summary
from teachaugment.commands.bench.memory import peak
from teachaugment.commands.bench.objects import make_teach, noise_batch
from teachaugment.commands.bench.plan import Plan
from teachaugment.hyperparameters import Hyperparameters
from teachaugment.replay import Replay

AXES = ("pixels", "batch", "classes", "snapshots")


def measure(plan: Plan, device: torch.device) -> dict[str, Any]:
    """Each axis alone, the others at the plan's values; the points of an axis are measured in turn."""
    rows = [row for axis in AXES for row in _axis(plan, axis, device)]
    return {"rows": rows, "stored": _stored(*plan.stored)}


def _axis(plan: Plan, axis: str, device: torch.device) -> list[dict[str, Any]]:
    base = {"size": plan.size, "batch": plan.batch_size, "classes": plan.classes, "snapshots": plan.snapshots}
    points = {
        "pixels": [{**base, "size": size, "batch": plan.scaling_batch} for size in plan.pixels],
        "batch": [{**base, "batch": batch} for batch in plan.batches],
        "classes": [{**base, "classes": classes} for classes in plan.many_classes],
        "snapshots": [{**base, "snapshots": snapshots} for snapshots in plan.replays],
    }[axis]
    made = [_point(**point, device=device) for point in points]
    cases: list[Case] = []
    for i, (_, draw, both) in enumerate(made):
        cases += [(f"draw {i}", draw), (f"both {i}", both)]
    times = summary(interleave(cases, device, plan.repeats, plan.budget, f"scaling with {axis}"))
    return [
        {
            "axis": axis,
            "value": point["size"] ** 2 if axis == "pixels" else point[axis],
            **point,
            "draw": {"seconds": times[f"draw {i}"], "peak_bytes": peak(draw, device)},
            "both": {"seconds": times[f"both {i}"], "peak_bytes": peak(both, device)},
            "replay_bytes": teach.replay.nbytes(),
        }
        for i, (point, (teach, draw, both)) in enumerate(zip(points, made, strict=True))
    ]


def _point(
    size: int, batch: int, classes: int, snapshots: int, device: torch.device
) -> tuple[TeachAugment, Callable[[], object], Callable[[], object]]:
    """Drawing from the replay, and the augmenter forward and backward, without any network of the task."""
    teach = make_teach(nn.Conv2d(3, 1, 1).to(device), classes, snapshots, device)
    images = noise_batch(batch, size, classes, device)

    def draw() -> None:
        teach.augment(images)

    def both() -> None:
        teach.augmenter.zero_grad()
        teach.augmenter(images, teach.generator).image.sum().backward()

    return teach, draw, both


def _stored(snapshots: int, classes: int) -> dict[str, int]:
    """The memory of a whole training's snapshots."""
    replay = Replay(NeuralAugmenter(**Hyperparameters(augmenter="neural").of_augmenter(3, classes)))
    for _ in range(snapshots):
        replay.push()
    return {"snapshots": snapshots, "classes": classes, "bytes": replay.nbytes()}
