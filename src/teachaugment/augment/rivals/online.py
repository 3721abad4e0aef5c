"""OnlineAugment's three networks (Tang et al., 2020): a rival of the neural augmenter whose outputs have no bounds.

A perturbation that an auto-encoder makes of the image is added to it; a smooth field, made by another, deforms it; and
a network from noise to a matrix moves it as a whole. OnlineAugment restrains them by losses of their own, for
reconstruction, smoothness and cycles. Here, as in the paper's comparison, the objective is TeachAugment's alone; the
field is smooth for being given on few points. All three start as the identity and act on every image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.augment import augmenter
from teachaugment.augment.augmenter import Augmenter, in_full_precision
from teachaugment.augment.boxes import refuse_boxes
from teachaugment.augment.functional import mask_at, sample_at, triangle_wave
from teachaugment.augment.mlp import MLP, SLOPE, Source, Sources
from teachaugment.batch import IGNORE, Batch

SIDE = 32  # of the image an encoder sees, whatever the size of the image
CELLS = 8  # per side of the smallest feature map, and of the points that carry the deformation
WIDTH = 32  # channels there


@dataclass(frozen=True)
class Settings(augmenter.Settings):
    """The numbers are those of OnlineAugment's published code. It has no context, so ``classes`` changes nothing."""

    perturb: int = 8  # numbers in the code of the perturbation's auto-encoder
    deform: int = 32  # and of the deformation's
    noise: int = 1  # numbers of which the matrix is made
    hidden: int = 32
    dropout: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (min(self.perturb, self.deform, self.noise, self.hidden) >= 1 and 0 <= self.dropout < 1):
            raise ValueError("perturb, deform, noise and hidden must be at least 1, dropout within [0, 1)")


class Weights(NamedTuple):
    """A layer's weights, one set for each group of images."""

    weight: Tensor  # [G, outputs, inputs]
    bias: Tensor  # [G, outputs]


