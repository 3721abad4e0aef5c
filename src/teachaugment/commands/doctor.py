"""``teachaugment doctor``: a few steps on the device and on the CPU, compared and timed, as a page for an issue."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from teachaugment.errors import UserError
from teachaugment.terminal import print_text

if TYPE_CHECKING:
    import torch

    from teachaugment.show.table import Table

EXAMPLES = """\
examples:
  teachaugment doctor                    the accelerator if there is one, beside the CPU; a minute or two
  teachaugment doctor --device cuda:1    another one
"""
MODEL, BATCH, SIZE, CLASSES, STEPS, ROUNDS = "wrn-16-1", 16, 32, 10, 5, 5
CLOSE = 1e-2  # of a number: convolutions add up in another order, and half of them in fewer bits (TF32)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="TEXT", help="default: the accelerator if there is one")


def run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # as bench does: the profiler warns of older tensors
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch

    from teachaugment.commands.bench.measure import choose_device
    from teachaugment.show import table

    try:
        device = choose_device(arguments.device)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(f"cannot use --device {arguments.device!r}; for example cpu, cuda, cuda:1, mps") from None
    found, fits = compared(device)
    tables = [machine(device), found, timed(device)]
    verdict = f"{device} computes what the CPU does." if fits else f"{device} computes something else than the CPU."
    print_text(f"{table.markdown(tables)}\n\n{verdict}")
    return 0 if fits else 1


def machine(device: torch.device) -> Table:
    """Versions, and which precisions the device has."""
    import torch

    from teachaugment.commands.bench.machine import describe
    from teachaugment.engine.precision import DTYPES, Precision
    from teachaugment.show.table import Table

    rows = [[name, "–" if value is None else str(value)] for name, value in describe(device).items()]
    for name in DTYPES:
        try:
            Precision(name, device)
            rows.append([f"--amp {name}", "can be used"])
        except UserError as error:
            rows.append([f"--amp {name}", str(error)])
    rows += [["CUDA of torch", str(torch.version.cuda)], ["TF32", str(torch.backends.cuda.matmul.allow_tf32)]]
    return Table("Machine", ["", ""], rows)


def compared(device: torch.device) -> tuple[Table, bool]:
    """The numbers of the same steps on both, and whether they agree."""
    import torch

    from teachaugment.show.table import Table

    there, here = steps(device), steps(torch.device("cpu"))
    rows, fits = [], True
    for name, value in there.items():
        apart = abs(value - here[name]) / max(abs(here[name]), 1e-6)
        close = apart <= CLOSE
        fits = fits and close
        rows.append([name, f"{value:.6g}", f"{here[name]:.6g}", f"{apart:.1e}", "agrees" if close else "DIFFERS"])
    note = f"{MODEL}, {BATCH} images of {SIZE}², {STEPS} steps with the same random numbers; wanted: {CLOSE:g} or less."
    return Table("The same steps", ["", str(device), "cpu", "apart", ""], rows, note), fits


def steps(device: torch.device) -> dict[str, float]:
    """A few updates of a target, and one gradient of the augmenter, all of whose random numbers are the CPU's."""
    import torch

    from teachaugment.augment.functional import affine_warp
    from teachaugment.augment.mlp import Live, Sources
    from teachaugment.augment.neural import NeuralAugmenter, Noise
    from teachaugment.commands.bench.objects import labels, make_teach, noise_batch
    from teachaugment.judging import Cut, judge
    from teachaugment.models import create

    torch.manual_seed(0)
    target = create(MODEL, CLASSES).train()
    teach = make_teach(target.to(device), CLASSES, 0, device)
    augmenter, batch = teach.augmenter, noise_batch(BATCH, SIZE, CLASSES, device)
    assert isinstance(augmenter, NeuralAugmenter)
    optimizer = torch.optim.SGD(target.parameters(), lr=0.05, momentum=0.9)
    found: dict[str, Any] = {}
    for number in range(1, STEPS + 1):
        loss = torch.nn.functional.cross_entropy(target(teach.normalize(batch.image)), labels(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        teach.teacher.update(target)
        found[f"loss of step {number}"] = loss.detach()
    drawn = NeuralAugmenter(**augmenter.describe()).noise(BATCH, 8, torch.Generator().manual_seed(0))
    live = Live(augmenter)
    draw = augmenter.draw_from(Noise(*(part.to(device) for part in drawn)), batch.label, Sources(live, live), 8)
    image = affine_warp(augmenter.colors(batch.image, draw.color), draw.affine)
    seen = Cut(batch.replace(image=teach.normalize(image)))
    networks, losses = (target, teach.teacher.model), (teach.target_loss, teach.loss)
    terms = judge(teach.objective, networks, losses, teach.outputs, seen.batch, 1.0, lambda: (None, None))
    seen.backward(torch.zeros((), device=device))
    gradients = torch.stack([p.grad.norm() for p in augmenter.parameters() if p.grad is not None])
    found |= {"mean of the augmented images": image.detach().mean(), "objective": terms.objective.detach()}
    found["gradient of the augmenter"] = gradients.norm()
    return {name: float(value) for name, value in found.items()}


def timed(device: torch.device) -> Table:
    """Time and memory of both updates on both, and the time to read a batch."""
    import torch

    from teachaugment.commands.bench import inputs
    from teachaugment.commands.bench.plan import Plan
    from teachaugment.commands.bench.render import time
    from teachaugment.show.table import Table

    rows = [row for place in dict.fromkeys([device, torch.device("cpu")]) for row in parts(place)]
    plan = Plan(batch_size=BATCH, size=SIZE, input_images=1000, input_model="cnn-4", repeats=ROUNDS, budget=0.0)
    rows.append([f"reading a batch to {device}", time(inputs.measure(plan, device)["seconds"]["input"]), "–"])
    note = "Times are medians, with the quartiles in brackets."
    return Table("Time and memory", ["", "time", "peak memory"], rows, note)


def parts(place: torch.device) -> list[list[str]]:
    """The parts of a step on one device."""
    import torch

    from teachaugment.commands.bench.clock import Case, interleave, summary
    from teachaugment.commands.bench.memory import peak
    from teachaugment.commands.bench.objects import labels, make_teach, noise_batch, training_step
    from teachaugment.commands.bench.render import size, time
    from teachaugment.models import create

    torch.manual_seed(0)
    target = create(MODEL, CLASSES).to(place).train()
    teach, batch = make_teach(target, CLASSES, 2, place), noise_batch(BATCH, SIZE, CLASSES, place)
    optimizer = torch.optim.SGD(target.parameters(), lr=0.05)
    image, label = teach.normalize(batch.image), labels(batch)
    calls: list[Case] = [
        ("plain step", lambda: training_step(target, optimizer, image, label)),
        ("augmenter's update", lambda: teach.update_augmenter(batch)),
        ("drawing a batch", lambda: teach.augment(batch)),
    ]
    times = summary(interleave(calls, place, ROUNDS, title=f"{place}"))
    return [[f"{name}, {place}", time(times[name]), size(peak(call, place))] for name, call in calls]
