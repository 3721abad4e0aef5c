"""The augmentations that are not learned, drawn for each image and applied to all of a batch at once."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from teachaugment.augment.boxes import flip_boxes, shift_boxes, warp_boxes
from teachaugment.batch import IGNORE, Batch

GREY = (0.299, 0.587, 0.114)  # luminance of RGB, ITU-R 601
# Principal components of the RGB values of ImageNet, one vector per column, as everybody quotes them.
EIGENVALUES = (0.2175, 0.0188, 0.0045)
EIGENVECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203))


def flip(batch: Batch, generator: torch.Generator | None = None) -> Batch:
    """Mirror each image left to right with probability 1/2, its mask and its boxes with it."""
    image, mask, boxes = batch.image, batch.mask, batch.boxes
    turn = torch.rand(len(image), device=image.device, generator=generator) < 0.5
    if mask is not None:
        mask = torch.where(turn[:, None, None], mask.flip(-1), mask)
    if boxes is not None:
        boxes = flip_boxes(boxes, turn, image.shape[-1])
    return batch.replace(image=torch.where(turn[:, None, None, None], image.flip(-1), image), mask=mask, boxes=boxes)


def crop(batch: Batch, padding: int, generator: torch.Generator | None = None) -> Batch:
    """Shift each image by up to ``padding`` pixels. Black comes in at the border, IGNORE in the mask."""
    image, mask, boxes = batch.image, batch.mask, batch.boxes
    offset = torch.randint(2 * padding + 1, (2, len(image)), device=image.device, generator=generator)
    if mask is not None:
        mask = _windows(mask[:, None], padding, offset, IGNORE)[:, 0]
    if boxes is not None:
        boxes = shift_boxes(boxes, padding - offset[1], padding - offset[0], (image.shape[2], image.shape[3]))
    return batch.replace(image=_windows(image, padding, offset, 0), mask=mask, boxes=boxes)


def _windows(image: Tensor, padding: int, offset: Tensor, fill: int) -> Tensor:
    """From each padded image the window of the original size at its offset: one gather over a view of all windows."""
    height, width = image.shape[-2:]
    windows = F.pad(image, (padding,) * 4, value=fill).unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(len(image), device=image.device), :, offset[0], offset[1]]


def cutout(image: Tensor, size: int, generator: torch.Generator | None = None) -> Tensor:
    """Set a square of side ``size`` to zero in each image. Its centre is any pixel, so the border may clip it.

    DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout" (2017). There, as
    here, images are normalised before, so zero is the mean colour.
    """
    n, _, height, width = image.shape
    top = torch.randint(height, (n, 1), device=image.device, generator=generator) - size // 2
    left = torch.randint(width, (n, 1), device=image.device, generator=generator) - size // 2
    y, x = torch.arange(height, device=image.device), torch.arange(width, device=image.device)
    rows, columns = (y >= top) & (y < top + size), (x >= left) & (x < left + size)
    return image.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0)


def resized_crop(image: Tensor, area: float, generator: torch.Generator | None = None) -> Tensor:
    """A random part of each image, at least the share ``area`` of it, enlarged to the size of the whole."""
    return _part(image, random_parts(image, area, generator))


def zoom(batch: Batch, area: float, generator: torch.Generator | None = None) -> Batch:
    """The same of a batch, whose boxes go along."""
    matrix, size = random_parts(batch.image, area, generator), (batch.image.shape[2], batch.image.shape[3])
    boxes = None if batch.boxes is None else warp_boxes(batch.boxes, matrix, size)
    return batch.replace(image=_part(batch.image, matrix), boxes=boxes)


def _part(image: Tensor, matrix: Tensor) -> Tensor:
    grid = F.affine_grid(matrix, list(image.shape), align_corners=False)
    return F.grid_sample(image, grid, mode="bilinear", padding_mode="border", align_corners=False)


def random_parts(image: Tensor, area: float, generator: torch.Generator | None = None) -> Tensor:
    """Where in each image a random part of it lies, as a matrix [B, 2, 3].

    The part's aspect ratio is 3/4 to 4/3 of the image's own; what sticks out is cut, not redrawn. Parts are only ever
    enlarged, so that there is nothing to smooth before sampling.
    """
    share, bend, x, y = torch.rand(4, len(image), device=image.device, generator=generator).to(image.dtype)
    size, ratio = area + (1 - area) * share, (4 / 3) ** (2 * bend - 1)
    width, height = (size * ratio).sqrt().clamp_max(1), (size / ratio).sqrt().clamp_max(1)
    zero = torch.zeros_like(width)
    rows = [width, zero, (1 - width) * (2 * x - 1), zero, height, (1 - height) * (2 * y - 1)]
    return torch.stack(rows, 1).view(-1, 2, 3)


def sometimes(changed: Tensor, image: Tensor, probability: float, generator: torch.Generator | None = None) -> Tensor:
    """The changed version of each image with this probability, otherwise the image."""
    chosen = torch.rand(len(image), device=image.device, generator=generator) < probability
    return torch.where(chosen[:, None, None, None], changed, image)


def grey(image: Tensor) -> Tensor:
    """Luminance [B, 1, H, W]; the mean of the channels where they are not red, green and blue."""
    channels = image.shape[1]
    weights = image.new_tensor(GREY if channels == 3 else [1 / channels] * channels)
    return (image * weights.view(1, -1, 1, 1)).sum(1, keepdim=True)


def blur(image: Tensor, probability: float, generator: torch.Generator | None = None) -> Tensor:
    """Gaussian blur of each image with this probability, by its own width; SimCLR's and MoCo v2's.

    The standard deviation is 0.1 to 2 pixels in an image of 224 pixels, and in proportion in others.
    """
    n, channels, height, width = image.shape
    scale = max(height, width) / 224
    chosen, draw = torch.rand(2, n, 1, device=image.device, generator=generator)
    sigma = scale * (0.1 + 1.9 * draw)
    radius = math.ceil(3 * 2 * scale)
    offset = torch.arange(-radius, radius + 1, device=image.device)
    weights = torch.where(chosen < probability, torch.exp(-0.5 * (offset / sigma) ** 2), (offset == 0).float())
    weights = (weights / weights.sum(1, keepdim=True)).to(image.dtype).repeat_interleave(channels, 0)[:, None]
    # One pass down and one across, every channel of every image with its own weights.
    planes = F.pad(image.reshape(1, n * channels, height, width), (radius,) * 4, mode="replicate")
    for kernel in (weights[..., None], weights[:, :, None]):
        planes = F.conv2d(planes, kernel, groups=n * channels)
    return planes.view_as(image)


def shift_hue(image: Tensor, turn: Tensor) -> Tensor:
    """Each RGB image with its hues moved round the colour circle, by ``turn`` [B] of a whole turn."""
    red, green, blue = image.unbind(1)
    top = image.amax(1)
    chroma = top - image.amin(1)
    apart = torch.where(chroma > 0, chroma, 1)
    hue = torch.where(
        top == red,
        (green - blue) / apart,
        torch.where(top == green, 2 + (blue - red) / apart, 4 + (red - green) / apart),
    )
    hue = hue + 6 * turn.to(image.dtype)[:, None, None]  # in sixths of a turn

    def channel(offset: int) -> Tensor:
        k = (offset + hue) % 6
        return top - chroma * torch.minimum(k, 4 - k).clamp(0, 1)

    return torch.stack([channel(5), channel(3), channel(1)], 1)


def color_jitter(image: Tensor, strength: float, generator: torch.Generator | None = None, hue: float = 0.0) -> Tensor:
    """Brightness, contrast and saturation of each image by factors in 1 ± ``strength``, in an order of its own.

    All three mix the image with something else: with black, with its mean grey, with its grey version. Before them
    the hue of RGB images turns by up to ± ``hue``: it is the costly one, and hardly depends on the order, because
    mixing with grey keeps the hue.
    """
    n = len(image)
    random: dict[str, Any] = {"device": image.device, "generator": generator}
    if hue and image.shape[1] == 3:
        image = shift_hue(image, hue * (2 * torch.rand(n, **random) - 1))
    orders = torch.rand(n, 3, **random).argsort(1)
    factors = 1 + strength * (2 * torch.rand(n, 3, **random) - 1)
    for turn in range(3):
        kind = orders[:, turn].view(-1, 1, 1, 1)
        factor = factors[:, turn].to(image.dtype).view(-1, 1, 1, 1)
        light = grey(image)
        mean = light.mean((2, 3), keepdim=True)
        other = torch.where(kind == 2, light, torch.where(kind == 1, mean, light.new_zeros(())))
        image = (factor * image + (1 - factor) * other).clamp(0, 1)
    return image


def lighting(image: Tensor, std: float, generator: torch.Generator | None = None) -> Tensor:
    """Shift each image along the principal colours of ImageNet (Krizhevsky et al., 2012), within [0, 1]."""
    if image.shape[1] != 3:
        raise ValueError(f"lighting is known for 3 channels, not {image.shape[1]}")
    amount = std * torch.randn(len(image), 3, device=image.device, generator=generator)
    vectors, values = amount.new_tensor(EIGENVECTORS), amount.new_tensor(EIGENVALUES)
    shift = (amount * values) @ vectors.T
    return (image + shift[:, :, None, None].to(image.dtype)).clamp(0, 1)
