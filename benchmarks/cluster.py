"""A cost model of many GPUs: what is sent, what is held and how much of the speed is left, from one to a thousand.

The counts (``counts.py``) are exact; the machine is assumed and says so. Nothing here has been timed on a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from counts import Counts

BUCKET = 25e6  # bytes of gradients that DistributedDataParallel sends at once


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
    """What one step costs, with its share of the augmenter's update, in seconds on each GPU."""

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
