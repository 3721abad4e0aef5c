"""The colour part: its fast form against the same sub-network on every pixel, and against the whole masked network.

The last is the network as the paper writes it, 128 units with four fifths of them multiplied by zero, on each pixel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.augment.color import ColorAugmentation, ColorDraw
from teachaugment.augment.functional import triangle_wave
from teachaugment.augment.mlp import SLOPE, Live
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.commands.bench.clock import Case, interleave, ratio, summary
from teachaugment.commands.bench.memory import peak
from teachaugment.commands.bench.objects import awaken, labels, noise_batch
from teachaugment.commands.bench.plan import Plan
from teachaugment.hyperparameters import Hyperparameters

FORMS = ("fast", "per pixel", "dense")


def make_augmenter(plan: Plan, device: torch.device, strength: float = 1.0) -> NeuralAugmenter:
    torch.manual_seed(0)
    made = NeuralAugmenter(**Hyperparameters(augmenter="neural").of_augmenter(3, plan.classes))
    return awaken(made.to(device), strength)


def draw_color(augmenter: NeuralAugmenter, n: int, label: Tensor) -> tuple[ColorDraw, tuple[Tensor, Tensor]]:
    """A colour map per image, applied to all of them, and the units that are kept in it."""
    network = augmenter.colors.rgb
    units = network.draw_units(n, torch.Generator(device=label.device).manual_seed(0))
    rgb = network.select(Live(augmenter), "colors.rgb", units, label)
    level = torch.linspace(-1, 1, 2 * n, device=label.device).view(n, 2)
    return ColorDraw(rgb, 0.0, level, torch.ones(n, device=label.device)), units


def per_pixel(colors: ColorAugmentation, image: Tensor, draw: ColorDraw) -> Tensor:
    """The exact form: each pixel through its image's sub-network."""
    return triangle_wave(colors.unfolded(image.flatten(2), draw)).reshape(image.shape)


class DenseNetwork:
    """All units of the RGB network on every pixel, those that are dropped multiplied by zero."""

    def __init__(self, augmenter: NeuralAugmenter, units: tuple[Tensor, Tensor], label: Tensor) -> None:
        self.network = network = augmenter.colors.rgb
        assert network.context is not None
        own = network.context[label][:, :, None]  # of each image's class
        self.biases = own, torch.zeros_like(own)
        zeros = torch.zeros(len(units[0]), network.hidden, device=units[0].device)
        self.masks = [zeros.scatter(1, kept, network.hidden / network.kept)[:, :, None] for kept in units]

    def __call__(self, x: Tensor, normalize: bool = False) -> Tensor:
        network = self.network
        for layer, bias, mask in zip((network.first, network.second), self.biases, self.masks, strict=True):
            x = F.leaky_relu(_linear(layer, x) + bias, SLOPE) * mask
        return _linear(network.last, x)


def _linear(layer: nn.Linear, x: Tensor) -> Tensor:
    """On [B, inputs, P], by the same product as the sub-network's."""
    return torch.baddbmm(layer.bias[None, :, None], layer.weight.expand(len(x), -1, -1), x)


def dense(augmenter: NeuralAugmenter, image: Tensor, draw: ColorDraw, network: DenseNetwork) -> Tensor:
    whole = draw._replace(rgb=network)  # type: ignore[arg-type]  # called like the sub-network
    return per_pixel(augmenter.colors, image, whole)


def measure(plan: Plan, device: torch.device) -> list[dict[str, Any]]:
    """One row for each image size."""
    return [_row(plan, size, batch, device) for size, batch in plan.color]


def _row(plan: Plan, size: int, n: int, device: torch.device) -> dict[str, Any]:
    augmenter = make_augmenter(plan, device)
    batch = noise_batch(n, size, plan.classes, device)
    image, label = batch.image, labels(batch)

    def forms() -> dict[str, Callable[[], Tensor]]:
        draw, units = draw_color(augmenter, n, label)
        return {
            "fast": lambda: augmenter.colors(image, draw),
            "per pixel": lambda: per_pixel(augmenter.colors, image, draw),
            "dense": lambda: dense(augmenter, image, draw, DenseNetwork(augmenter, units, label)),
        }

    with torch.no_grad():
        drawn = forms()

    def forward(name: str) -> Callable[[], object]:
        return torch.no_grad()(drawn[name])

    def both(name: str) -> Callable[[], object]:
        def run() -> None:  # the draw is part of it: its graph is gone after the backward pass
            augmenter.zero_grad()
            forms()[name]().sum().backward()

        return run

    directions = {"forward": forward}
    if size <= plan.color_backward_up_to:
        directions["both"] = both
    row: dict[str, Any] = {"size": size, "batch_size": n, "image_bytes": image.nbytes, "error": _errors(plan, batch)}
    for direction, make in directions.items():
        cases: list[Case] = [(name, make(name)) for name in FORMS]
        rounds = interleave(cases, device, plan.repeats, plan.budget, f"colour {size}² {direction}")
        row[direction] = {
            "seconds": summary(rounds),
            "times_fast": {name: ratio(rounds, name, "fast") for name in FORMS if name != "fast"},
            "peak_bytes": {name: peak(function, device) for name, function in cases},
        }
    return row


@torch.no_grad()
def _errors(plan: Plan, batch: Any) -> dict[str, dict[str, float]]:
    """The error of the fast form, in levels of 1/255, for an augmenter as drawn and for a far stronger one."""
    found = {}
    for strength in (1.0, 3.0):
        augmenter = make_augmenter(plan, batch.image.device, strength)
        draw, _ = draw_color(augmenter, len(batch), batch.label)
        wrong = 255 * (augmenter.colors(batch.image, draw) - per_pixel(augmenter.colors, batch.image, draw)).abs()
        found[f"{strength:g}"] = {"mean": wrong.mean().item(), "max": wrong.max().item()}
    return found
