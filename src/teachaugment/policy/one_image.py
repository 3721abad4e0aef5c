"""The draw of one image on a CPU, as a worker of a data loader makes it.

The same numbers as ``NeuralAugmenter.sample`` gives for the same random ones, without what only a batch needs; and a
half of the augmentation that does not act is not computed. A draw takes a third of the time.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from teachaugment.augment.color import ColorDraw
from teachaugment.augment.functional import bernoulli
from teachaugment.augment.mlp import MLP, SLOPE, SubNetwork
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.policy.policy import Policy
from teachaugment.replay import Replay


class OneDraw(NamedTuple):
    """What ``neural.Draw`` is for a batch."""

    color: ColorDraw | None  # None: colours stay as they are
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
    known = s.classes is not None and context is not None
    row = context if known and context is not None else torch.zeros(1, dtype=torch.long)

    def shifted(network: str) -> Tensor:
        return noise.z[0] + weights.rows(f"{network}.context", row)[0] if known else noise.z[0]

    colored, moved = bernoulli(weights.rows("log_odds", row), noise.applied, s.temperature)[0].tolist()
    color, affine = None, torch.eye(2, 3)[None]
    if colored:
        name, parts = "colors.noise", augmenter.colors
        level = from_noise(parts.noise, weights, name, shifted(name), noise.color_units)
        rgb = sub_network(parts.rgb, weights, "colors.rgb", noise.rgb_units, row if known else None)
        at_input = known and not parts.rgb.class_bias
        shift = weights.rows("colors.rgb.context", row) if at_input else 0.0
        color = ColorDraw(rgb, shift, level[None], torch.full((1,), strength))
    if moved:
        name = "geometry.noise"
        raw = from_noise(augmenter.geometry.noise, weights, name, shifted(name), noise.geometry_units)
        identity = affine
        affine = augmenter.geometry.matrix(raw[None], torch.ones(1))
        affine = identity + strength * (affine - identity)
    return OneDraw(color, affine)


class Weights:
    """The parameters of the augmenter, or of the snapshot that is drawn, by name."""

    def __init__(self, augmenter: NeuralAugmenter, replay: Replay | None) -> None:
        self.augmenter, self.replay = augmenter, replay
        self.slot = None if replay is None or not len(replay) else int(replay.slots(1)[0])

    def rows(self, name: str, rows: Tensor | None = None, columns: Tensor | None = None) -> Tensor:
        """Some rows of a parameter and some columns of these, or all; in float32 at least."""
        scale = None
        if self.slot is None or self.replay is None:
            taken = attrgetter(name)(self.augmenter)
        else:
            taken = self.replay.values[name][self.slot]
            scale = self.replay.scales[name][self.slot] if name in self.replay.scales else None
        if rows is not None:
            taken = taken.index_select(0, rows)
            scale = None if scale is None else scale.index_select(0, rows)
        if columns is not None:
            taken = taken.index_select(1, columns)
        taken = taken.to(torch.promote_types(taken.dtype, torch.float32))
        return taken if scale is None else taken * scale


def sub_network(network: MLP, weights: Weights, name: str, scores: Tensor, context: Tensor | None) -> SubNetwork:
    """``MLP.select`` for one sub-network."""
    first, second = network.units(scores[:, 0])
    scale = network.hidden / network.kept
    bias = weights.rows(f"{name}.first.bias", first)
    if context is not None and network.class_bias:
        bias = bias + weights.rows(f"{name}.context", context, first)[0]
    return SubNetwork(
        weights=(
            weights.rows(f"{name}.first.weight", first)[None],
            (scale * weights.rows(f"{name}.second.weight", second, first))[None],
            (scale * weights.rows(f"{name}.last.weight", None, second))[None],
        ),
        biases=(
            bias[None, :, None],
            weights.rows(f"{name}.second.bias", second)[None, :, None],
            weights.rows(f"{name}.last.bias")[None, :, None],
        ),
    )


def from_noise(network: MLP, weights: Weights, name: str, noise: Tensor, scores: Tensor) -> Tensor:
    """``MLP.from_noise`` for one vector: [inputs] to [outputs]."""
    parts = sub_network(network, weights, name, scores, None)
    x = noise
    for weight, bias in zip(parts.weights[:2], parts.biases[:2], strict=True):
        x = F.leaky_relu(torch.addmv(bias[0, :, 0], weight[0], x), SLOPE)
        if network.normalized:
            x = F.layer_norm(x, x.shape)
    return torch.addmv(parts.biases[2][0, :, 0], parts.weights[2][0], x)
