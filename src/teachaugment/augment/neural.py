"""The augmenter a = g ∘ c: colour, then geometry, each applied with a learned probability (Sec. 4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..batch import IGNORE, Batch
from .color import ColorAugmentation, ColorDraw
from .functional import affine_warp, hard_bernoulli, relaxed_bernoulli, warp_mask
from .geometric import GeometricAugmentation
from .mlp import Live, Sources, context_rows


@dataclass(frozen=True)
class Settings:
    """What defines an augmenter's shape and search range; the defaults are the paper's."""

    channels: int = 3
    classes: int | None = None  # None: no context
    noise: int = 128
    dropout: float = 0.8
    scale_width: float = 0.8  # alpha in (0.6, 1.4)
    shift_width: float = 1.0  # beta in (-0.5, 0.5)
    affine_width: float = 0.5  # A in (-0.25, 0.25)
    temperature: float = 0.05
    group: int = 8  # images that share the units of the noise networks, and with a replay their snapshot


class Draw(NamedTuple):
    """One augmentation per image, drawn once and applied to image, mask, boxes alike."""

    color: ColorDraw
    affine: Tensor  # [B, 2, 3]


class NeuralAugmenter(nn.Module):
    """a_phi. ``sample`` draws, ``color`` and ``warp`` apply; calling it does all three."""

    def __init__(self, channels: int = 3, classes: int | None = None, **ranges: Any) -> None:
        super().__init__()
        self.settings = s = Settings(channels, classes, **ranges)
        self.colors = ColorAugmentation(channels, classes, s.noise, s.dropout, s.scale_width, s.shift_width)
        self.geometry = GeometricAugmentation(classes, s.noise, s.dropout, s.affine_width)
        # log-odds of p_c and p_g, one pair per class when there is a context; zero is p = 0.5
        self.log_odds = nn.Parameter(torch.zeros(classes or 1, 2))

    def describe(self) -> dict[str, Any]:
        """The settings as plain data: ``NeuralAugmenter(**describe())`` has the same shape."""
        return asdict(self.settings)

    def probabilities(self) -> dict[str, Tensor]:
        """p_c and p_g, one per class when there is a context."""
        color, geometric = torch.sigmoid(self.log_odds.detach()).unbind(1)
        return {"color": color, "geometric": geometric}

    def forward(self, batch: Batch, generator: torch.Generator | None = None) -> Batch:
        draw = self.sample(len(batch), batch.label, generator)
        return self.warp(self.color(batch, draw), draw)

    def sample(
        self,
        n: int,
        context: Tensor | None = None,
        generator: torch.Generator | None = None,
        snapshots: Sources | None = None,
    ) -> Draw:
        """Draw for ``n`` images: with gradient (relaxed) if gradients are enabled, otherwise hard.

        With ``snapshots`` the weights come from there and not from this module's parameters.
        """
        with torch.autocast(self.log_odds.device.type, enabled=False):
            return self._sample(n, context, generator, snapshots or Sources(live := Live(self), live))

    def _sample(self, n: int, context: Tensor | None, generator: torch.Generator | None, sources: Sources) -> Draw:
        device, settings = self.log_odds.device, self.settings
        dtype = torch.promote_types(self.log_odds.dtype, torch.float32)
        if settings.classes is None:
            context = torch.zeros(n, dtype=torch.long, device=device)  # the one row of the log-odds
        elif context is None:  # marginalise over the classes: draw one
            context = torch.randint(settings.classes, (n,), device=device, generator=generator)

        uniform = torch.rand(n, 2, device=device, generator=generator)
        log_odds = context_rows(sources.images, "log_odds", context)
        if torch.is_grad_enabled():
            applied = relaxed_bernoulli(log_odds, uniform, settings.temperature)
        else:
            applied = hard_bernoulli(log_odds, uniform)

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
        """x̃ = c(x): the image only."""
        return batch.replace(image=in_full_precision(self.colors, batch.image, draw.color, draw.affine.dtype))

    def warp(self, batch: Batch, draw: Draw) -> Batch:
        """x̂ = g(x̃): image and mask get the same warp."""
        image = in_full_precision(affine_warp, batch.image, draw.affine, draw.affine.dtype)
        mask = None if batch.mask is None else warp_mask(batch.mask, draw.affine.detach(), IGNORE)
        return batch.replace(image=image, mask=mask)


def in_full_precision(function, image: Tensor, argument, dtype: torch.dtype) -> Tensor:
    """Half precision has too few digits for colours and positions, and full precision costs little here."""
    with torch.autocast(image.device.type, enabled=False):
        return function(image.to(dtype), argument).to(image.dtype)
