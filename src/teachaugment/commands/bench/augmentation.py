"""The augmentation alone, beside those people use: images per second, forward and forward with backward.

torchvision's policies, and ours as a transform, run image by image on one thread, as in a worker of a data loader, on
tensors and on PIL images.
Every way starts from images in memory and ends with what a network takes: one float batch.
kornia's run on the batch and differentiate with respect to the images, TeachAugment's with respect to the augmenter.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as tv

from teachaugment.augment.one_operation import OneOperation
from teachaugment.commands.bench.clock import Case, interleave, summary
from teachaugment.commands.bench.color import make_augmenter
from teachaugment.commands.bench.memory import peak
from teachaugment.commands.bench.objects import noise_batch, photograph
from teachaugment.commands.bench.plan import Plan
from teachaugment.policy.policy import Policy

OURS, OURS_ONE = "TeachAugment", "TeachAugment, 1 thread"
KORNIA, KORNIA_HALF = "kornia ColorJitter + RandomAffine", "the same with p = 0.5"
OURS_IN_WORKER, DEFAULT_IN_WORKER = "TeachAugment as a transform", "adaptive as a transform"
TRIVIAL = "torchvision TrivialAugmentWide"
RAND = "torchvision RandAugment"
PIXELS = 2**24  # of all images that are augmented one by one: their floats take 200 MB


def measure(plan: Plan, device: torch.device) -> list[dict[str, Any]]:
    """One row for each image size and way to augment."""
    return [row for size, batch in plan.augmentation for row in _rows(plan, size, batch, device)]


def _rows(plan: Plan, size: int, n: int, device: torch.device) -> list[dict[str, Any]]:
    threads = torch.get_num_threads()
    batched, differentiable = _batched(plan, size, n, device)
    policies = {
        OURS_IN_WORKER: Policy.of(make_augmenter(plan, torch.device("cpu"))),
        DEFAULT_IN_WORKER: Policy.of(OneOperation()),
    }
    samples = max(1, min(plan.samples, PIXELS // size**2))
    single = _per_sample(policies, size, samples)
    forward: list[Case] = list(batched.items())
    if device.type == "cpu":
        forward.append((OURS_ONE, on_one_thread(batched[OURS])))
    forward += [(name, on_one_thread(function)) for name, function in single.items()]
    times = summary(interleave(forward, device, plan.repeats, plan.budget, f"augmentation {size}²"))
    backward = interleave(list(differentiable.items()), device, plan.repeats, plan.budget, f"augmentation {size}² both")
    both = summary(backward)
    rows = []
    for name in (*times, *([] if KORNIA in times else [KORNIA])):
        images = samples if name in single else n
        row: dict[str, Any] = {"size": size, "batch_size": images, "name": name, "installed": name in times}
        if name in times:
            row["threads"] = threads if name in batched else 1
            row["forward"] = _speed(images, times[name])
        if name in (pictures := {f"{ours}, PIL": policy for ours, policy in policies.items()}):
            row["difference"] = difference(pictures[name], size)
        if name in batched:
            row["forward"]["peak_bytes"] = peak(batched[name], device)
        if name in both:
            row["both"] = {**_speed(n, both[name]), "peak_bytes": peak(differentiable[name], device)}
        rows.append(row)
    return rows


def _speed(n: int, seconds: dict[str, Any]) -> dict[str, Any]:
    return {"seconds": seconds, "images_per_second": n / seconds["median"]}


def on_one_thread(function: Callable[[], object]) -> Callable[[], object]:
    """The call as a data loader's worker would make it."""

    def run() -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            function()
        finally:
            torch.set_num_threads(threads)

    return run


Calls = dict[str, Callable[[], object]]


def _batched(plan: Plan, size: int, n: int, device: torch.device) -> tuple[Calls, Calls]:
    """Forward, and forward with backward."""
    augmenter = make_augmenter(plan, device)
    batch = noise_batch(n, size, plan.classes, device)
    generator = torch.Generator(device=device).manual_seed(0)

    def ours() -> None:
        with torch.no_grad():
            augmenter(batch, generator)

    def ours_both() -> None:
        augmenter.zero_grad()
        augmenter(batch, generator).image.sum().backward()

    forward: Calls = {OURS: ours}
    both: Calls = {OURS: ours_both}
    if find_spec("kornia"):
        for name, p in ((KORNIA, 1.0), (KORNIA_HALF, 0.5)):
            forward[name], both[name] = _kornia(batch.image, p)
    return forward, both


def _kornia(image: torch.Tensor, p: float) -> tuple[Callable[[], object], Callable[[], object]]:
    from kornia import augmentation as kornia

    transform = torch.nn.Sequential(
        kornia.ColorJitter(0.4, 0.4, 0.4, 0.1, p=p),
        kornia.RandomAffine(degrees=15, translate=(0.1, 0.1), scale=(0.8, 1.2), shear=10, p=p),
    )
    leaf = image.clone().requires_grad_()

    def forward() -> None:
        with torch.no_grad():
            transform(image)

    def both() -> None:
        leaf.grad = None
        transform(leaf).sum().backward()

    return forward, both


def difference(policy: Policy, size: int, draws: int = 20) -> float:
    """Between a policy's results for bytes and for floats: the mean of several draws, in levels of 1/255."""
    image, found = photograph(size, size), 0.0
    for seed in range(draws):
        made = []
        for one in (image, image / 255):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                made.append(policy(one))
        found += (made[0] - 255 * made[1]).abs().mean().item() / draws
    return found


def _per_sample(policies: dict[str, Policy], size: int, n: int) -> Calls:
    pixels = [photograph(size, size, seed) for seed in range(n)]
    kinds = {"tensor": pixels, "PIL": [tv.to_pil_image(one) for one in pixels]}

    def loop(transform: Callable[[Any], Any], images: list[Any]) -> Callable[[], object]:
        return lambda: torch.stack(
            [tv.to_dtype(tv.to_image(transform(one)), torch.float32, scale=True) for one in images]
        )

    return {
        f"{name}, {kind}": loop(transform, images)
        for name, transform in (
            *policies.items(),
            (RAND, v2.RandAugment()),
            (TRIVIAL, v2.TrivialAugmentWide()),
        )
        for kind, images in kinds.items()
    }
