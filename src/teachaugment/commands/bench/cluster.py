"""A cost model of many GPUs: what is sent, what is held and how much of the speed is left, from one to a thousand.

The counts (``counts.py``) are exact; the machine is assumed and says so. Nothing here has been timed on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

from teachaugment.commands.bench.counts import Counts
from teachaugment.commands.bench.render import number, size
from teachaugment.show.table import Table

GPUS = (1, 4, 8, 16, 64, 256, 1024)
BUCKET = 25e6  # bytes of gradients that DistributedDataParallel sends at once
IMAGENET = 1_281_167


@dataclass(frozen=True)
class Machine:
    """Assumed: nodes of 8 GPUs of the A100's class, with one 200 Gbit/s network card for each."""

    flops: float = 60e12  # per second, reached: about 2,450 images/s of ResNet-50 in bf16, a fifth of the peak
    gpus_per_node: int = 8
    inside: float = 200e9  # bytes/s that an all-reduce reaches between the GPUs of a node
    outside: float = 20e9  # and per GPU between nodes
    latency_inside: float = 5e-6  # seconds per hop
    latency_outside: float = 15e-6
    jitter: float = 0.01  # standard deviation of a step's time from GPU to GPU, in steps
    draw: float = 0.01  # the augmentation without gradient, in plain steps: as measured on CPUs, docs/performance.md
    image_bytes: float = 115e3  # of a JPEG file in ImageNet


@dataclass(frozen=True)
class Cost:
    """Of one step with its share of the augmenter's update, in seconds on each GPU."""

    compute: float
    gradients: float  # all-reduce of the target's gradients, most of it hidden behind the backward pass
    exposed: float  # communication that nothing hides
    waiting: float  # for the slowest

    @property
    def step(self) -> float:
        return self.compute + self.exposed + self.waiting


def all_reduce(machine: Machine, gpus: int, volume: float) -> float:
    """Seconds: reduce and gather inside the nodes, and between them with a share of the volume on each card."""
    here = min(gpus, machine.gpus_per_node)
    nodes = math.ceil(gpus / machine.gpus_per_node)
    inside = 2 * (here - 1) / here * volume / machine.inside + 2 * math.log2(here) * machine.latency_inside
    outside = 2 * (nodes - 1) / nodes * volume / here / machine.outside
    return inside + outside + 2 * math.log2(nodes) * machine.latency_outside


def sent(gpus: int, volume: float) -> float:
    """Bytes that each GPU sends in an all-reduce, however it goes: the least possible."""
    return 2 * (gpus - 1) / gpus * volume


def cost(counts: Counts, machine: Machine, gpus: int, batch: float, n_inner: int | None = 5) -> Cost:
    """One step of ``batch`` images on each GPU; ``n_inner`` None: without TeachAugment."""
    plain = batch * counts.step_flops / machine.flops
    compute = plain
    if n_inner is not None:
        compute += plain * (machine.draw + counts.update_steps / n_inner)
    if gpus == 1:
        return Cost(compute, 0.0, 0.0, 0.0)
    volume = 4 * counts.parameters
    gradients = all_reduce(machine, gpus, volume)
    last = all_reduce(machine, gpus, min(BUCKET, volume))
    exposed = max(gradients - plain * 2 / 3, last)  # the backward pass is two thirds of a step
    if counts.buffer_bytes:
        exposed += all_reduce(machine, gpus, counts.buffer_bytes)
    if n_inner is not None:
        buffers = all_reduce(machine, gpus, counts.buffer_bytes) if counts.buffer_bytes else 0.0  # of the teacher
        exposed += (all_reduce(machine, gpus, 4 * counts.augmenter_parameters) + buffers) / n_inner
    waiting = compute * machine.jitter * math.sqrt(2 * math.log(gpus))  # the largest of so many normal deviations
    return Cost(compute, gradients, exposed, waiting)


def efficiency(counts: Counts, machine: Machine, gpus: int, batch: float, n_inner: int | None = 5) -> float:
    """Images per second and GPU, of those that one GPU alone would do with the same batch."""
    return cost(counts, machine, 1, batch, n_inner).step / cost(counts, machine, gpus, batch, n_inner).step


def memory(counts: Counts, batch: int, half: bool = True) -> dict[str, float]:
    """Bytes on each GPU, which do not depend on their number."""
    weights, augmenter = 4 * counts.parameters + counts.buffer_bytes, 4 * counts.augmenter_parameters
    activations = batch * max(counts.step_activations, counts.update_activations)
    return {
        "target, gradients, momentum": weights + 8 * counts.parameters,
        "teacher": weights,
        "augmenter with AdamW": 4 * augmenter,
        "replay": counts.replay_bytes,
        "activations": activations / 2 if half else activations,
    }


# --- tables -------------------------------------------------------------------------------------------------------


def tables(found: Sequence[Counts], machine: Machine, decode_rate: float) -> list[Table]:
    main = found[0]
    return [
        _counted(found),
        _assumed(machine),
        _weak(main, machine, decode_rate),
        _strong(main, machine),
        *(_beyond(other, machine) for other in found[1:]),
        _memory(found),
    ]


