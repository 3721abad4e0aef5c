"""Shake-Shake networks of depth 26 (Gastaldi, 2017, "Shake-Shake-Image"), as in the paper's CIFAR experiments."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.models.shake import shake_shake


class ShakeShake(nn.Module):
    """26 2×``width``d: three groups of four blocks, each of two branches, with 1, 2 and 4 times ``width`` channels.

    Two groups halve the image and the last is averaged over all positions, so any size from 8×8 on will do.
    """

    def __init__(self, width: int, num_classes: int, channels: int = 3):
        super().__init__()
        widths = [16, width, 2 * width, 4 * width]
        self.stem = nn.Sequential(_conv3x3(channels, widths[0]), nn.BatchNorm2d(widths[0]))
        self.groups = nn.Sequential(
            _group(widths[0], widths[1], stride=1),
            _group(widths[1], widths[2], stride=2),
            _group(widths[2], widths[3], stride=2),
        )
        self.head = nn.Linear(widths[3], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.head.bias)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(F.relu(self.groups(self.stem(image))).mean(dim=(2, 3)))


class Block(nn.Module):
    """Two branches, mixed at random, added to the input."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.branch1 = _branch(inputs, outputs, stride)
        self.branch2 = _branch(inputs, outputs, stride)
        self.shortcut = None if inputs == outputs else Shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        mixed = shake_shake(self.branch1(x), self.branch2(x), self.training)
        return mixed + (x if self.shortcut is None else self.shortcut(x))


class Shortcut(nn.Module):
    """Every second pixel, and every second pixel of the image moved by one, each through its own 1×1 convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.stride = stride
        self.conv1 = nn.Conv2d(inputs, outputs // 2, 1, bias=False)
        self.conv2 = nn.Conv2d(inputs, outputs - outputs // 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(x)
        moved = F.pad(active, (-1, 1, -1, 1))
        paths = [self._thin(self.conv1, active), self._thin(self.conv2, moved)]
        return self.norm(torch.cat(paths, dim=1))

    def _thin(self, conv: nn.Module, x: Tensor) -> Tensor:
        return conv(x[:, :, :: self.stride, :: self.stride])


def _group(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(Block(inputs, outputs, stride), *(Block(outputs, outputs, stride=1) for _ in range(3)))


def _branch(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.ReLU(),  # not in place: the shortcut and the other branch read the same tensor
        _conv3x3(inputs, outputs, stride),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        _conv3x3(outputs, outputs),
        nn.BatchNorm2d(outputs),
    )


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
