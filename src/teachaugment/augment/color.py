"""Colour augmentation c: two networks scale and shift each pixel according to its colour and to noise (Eq. 4)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from teachaugment.augment.functional import bounded, lattice, lattice_lookup, triangle_wave
from teachaugment.augment.mlp import MLP, SubNetwork

LATTICE = 17  # points per channel; see docs/performance.md for error and time against the per-pixel form


class ColorDraw(NamedTuple):
    """One colour map per image: everything random has been drawn."""

    rgb: SubNetwork  # one per image
    shift: Tensor | float  # [B, C]: of the network's input, where the context is there
    level: Tensor  # [B, 2]: raw scale and shift of the whole image, from the noise network
    weight: Tensor  # [B]: 1 applies the map, 0 is the identity

    def of(self, rows: Tensor) -> ColorDraw:
        """The maps of some of the images."""
        shift = self.shift[rows] if isinstance(self.shift, Tensor) else self.shift
        return ColorDraw(self.rgb.of(rows), shift, self.level[rows], self.weight[rows])


class ColorAugmentation(nn.Module):
    """An RGB network (any number of channels, in fact) and a noise network whose outputs are added."""

    def __init__(self, rgb: MLP, noise: MLP, scale_width: float, shift_width: float) -> None:
        super().__init__()
        self.scale_width, self.shift_width = scale_width, shift_width
        self.rgb, self.noise = rgb, noise

    def forward(self, image: Tensor, draw: ColorDraw) -> Tensor:
        """Colour each image with its map."""
        if image.is_cpu and not torch.is_grad_enabled():
            # Images that stay as they are cost nothing. An accelerator would have to wait to know which they are.
            rows = draw.weight.nonzero()[:, 0]
            if len(rows) == 0:
                return image.clone()
            if len(rows) < len(image):
                return image.index_copy(0, rows, self.apply_map(image[rows], draw.of(rows)))
        return self.apply_map(image, draw)

    def apply_map(self, image: Tensor, draw: ColorDraw) -> Tensor:
        """Large images read their map from a lattice: the price of the networks stops growing with the pixels."""
        b, c, h, w = image.shape
        if c <= 3 and h * w > 2 * LATTICE**c:
            colors = lattice(c, LATTICE, image.device, image.dtype)[None]
            return triangle_wave(lattice_lookup(self.unfolded(colors, draw), image, LATTICE))
        return triangle_wave(self.unfolded(image.flatten(2), draw)).reshape(b, c, h, w)

    def unfolded(self, colors: Tensor, draw: ColorDraw) -> Tensor:
        """The map before the triangle wave, on colours [B, C, P] (or [1, C, P]): x + w ((alpha - 1) x + beta)."""
        inputs = (4 * colors - 2).expand(draw.weight.shape[0], -1, -1)  # the network sees colours as -2 … 2
        if isinstance(draw.shift, Tensor):
            inputs = inputs + draw.shift[:, :, None]
        raw_scale, raw_shift = draw.rgb(inputs, self.rgb.normalized).chunk(2, 1)
        level_scale, level_shift = draw.level[:, :, None, None].unbind(1)
        scale = bounded(raw_scale + level_scale, self.scale_width)
        shift = bounded(raw_shift + level_shift, self.shift_width)
        return colors + draw.weight[:, None, None] * torch.addcmul(shift, scale, colors)
