"""A U-Net (Ronneberger et al., 2015) small enough for a laptop: one class per pixel, at the resolution of the image."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = 4  # each half as large as the one above it, with twice its channels


class UNet(nn.Module):
    """3×3 convolutions with batch norm and ReLU, two per level on the way down and one on the way up.

    With ``half`` everything happens at half the image's resolution, for a third of the time, and the logits are
    enlarged: enough for photographs. Any size of image will do; the sides need not be even.
    """

    def __init__(self, num_classes: int, channels: int = 3, width: int = 16, half: int = 0):
        super().__init__()
        widths = [width * 2**level for level in range(LEVELS)]
        self.down = nn.ModuleList(
            nn.Sequential(_stage(inputs, outputs, stride=2 if half and level == 0 else 1), _stage(outputs, outputs))
            for level, (inputs, outputs) in enumerate(zip([channels, *widths], widths, strict=False))
        )
        self.up = nn.ModuleList(
            _stage(below + here, here) for here, below in zip(widths[-2::-1], widths[:0:-1], strict=True)
        )
        self.head = nn.Conv2d(width, num_classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        levels: list[Tensor] = []
        for stage in self.down:
            levels.append(stage(F.max_pool2d(levels[-1], 2, ceil_mode=True) if levels else image))
        x = levels.pop()
        for stage in self.up:
            above = levels.pop()
            x = stage(torch.cat([above, _resized(x, above)], 1))
        return _resized(self.head(x), image)


def _resized(x: Tensor, like: Tensor) -> Tensor:
    size = like.shape[-2:]
    return x if x.shape[-2:] == size else F.interpolate(x, size=size, mode="bilinear", align_corners=False)


def _stage(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    # Batch norm subtracts the mean, so a bias of the convolution would have no effect.
    conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
