"""Pure tensor functions of the augmentation: each takes its randomness as an argument and changes nothing in place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def triangle_wave(x: Tensor) -> Tensor:
    """t(x) = arccos(cos(pi x)) / pi in closed form: folds any value back into [0, 1] (Eq. 4).

    The closed form has a slope of -1, 0 or 1 everywhere, where arccos(cos(.)) divides by zero at the folds.
    """
    return (x - 2 * torch.round(x / 2)).abs()


def bounded(raw: Tensor, width: float) -> Tensor:
    """Raw network outputs to (-width/2, width/2); zero stays zero (appendix, "Details of augmentation model")."""
    return width * (torch.sigmoid(raw) - 0.5)


def relaxed_bernoulli(logit: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """A differentiable draw of w in (0, 1) that is close to 0 or 1 (appendix, "Learning pipeline of probabilities").

    ``logit`` is log p - log(1-p); the paper writes log p alone, with which w would not have mean p.
    """
    return torch.sigmoid((logistic(uniform) + logit) / temperature)


def hard_bernoulli(logit: Tensor, uniform: Tensor) -> Tensor:
    """The limit of :func:`relaxed_bernoulli` at temperature zero: exactly 0 or 1."""
    return (logistic(uniform) + logit > 0).to(logit.dtype)


def bernoulli(logit: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """Relaxed where gradients are wanted, otherwise hard: the same draw, for training an augmenter and for using it."""
    return relaxed_bernoulli(logit, uniform, temperature) if torch.is_grad_enabled() else hard_bernoulli(logit, uniform)


def straight_through(value: Tensor, stand_in: Tensor) -> Tensor:
    """``value``, with the gradient of ``stand_in``."""
    return stand_in + (value - stand_in).detach()


def logistic(uniform: Tensor) -> Tensor:
    """Samples of Logistic(0, 1) from samples of Uniform(0, 1); finite even where the uniform sample is 0 or 1."""
    return torch.logit(uniform, eps=1e-6)


def affine_warp(image: Tensor, matrix: Tensor, mode: str = "bilinear", fill: float = 0.0) -> Tensor:
    """Affine(x, A): the output at position u is the input at A u, in coordinates from -1 to 1 (Eq. 5).

    ``image`` is [B, C, H, W], ``matrix`` [B, 2, 3]; positions outside the image read ``fill``.
    """
    return sample_at(image, F.affine_grid(matrix, list(image.shape), align_corners=False), mode, fill)


def sample_at(image: Tensor, grid: Tensor, mode: str = "bilinear", fill: float = 0.0) -> Tensor:
    """The image at the positions of a grid [B, H, W, 2]; those outside read ``fill``."""
    if fill:
        return F.grid_sample(image - fill, grid, mode=mode, padding_mode="zeros", align_corners=False) + fill
    return F.grid_sample(image, grid, mode=mode, padding_mode="zeros", align_corners=False)


def warp_mask(mask: Tensor, matrix: Tensor, fill: int) -> Tensor:
    """The same warp for a mask of class indices [B, H, W]: nearest neighbour, uncovered pixels become ``fill``."""
    return mask_at(mask, F.affine_grid(matrix, [len(mask), 1, *mask.shape[1:]], align_corners=False), fill)


def mask_at(mask: Tensor, grid: Tensor, fill: int) -> Tensor:
    """The mask at the positions of a grid."""
    return sample_at(mask[:, None].to(grid.dtype), grid, "nearest", float(fill))[:, 0].round().to(mask.dtype)


def warp_points(points: Tensor, matrix: Tensor, size: tuple[int, int]) -> Tensor:
    """Where the same warp moves points [..., 2], x and y in pixels of an image of this height and width.

    ``matrix`` is [2, 3]. A pixel's centre is at half a pixel, so the image reaches from 0 to its width and height.
    """
    height, width = size
    dtype = torch.promote_types(points.dtype, matrix.dtype)
    half, matrix = torch.tensor([width / 2, height / 2], device=points.device, dtype=dtype), matrix.to(dtype)
    back = torch.linalg.inv(matrix[:, :2]).mT  # the matrix says where a pixel comes from, not where it goes
    return ((points.to(dtype) / half - 1 - matrix[:, 2]) @ back + 1) * half


def lattice(channels: int, points: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """All colours of a regular lattice over [0, 1]^channels, [channels, points**channels], first channel fastest."""
    axis = torch.linspace(0, 1, points, device=device, dtype=dtype)
    axes = torch.meshgrid([axis] * channels, indexing="ij")
    return torch.stack([a.flatten() for a in reversed(axes)])


def lattice_lookup(values: Tensor, image: Tensor, points: int) -> Tensor:
    """Read a colour map given on :func:`lattice` at the colours of an image, linearly between lattice points.

    ``values`` is [B, C, points**C]: what the map makes of each lattice colour. ``image`` is [B, C, H, W] in [0, 1] with
    one to three channels. A map that is linear in the colour is reproduced exactly.
    """
    b, c = image.shape[:2]
    table = values.reshape(
        b, c, points ** (c - 1), points
    )  # one row per line of the lattice, the first channel along it
    x = 2 * image[:, 0] - 1
    if c < 3:
        y = 2 * image[:, 1] - 1 if c == 2 else torch.zeros_like(x)
        return _read(table, x, y)
    # Three channels: the slices of the third lie one below the other; read the two nearest ones and blend. That is
    # trilinear interpolation, but the two-dimensional grid_sample is far faster than the three-dimensional one.
    third = image[:, 2] * (points - 1)
    below = third.floor().clamp_max(points - 2)
    step = 2 / (points * points - 1)  # one row of the table
    y = (below * points + image[:, 1] * (points - 1)) * step - 1
    weight = (third - below)[:, None]
    return torch.lerp(_read(table, x, y), _read(table, x, y + points * step), weight)


def _read(table: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """[B, C, rows, columns] at positions [B, H, W] each, in coordinates from -1 to 1 between the outermost entries."""
    return F.grid_sample(table, torch.stack([x, y], -1), mode="bilinear", padding_mode="border", align_corners=True)