class Layer(nn.Module):
    """Weights of a linear layer or of a convolution of ``taps`` pixels, as a matrix."""

    def __init__(self, inputs: int, outputs: int, taps: int = 1, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs * taps) * scale * math.sqrt(2 / (inputs * taps)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def read(self, source: Source, name: str, groups: int) -> Weights:
        rows = torch.arange(len(self.bias), device=self.bias.device).expand(groups, -1)
        return Weights(source.rows(f"{name}.weight", rows), source.rows(f"{name}.bias", rows))


def linear(x: Tensor, layer: Weights) -> Tensor:
    """[G, images, inputs] to [G, images, outputs]."""
    return x @ layer.weight.mT + layer.bias[:, None]


def convolve(x: Tensor, layer: Weights, stride: int = 1) -> Tensor:
    """[G, images, inputs, H, W] to [G, images, outputs, H / stride, W / stride]."""
    groups, _, inputs = x.shape[:3]
    side = math.isqrt(layer.weight.shape[2] // inputs)
    kernel, padding = layer.weight.reshape(-1, inputs, side, side), side // 2
    y = F.conv2d(x.transpose(0, 1).flatten(1, 2), kernel, layer.bias.flatten(), stride, padding, groups=groups)
    return y.unflatten(1, (groups, -1)).transpose(0, 1)


def active(x: Tensor) -> Tensor:
    """Leaky ReLU, normalised over an image's features: an image does not depend on its batch-mates."""
    x = F.leaky_relu(x, SLOPE)
    return F.layer_norm(x, x.shape[2:])


def doubled(x: Tensor) -> Tensor:
    return F.interpolate(x.flatten(0, 1), scale_factor=2.0).unflatten(0, x.shape[:2])


class AutoEncoder(nn.Module):
    """An image to a random code, and that to a map of ``outputs`` channels with ``CELLS`` 2^``finer`` cells a side."""

    def __init__(self, channels: int, code: int, outputs: int, finer: int) -> None:
        super().__init__()
        sizes = [WIDTH // 2**i for i in range(finer + 1)]
        self.layers = nn.ModuleDict(
            {
                "down1": Layer(channels, WIDTH // 2, 9),
                "down2": Layer(WIDTH // 2, WIDTH, 9),
                "code": Layer(WIDTH * CELLS**2, 2 * code),
                "decode": Layer(code, WIDTH * CELLS**2),
                **{f"up{i + 1}": Layer(sizes[i], sizes[i + 1], 9) for i in range(finer)},
                "last": Layer(sizes[-1], outputs, scale=0.0),
            }
        )
        self.finer = finer

    def read(self, source: Source, name: str, groups: int) -> dict[str, Weights]:
        return {k: cast(Layer, m).read(source, f"{name}.layers.{k}", groups) for k, m in self.layers.items()}

    def forward(self, image: Tensor, weights: dict[str, Weights], noise: Tensor, group: int) -> Tensor:
        """[B, C, H, W] to [B, outputs, cells, cells]."""
        small = image if image.shape[2:] == (SIDE, SIDE) else F.adaptive_avg_pool2d(image, SIDE)
        x, z = in_groups(4 * small - 2, group), in_groups(noise, group)
        x = active(convolve(x, weights["down1"], 2))
        x = active(convolve(x, weights["down2"], 2))
        mean, spread = linear(x.flatten(2), weights["code"]).chunk(2, -1)
        z = mean + z * (spread.clamp(-10, 10) / 2).exp()
        x = active(linear(z, weights["decode"]).unflatten(-1, (WIDTH, CELLS, CELLS)))
        for i in range(self.finer):
            x = active(convolve(doubled(x), weights[f"up{i + 1}"]))
        return convolve(x, weights["last"]).flatten(0, 1)[: len(image)]


def in_groups(x: Tensor, group: int) -> Tensor:
    """[B, …] to [G, images, …], the last group filled up with zeros."""
    missing = x.new_zeros(-len(x) % group, *x.shape[1:])
    return torch.cat([x, missing]).unflatten(0, (-1, group))


class Draw(NamedTuple):
    """Everything random, and the weights with which it is applied."""

    perturb: dict[str, Weights]
    perturb_noise: Tensor  # [B, code]
    deform: dict[str, Weights]
    deform_noise: Tensor  # [B, code]
    affine: Tensor  # [B, 2, 3]
    strength: float = 1.0  # of perturbation and deformation


class OnlineAugmenter(Augmenter):
    """Perturbation, then deformation and affine map in one."""

    name = "online"
    bends = True
    settings: Settings

    def __init__(self, channels: int = 3, classes: int | None = None, **shape: Any) -> None:
        super().__init__()
        self.settings = s = Settings(channels, classes, **shape)
        self.perturb = AutoEncoder(channels, s.perturb, channels, finer=2)
        self.deform = AutoEncoder(channels, s.deform, 2, finer=0)
        self.affine = MLP(s.noise, s.hidden, 6, None, s.dropout)

    def probabilities(self) -> dict[str, Tensor]:
        return {}  # none: every image passes through all three

    def _draw(self, n: int, context: Tensor | None, generator: torch.Generator | None, sources: Sources) -> Draw:
        s, groups = self.settings, -(-n // self.settings.group)

        def noise(size: int) -> Tensor:
            return torch.randn(n, size, device=self.device, generator=generator)

        z, scores = noise(s.noise), self.affine.scores(groups, generator)
        raw = self.affine.from_noise(z, sources, "affine", s.group, scores).reshape(n, 2, 3)
        return Draw(
            self.perturb.read(sources.groups, "perturb", groups),
            noise(s.perturb),
            self.deform.read(sources.groups, "deform", groups),
            noise(s.deform),
            torch.eye(2, 3, device=raw.device, dtype=raw.dtype) + raw,
        )

    def color(self, batch: Batch, draw: Draw) -> Batch:
        return batch.replace(image=in_full_precision(self.perturbed, batch.image, draw, draw.affine.dtype))

    def warp(self, batch: Batch, draw: Draw) -> Batch:
        refuse_boxes(batch, self.name)
        with torch.autocast(batch.image.device.type, enabled=False):
            image = batch.image.to(draw.affine.dtype)
            grid = self.grid(image, draw)
            warped = sample_at(image, grid).to(batch.image.dtype)
        mask = None if batch.mask is None else mask_at(batch.mask, grid.detach(), IGNORE)
        return batch.replace(image=warped, mask=mask)

    def weakened(self, draw: Draw, strength: float) -> Draw:
        identity = torch.eye(2, 3, device=draw.affine.device, dtype=draw.affine.dtype)
        return draw._replace(affine=identity + strength * (draw.affine - identity), strength=strength)

    def ranges(self) -> dict[str, list[float]]:
        return {}  # nothing bounds it

    def perturbed(self, image: Tensor, draw: Draw) -> Tensor:
        """x + Δ(x), folded back into [0, 1] as in the neural augmenter."""
        change = draw.strength * self.perturb(image, draw.perturb, draw.perturb_noise, self.settings.group)
        return triangle_wave(image + F.interpolate(change, image.shape[2:], mode="bilinear", align_corners=False))

    def field(self, image: Tensor, draw: Draw) -> Tensor:
        """How far from itself each output pixel reads, [B, 2, H, W], in coordinates from -1 to 1; cubic in between."""
        points = draw.strength * self.deform(image, draw.deform, draw.deform_noise, self.settings.group)
        return F.interpolate(points, image.shape[2:], mode="bicubic", align_corners=False)

    def grid(self, image: Tensor, draw: Draw) -> Tensor:
        """Where the output reads the input: u + δ(u), then the affine map."""
        identity = torch.eye(2, 3, device=image.device, dtype=image.dtype).expand(len(image), 2, 3)
        place = F.affine_grid(identity, list(image.shape), align_corners=False)
        place = place + self.field(image, draw).permute(0, 2, 3, 1)
        turned = place.flatten(1, 2) @ draw.affine[:, :, :2].mT + draw.affine[:, None, :, 2]
        return turned.unflatten(1, image.shape[2:])
