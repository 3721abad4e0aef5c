"""Write the cost model's tables into a document: python benchmarks/scaling_model.py docs/scaling.md

The document marks their place with the lines ``<!-- model -->`` and ``<!-- /model -->``; all else in it stays. Without
a document the tables are printed. It takes a minute: it counts, and measures one number, how fast a core decodes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from cluster import Machine, cost, efficiency, memory, sent
from counts import Counts, count, decode_rate
from marked_place import write_between_marks

from teachaugment.commands.bench.render import number, size
from teachaugment.show.table import Table, markdown, text

NETWORKS = ("resnet-50", "torchvision/vit_l_16", "torchvision/vit_h_14")
GPUS = (1, 4, 8, 16, 64, 256, 1024)
IMAGENET = 1_281_167  # training images


def main(document: str | None = None) -> None:
    found = tables([count(name) for name in NETWORKS], Machine(), decode_rate())
    if document is None:
        print(text(found))
    else:
        write_between_marks(Path(document), "model", markdown(found))


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


if __name__ == "__main__":
    main(*sys.argv[1:2])