def _counted(found: Sequence[Counts]) -> Table:
    rows = [
        [
            f"{one.model}, {one.size}²",
            f"{one.parameters / 1e6:.1f} M",
            size(4 * one.parameters),
            size(one.buffer_bytes),
            size(4 * one.augmenter_parameters),
            f"{one.step_flops / 1e9:.1f} G",
            f"{one.update_steps:.2f}",
        ]
        for one in found
    ]
    header = ["network", "parameters", "gradients", "batch norm", "augmenter", "operations per image", "update"]
    note = (
        "Counted. The augmenter is that of 1,000 classes. Operations: of a plain training step; a multiplication and "
        "an addition are two. Update: of the augmenter, in plain steps."
    )
    return Table("What is sent and computed", header, rows, note)


def _assumed(machine: Machine) -> Table:
    words = {
        "flops": "operations per second of a GPU, reached in training",
        "gpus_per_node": "GPUs in a node",
        "inside": "bytes per second of an all-reduce inside a node",
        "outside": "bytes per second between nodes, per GPU",
        "latency_inside": "seconds per hop inside a node",
        "latency_outside": "seconds per hop between nodes",
        "jitter": "standard deviation of a step's time, in steps",
        "draw": "augmenting a batch, in plain steps",
        "image_bytes": "bytes of an image file",
    }
    rows = [[words[f.name], f"{getattr(machine, f.name):g}"] for f in fields(machine)]
    note = "None of these has been measured here, except that drawing takes 0.01 plain steps on a CPU."
    return Table("Assumed", ["", "value"], rows, note)


def _weak(one: Counts, machine: Machine, decode_rate: float, batch: int = 128, n_inner: int = 5) -> Table:
    rows = []
    for gpus in GPUS:
        with_it, plain = cost(one, machine, gpus, batch, n_inner), cost(one, machine, gpus, batch, None)
        rate = gpus * batch / with_it.step
        each = 4 * one.parameters + one.buffer_bytes + (4 * one.augmenter_parameters + one.buffer_bytes) / n_inner
        rows.append(
            [
                f"{gpus:,}",
                f"{gpus * batch:,}",
                size(sent(gpus, each)),
                f"{100 * efficiency(one, machine, gpus, batch, None):.1f} %",
                f"{100 * efficiency(one, machine, gpus, batch, n_inner):.1f} %",
                f"{with_it.step / plain.step:.2f}",
                f"{number(rate)}",
                f"{number(IMAGENET / rate)} s",
                f"{size(rate * machine.image_bytes)}/s",
            ]
        )
    header = ["GPUs", "images per step", "sent per GPU and step", "efficiency, plain", "efficiency, TeachAugment"]
    header += ["times plain", "images/s", "epoch", "reading"]
    cores = batch / cost(one, machine, 1, batch, n_inner).step / decode_rate
    note = (
        f"The batch grows with the GPUs: 128 each, n_inner 5. Each GPU needs {cores:.0f} cores that decode, at the "
        f"{decode_rate:.0f} images/s measured on one core here. Beyond about 64 GPUs the batch is one that needs a "
        "learning-rate schedule of its own; the model says nothing about accuracy."
    )
    return Table(f"{one.model} on ImageNet, 128 images per GPU", header, rows, note)


def _strong(one: Counts, machine: Machine, images: int = 8192) -> Table:
    rows = []
    for gpus in GPUS:
        batch = images / gpus
        now, alone = cost(one, machine, gpus, batch), cost(one, machine, 1, images)
        share = alone.step / gpus / now.step
        rows.append(
            [
                f"{gpus:,}",
                f"{batch:,.0f}",
                f"{1e3 * now.step:,.1f} ms",
                f"{1e3 * now.exposed:.2f} ms",
                f"{100 * share:.1f} %",
            ]
        )
    note = "The batch stays, as one that is known to train well does; parts beyond a GPU's memory are --accumulate."
    header = ["GPUs", "images per GPU", "step", "communication not hidden", "efficiency"]
    return Table(f"{one.model}, {images:,} images per step in all", header, rows, note)


def _beyond(one: Counts, machine: Machine, batch: int = 64) -> Table:
    rows = []
    for gpus in GPUS:
        now = cost(one, machine, gpus, batch)
        share, plain = efficiency(one, machine, gpus, batch), efficiency(one, machine, gpus, batch, None)
        rows.append([f"{gpus:,}", size(sent(gpus, 4 * one.parameters)), f"{1e3 * now.gradients:.1f} ms",
                     f"{1e3 * now.step:,.0f} ms", f"{100 * plain:.1f} %", f"{100 * share:.1f} %"])  # fmt: skip
    header = ["GPUs", "sent per GPU and step", "gradients", "step", "efficiency, plain", "efficiency, TeachAugment"]
    return Table(f"{one.model}, {batch} images per GPU", header, rows)


def _memory(found: Sequence[Counts], batch: int = 64) -> Table:
    parts = [memory(one, batch) for one in found]
    rows = [[name, *(size(part[name]) for part in parts)] for name in parts[0]]
    rows.append(["together", *(size(sum(part.values())) for part in parts)])
    note = (
        f"{batch} images at once, half precision in the passes (half of the counted activations), 270 snapshots. The "
        "augmenter's update keeps the activations of two networks. --accumulate trades them for time."
    )
    return Table("Memory of each GPU", ["", *(one.model for one in found)], rows, note)
