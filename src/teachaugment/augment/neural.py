"""The augmenter a = g ∘ c: colour, then geometry, each applied with a learned probability (Sec. 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from teachaugment.augment import augmenter
from teachaugment.augment.augmenter import Augmenter, in_full_precision
from teachaugment.augment.boxes import warp_boxes
from teachaugment.augment.color import ColorAugmentation, ColorDraw
from teachaugment.augment.functional import affine_warp, bernoulli, warp_mask
from teachaugment.augment.geometric import GeometricAugmentation
from teachaugment.augment.mlp import MLP, Sources, context_rows
from teachaugment.batch import IGNORE, Batch

WIDEST = 100  # of a search range: far beyond what leaves anything of an image


@dataclass(frozen=True)
class Settings(augmenter.Settings):
    """Shape and search range. A group also shares the units of the noise networks.

    The defaults are what a file of version 0.1 means that does not say otherwise; those of a training are in
    ``Hyperparameters``.
    """

    noise: int = 128
    dropout: float = 0.8
    scale_width: float = 0.8  # alpha in (0.6, 1.4)
    shift_width: float = 1.0  # beta in (-0.5, 0.5)
    affine_width: float = 0.5  # A in (-0.25, 0.25)
    temperature: float = 0.05
    context: str = "input"  # where an image's class enters the RGB network: a shift of the input, or hidden biases
    normalizer: str = "noise"  # the networks whose hidden layers are normalised: none, noise or all

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.noise >= 1 and 0 <= self.dropout < 1 and self.temperature > 0):
            raise ValueError("noise must be at least 1, dropout within [0, 1) and temperature above 0")
        if self.context not in ("input", "hidden") or self.normalizer not in ("none", "noise", "all"):
            raise ValueError("context must be input or hidden, and normalizer none, noise or all")
        if not all(0 <= width <= WIDEST for width in (self.scale_width, self.shift_width, self.affine_width)):
            raise ValueError(f"scale_width, shift_width and affine_width must be within 0 … {WIDEST}")


class Noise(NamedTuple):
    """All that is random in a draw but the context. Kept are the units with the highest numbers, in either layer."""

    applied: Tensor  # [B, 2], uniform: whether colour and geometry act
    z: Tensor  # [B, noise], normal
    color_units: Tensor  # [2, groups, hidden], uniform
    geometry_units: Tensor  # [2, groups, hidden], uniform
    rgb_units: Tensor  # [2, B, hidden], uniform


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
        common: dict[str, Any] = {"classes": classes, "dropout": s.dropout}
        rgb = MLP(
            channels, 128, 2 * channels, **common,
            class_bias=s.context == "hidden", normalized=s.normalizer == "all",
        )  # fmt: skip
        brightness, affine = (
            MLP(s.noise, 512, outputs, **common, normalized=s.normalizer != "none") for outputs in (2, 6)
        )
        self.colors = ColorAugmentation(rgb, brightness, s.scale_width, s.shift_width)
        self.geometry = GeometricAugmentation(affine, s.affine_width)
        # log-odds of p_c and p_g, one pair per class when there is a context; zero is p = 0.5
        self.log_odds = nn.Parameter(torch.zeros(classes or 1, 2))

    def probabilities(self) -> dict[str, Tensor]:
        """p_c and p_g, one per class when there is a context."""
        color, geometric = torch.sigmoid(self.log_odds.detach()).unbind(1)
        return {"color": color, "geometric": geometric}

    def _draw(self, n: int, context: Tensor | None, generator: torch.Generator | None, sources: Sources) -> Draw:
        classes = self.settings.classes
        if classes is not None and context is None:  # marginalise over the classes: draw one
            context = torch.randint(classes, (n,), device=self.device, generator=generator)
        return self.draw_from(self.noise(n, self.settings.group, generator), context, sources, self.settings.group)

    def noise(self, n: int, group: int, generator: torch.Generator | None = None) -> Noise:
        """For ``n`` images, of which each group shares the units of the noise networks."""
        dtype, groups = torch.promote_types(self.log_odds.dtype, torch.float32), -(-n // group)
        device = self.log_odds.device
        return Noise(
            torch.rand(n, 2, device=device, generator=generator),
            torch.randn(n, self.settings.noise, device=device, dtype=dtype, generator=generator),
            self.colors.noise.scores(groups, generator),
            self.geometry.noise.scores(groups, generator),
            self.colors.rgb.scores(n, generator),
        )

    def draw_from(self, noise: Noise, context: Tensor | None, sources: Sources, group: int) -> Draw:
        """The draw as a function of the noise."""
        settings, color, geometry = self.settings, self.colors, self.geometry
        if settings.classes is None or context is None:
            context = torch.zeros_like(noise.applied[:, 0], dtype=torch.long)  # the one row of the log-odds

        def shift(network: str, shifted: bool = True) -> Tensor | float:
            known = settings.classes is not None and shifted
            return context_rows(sources.images, f"{network}.context", context) if known else 0.0

        applied = bernoulli(context_rows(sources.images, "log_odds", context), noise.applied, settings.temperature)
        level = color.noise.from_noise(
            noise.z + shift("colors.noise"), sources, "colors.noise", group, noise.color_units
        )
        raw = geometry.noise.from_noise(
            noise.z + shift("geometry.noise"), sources, "geometry.noise", group, noise.geometry_units
        )
        known = None if settings.classes is None else context
        rgb = color.rgb.select(sources.images, "colors.rgb", color.rgb.units(noise.rgb_units), known)
        moved = shift("colors.rgb", shifted=not color.rgb.class_bias)
        return Draw(ColorDraw(rgb, moved, level, applied[:, 0]), geometry.matrix(raw, applied[:, 1]))

    def weakened(self, draw: Draw, strength: float) -> Draw:
        """α - 1, β and A, times ``strength``."""
        identity = torch.eye(2, 3, device=draw.affine.device, dtype=draw.affine.dtype)
        color = draw.color._replace(weight=strength * draw.color.weight)
        return Draw(color, identity + strength * (draw.affine - identity))

    def arm(self, draw: Draw) -> Tensor:
        identity = torch.eye(2, 3, device=draw.affine.device, dtype=draw.affine.dtype)
        return ((draw.color.weight != 0) | (draw.affine != identity).flatten(1).any(1)).long()

    def matrix(self, draw: Draw, size: tuple[int, int]) -> Tensor:
        return draw.affine

    def ranges(self) -> dict[str, list[float]]:
        s = self.settings
        around = {"scale": (1.0, s.scale_width), "shift": (0.0, s.shift_width), "affine": (0.0, s.affine_width)}
        return {name: [middle - width / 2, middle + width / 2] for name, (middle, width) in around.items()}

    def color(self, batch: Batch, draw: Draw) -> Batch:
        return batch.replace(image=in_full_precision(self.colors, batch.image, draw.color, draw.affine.dtype))

    def warp(self, batch: Batch, draw: Draw) -> Batch:
        image = in_full_precision(affine_warp, batch.image, draw.affine, draw.affine.dtype)
        mask = None if batch.mask is None else warp_mask(batch.mask, draw.affine.detach(), IGNORE)
        size = (image.shape[2], image.shape[3])
        boxes = None if batch.boxes is None else warp_boxes(batch.boxes, draw.affine, size)
        return batch.replace(image=image, mask=mask, boxes=boxes)
