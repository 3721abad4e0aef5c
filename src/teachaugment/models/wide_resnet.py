"""Wide residual networks (Zagoruyko and Komodakis, 2016), the networks of the paper's CIFAR experiments."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class WideResNet(nn.Module):
    """WRN-depth-width: three groups of (depth - 4) / 6 pre-activation blocks with 16, 32 and 64 times `width` channels.

    Two groups halve the image and the last is averaged over all positions, so any size from 8×8 on will do.
    """

    def __init__(self, depth: int, width: int, num_classes: int, channels: int = 3):
        super().__init__()
        blocks, rest = divmod(depth - 4, 6)
        if blocks < 1 or rest:
            raise ValueError(f"the depth of a wide residual network is 6n + 4 with n >= 1, not {depth}")
        widths = [16, 16 * width, 32 * width, 64 * width]
        self.stem = _conv3x3(channels, widths[0])
        self.groups = nn.Sequential(
            _group(widths[0], widths[1], blocks, stride=1),
            _group(widths[1], widths[2], blocks, stride=2),
            _group(widths[2], widths[3], blocks, stride=2),
        )
        self.norm = nn.BatchNorm2d(widths[3])
        self.head = nn.Linear(widths[3], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.head.bias)

    def forward(self, image: Tensor) -> Tensor:
        features = F.relu(self.norm(self.groups(self.stem(image))))
        return self.head(features.mean(dim=(2, 3)))


class Block(nn.Module):
    """Two 3×3 convolutions, each after batch norm and ReLU, added to the input."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = _conv3x3(inputs, outputs, stride)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = _conv3x3(outputs, outputs)
        same = inputs == outputs and stride == 1
        self.shortcut = None if same else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.norm1(x))
        out = self.conv2(F.relu(self.norm2(self.conv1(active))))
        # Where the shape changes, the shortcut projects the activated input, as the WRN authors do.
        return out + (x if self.shortcut is None else self.shortcut(active))


def _group(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    first = Block(inputs, outputs, stride)
    return nn.Sequential(first, *(Block(outputs, outputs, stride=1) for _ in range(blocks - 1)))


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
