"""The augmenter a = g ∘ c: colour, then geometry, each applied with a learned probability (Sec. 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..batch import IGNORE, Batch
from . import augmenter
from .augmenter import Augmenter, in_full_precision
from .color import ColorAugmentation, ColorDraw
from .functional import affine_warp, bernoulli, warp_mask
from .geometric import GeometricAugmentation
from .mlp import Sources, context_rows


@dataclass(frozen=True)
class Settings(augmenter.Settings):
    """Shape and search range; the defaults are the paper's. A group also shares the units of the noise networks."""

    noise: int = 128
    dropout: float = 0.8
    scale_width: float = 0.8  # alpha in (0.6, 1.4)
    shift_width: float = 1.0  # beta in (-0.5, 0.5)
    affine_width: float = 0.5  # A in (-0.25, 0.25)
    temperature: float = 0.05


class Draw(NamedTuple):
    """One augmentation per image, drawn once and applied to image, mask, boxes alike."""

    color: ColorDraw
    affine: Tensor  # [B, 2, 3]


class NeuralAugmenter(Augmenter):
    """a_φ of the paper."""

    name = "neural"
    settings: Settings

    def __init__(self, channels: int = 3, classes: int | None = None, **ranges: Any) -> None:
        super().__init__()
        self.settings = s = Settings(channels, classes, **ranges)
        self.colors = ColorAugmentation(channels, classes, s.noise, s.dropout, s.scale_width, s.shift_width)
        self.geometry = GeometricAugmentation(classes, s.noise, s.dropout, s.affine_width)
        # log-odds of p_c and p_g, one pair per class when there is a context; zero is p = 0.5
        self.log_odds = nn.Parameter(torch.zeros(classes or 1, 2))

    def probabilities(self) -> dict[str, Tensor]:
        """p_c and p_g, one per class when there is a context."""
        color, geometric = torch.sigmoid(self.log_odds.detach()).unbind(1)
        return {"color": color, "geometric": geometric}

    def _draw(self, n: int, context: Tensor | None, generator: torch.Generator | None, sources: Sources) -> Draw:
        device, settings = self.device, self.settings
        dtype = torch.promote_types(self.log_odds.dtype, torch.float32)
        if settings.classes is None:
            context = torch.zeros(n, dtype=torch.long, device=device)  # the one row of the log-odds
        elif context is None:  # marginalise over the classes: draw one
            context = torch.randint(settings.classes, (n,), device=device, generator=generator)

        uniform = torch.rand(n, 2, device=device, generator=generator)
        applied = bernoulli(context_rows(sources.images, "log_odds", context), uniform, settings.temperature)

        def shift(network: str) -> Tensor | float:
            return 0.0 if settings.classes is None else context_rows(sources.images, f"{network}.context", context)

        z = torch.randn(n, settings.noise, device=device, dtype=dtype, generator=generator)
        color, geometry = self.colors, self.geometry
        level = color.noise.from_noise(z + shift("colors.noise"), sources, "colors.noise", settings.group, generator)
        raw = geometry.noise.from_noise(
            z + shift("geometry.noise"), sources, "geometry.noise", settings.group, generator
        )
        rgb = color.rgb.select(sources.images, "colors.rgb", color.rgb.draw_units(n, generator))
        return Draw(ColorDraw(rgb, shift("colors.rgb"), level, applied[:, 0]), geometry.matrix(raw, applied[:, 1]))

    def color(self, batch: Batch, draw: Draw) -> Batch:
        return batch.replace(image=in_full_precision(self.colors, batch.image, draw.color, draw.affine.dtype))

    def warp(self, batch: Batch, draw: Draw) -> Batch:
        image = in_full_precision(affine_warp, batch.image, draw.affine, draw.affine.dtype)
        mask = None if batch.mask is None else warp_mask(batch.mask, draw.affine.detach(), IGNORE)
        return batch.replace(image=image, mask=mask)
