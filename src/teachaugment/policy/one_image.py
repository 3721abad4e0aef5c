"""The draw of one image on a CPU, as a worker of a data loader makes it: in NumPy, whose small operations are quicker.

The same numbers as ``NeuralAugmenter.sample`` gives for the same random ones, without what only a batch needs; and a
half of the augmentation that does not act is not computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from teachaugment.augment.mlp import MLP, SLOPE
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.policy.policy import Policy
from teachaugment.replay import Replay

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = 1e-5  # of torch's layer norm
TINY = 1e-6  # of ``functional.logistic``
IDENTITY = torch.eye(2, 3)[None]


class Perceptron(NamedTuple):
    """One sub-network, ready to run: ``mlp.SubNetwork`` for one image."""

    weights: tuple[Array, Array, Array]  # [kept, inputs], [kept, kept], [outputs, kept]
    biases: tuple[Array, Array, Array]  # [kept], [kept], [outputs]
    normalized: bool

    def __call__(self, x: Array) -> Array:
        """[inputs, P] to [outputs, P], or [inputs] to [outputs]."""
        biases = self.biases if x.ndim == 1 else [bias[:, None] for bias in self.biases]
        for weight, bias in zip(self.weights[:2], biases[:2], strict=True):
            x = weight @ x
            x += bias
            x = np.maximum(x, SLOPE * x, out=x)
            if self.normalized:
                x -= x.sum(0) / len(x)
                x /= np.sqrt(np.einsum("i...,i...->...", x, x) / len(x) + EPSILON)
        x = self.weights[2] @ x
        x += biases[2]
        return x


class ColorMap(NamedTuple):
    """The map of colours of one image: ``color.ColorDraw`` with the widths that it is applied with."""

    rgb: Perceptron
    shift: Array | float  # [C], of the network's input
    level: Array  # [2], raw scale and shift of the whole image
    strength: float
    widths: tuple[float, float]

    def unfolded(self, colors: Array) -> Array:
        """``ColorAugmentation.unfolded`` of colours [C, P]."""
        inputs = 4 * colors - 2
        if isinstance(self.shift, np.ndarray):
            inputs += self.shift[:, None]
        raw = self.rgb(inputs).reshape(2, *colors.shape) + self.level[:, None, None]
        scale, shift = map(bounded, raw, self.widths)
        return colors + self.strength * (scale * colors + shift)


class OneDraw(NamedTuple):
    """What ``neural.Draw`` is for a batch."""

    color: ColorMap | None  # None: colours stay as they are
    affine: Tensor  # [1, 2, 3]


@torch.no_grad()
def draw_one(policy: Policy, label: Tensor | None) -> OneDraw:
    """The draw that ``policy.draw(1, label)`` makes of the same random numbers; a label is a whole number, [1]."""
    augmenter, strength = policy.augmenter, policy.strength
    assert isinstance(augmenter, NeuralAugmenter)
    s, context = augmenter.settings, policy._contexts(1, label, None)
    weights = Weights(augmenter, policy.replay)
    if s.classes is not None and context is None:
        context = torch.randint(s.classes, (1,))
    noise = augmenter.noise(1, s.group)
    row = None if s.classes is None or context is None else int(context)
    z = noise.z.numpy()[0]

    def from_noise(network: MLP, name: str, scores: Tensor) -> Array:
        """``MLP.from_noise`` for one vector."""
        shifted = z if row is None else z + weights.row(f"{name}.context", row)
        return perceptron(network, weights, name, scores, None)(shifted)

    u = noise.applied.numpy()[0].clip(TINY, 1 - TINY)
    colored, moved = np.log(u / (1 - u)) + weights.row("log_odds", row or 0) > 0  # ``hard_bernoulli``
    color, affine = None, IDENTITY
    if colored:
        parts = augmenter.colors
        level = from_noise(parts.noise, "colors.noise", noise.color_units)
        rgb = perceptron(parts.rgb, weights, "colors.rgb", noise.rgb_units, row)
        shift = weights.row("colors.rgb.context", row) if row is not None and not parts.rgb.class_bias else 0.0
        color = ColorMap(rgb, shift, level, strength, (parts.scale_width, parts.shift_width))
    if moved:
        raw = from_noise(augmenter.geometry.noise, "geometry.noise", noise.geometry_units)
        residual = strength * bounded(raw, augmenter.geometry.width)
        affine = affine + torch.from_numpy(residual.reshape(1, 2, 3))
    return OneDraw(color, affine)


class Weights:
    """The parameters of the augmenter, or of the snapshot that is drawn, by name; in float32 at least."""

    def __init__(self, augmenter: NeuralAugmenter, replay: Replay | None) -> None:
        self.values: Mapping[str, Tensor] = parameters(augmenter)
        self.scales: Mapping[str, Tensor] = {}
        self.slot = None
        if replay is not None and len(replay):
            self.values, self.scales, self.slot = replay.values, replay.scales, int(replay.slots(1)[0])

    def __call__(self, name: str, rows: Array | None = None, columns: Array | None = None) -> Array:
        """Some rows of a parameter and some columns of these, or all."""
        taken = self.some(self.values[name], rows, columns)
        scale = self.scales.get(name)
        return taken if scale is None else taken * self.some(scale, rows)

    def some(self, values: Tensor, rows: Array | None, columns: Array | None = None) -> Array:
        found = (values if self.slot is None else values[self.slot]).detach()
        taken = (found.float() if found.dtype == torch.bfloat16 else found).numpy()
        taken = taken if rows is None else taken.take(rows, 0)
        taken = taken if columns is None else taken.take(columns, 1)
        return taken.astype(np.result_type(taken, np.float32), copy=False)

    def row(self, name: str, row: int) -> Array:
        return self(name, np.array([row]))[0]


PARAMETERS: WeakKeyDictionary[NeuralAugmenter, dict[str, Tensor]] = WeakKeyDictionary()


def parameters(augmenter: NeuralAugmenter) -> dict[str, Tensor]:
    """The parameters by name, kept: to look for them takes as long as to use them."""
    found = PARAMETERS.get(augmenter)
    if found is None or found["log_odds"] is not augmenter.log_odds:  # others have been put in their place
        found = PARAMETERS[augmenter] = dict(augmenter.named_parameters())
    return found


def perceptron(network: MLP, weights: Weights, name: str, scores: Tensor, label: int | None) -> Perceptron:
    """``MLP.select`` for one sub-network."""
    first, second = scores[:, 0].topk(network.kept, sorted=False).indices.numpy()
    scale = network.hidden / network.kept
    bias = weights(f"{name}.first.bias", first)
    if label is not None and network.class_bias:
        bias = bias + weights.row(f"{name}.context", label)[first]
    return Perceptron(
        weights=(
            weights(f"{name}.first.weight", first),
            scale * weights(f"{name}.second.weight", second, first),
            scale * weights(f"{name}.last.weight", None, second),
        ),
        biases=(bias, weights(f"{name}.second.bias", second), weights(f"{name}.last.bias")),
        normalized=network.normalized,
    )


def bounded(raw: Array, width: float) -> Array:
    """``functional.bounded``."""
    return width / 2 * np.tanh(raw / 2)
