"""Residual networks (He et al., 2016), torchvision's: ResNet-50 for ImageNet, and ResNet-18 with a stem for 32×32."""

from __future__ import annotations

from typing import Any

from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck

from teachaugment.models import external


def resnet50(num_classes: int, channels: int = 3) -> nn.Module:
    return external.create("torchvision/resnet50", num_classes, channels)


def resnet18_cifar(num_classes: int, channels: int = 3) -> nn.Module:
    """ResNet-18 that begins with a 3×3 convolution and does not shrink the image at once, as is usual for CIFAR."""
    network: Any = external.create("torchvision/resnet18", num_classes)
    network.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
    network.maxpool = nn.Identity()
    return network


def zero_last_norms(network: nn.Module) -> None:
    """Let every residual block of a ResNet of torchvision begin as its shortcut: the scale of its last norm is zero."""
    for block in network.modules():
        if isinstance(block, (BasicBlock, Bottleneck)):
            nn.init.zeros_((block.bn2 if isinstance(block, BasicBlock) else block.bn3).weight)
