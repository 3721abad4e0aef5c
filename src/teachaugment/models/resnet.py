"""ResNet-50 (He et al., 2016), the network of the paper's ImageNet experiments: torchvision's."""

from __future__ import annotations

from torch import nn

from teachaugment.models.external import external


def resnet50(num_classes: int, channels: int = 3) -> nn.Module:
    return external("torchvision/resnet50", num_classes, channels)
