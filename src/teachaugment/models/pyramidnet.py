"""PyramidNet (Han et al., 2017) of bottleneck blocks with ShakeDrop (Yamada et al., 2018)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.models.shake import ShakeDrop

EXPANSION = 4  # a bottleneck block puts out four times its inner channels
DROP = 0.5  # of the last block; the first ones are almost always kept


class PyramidNet(nn.Module):
    """PyramidNet-depth-alpha: 3 × (depth - 2) / 9 blocks, each a little wider, from 16 to 16 + ``alpha`` channels.

    Two groups halve the image and the last is averaged over all positions, so any size from 8×8 on will do.
    """

    def __init__(self, depth: int, alpha: int, num_classes: int, channels: int = 3):
        super().__init__()
        per_group, rest = divmod(depth - 2, 9)
        if per_group < 1 or rest:
            raise ValueError(f"the depth of a PyramidNet of bottlenecks is 9n + 2 with n >= 1, not {depth}")
        count = 3 * per_group
        self.stem = nn.Sequential(nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        blocks, inputs = [], 16
        for i in range(count):
            width = round(16 + alpha * (i + 1) / count)
            stride = 2 if i in (per_group, 2 * per_group) else 1
            blocks.append(Block(inputs, width, stride, drop=DROP * (i + 1) / count))
            inputs = EXPANSION * width
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(inputs)
        self.head = nn.Linear(inputs, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.head.bias)

    def forward(self, image: Tensor) -> Tensor:
        features = F.relu(self.norm(self.blocks(self.stem(image))))
        return self.head(features.mean(dim=(2, 3)))


class Block(nn.Module):
    """1×1, 3×3 and 1×1 convolutions between batch norms, added to the input, which is padded with zero channels."""

    def __init__(self, inputs: int, width: int, stride: int, drop: float):
        super().__init__()
        outputs = EXPANSION * width
        self.branch = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shake = ShakeDrop(drop)
        self.stride, self.missing = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        short = F.avg_pool2d(x, 2, ceil_mode=True) if self.stride == 2 else x
        return self.shake(self.branch(x)) + F.pad(short, (0, 0, 0, 0, 0, self.missing))
