"""The paper's networks for segmentation: FCN-32s, PSPNet and DeepLabv3 on backbones of torchvision.

They return logits at the resolution of the image. In training, PSPNet and DeepLabv3 return a pair: the logits of the
main head and those of an auxiliary head on the features before the backbone's last stage, as in PSPNet.
"""

from __future__ import annotations

from typing import Any

import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models.segmentation.deeplabv3 import DeepLabHead
from torchvision.models.segmentation.fcn import FCNHead

from teachaugment.errors import UserError

BINS = (1, 2, 3, 6)  # of the pyramid pooling


class Segmenter(nn.Module):
    """A backbone in two parts, a head on its end and perhaps an auxiliary one between the parts."""

    def __init__(self, early: nn.Module, late: nn.Module, head: nn.Module, auxiliary: nn.Module | None):
        super().__init__()
        self.early, self.late, self.head, self.auxiliary = early, late, head, auxiliary

    def forward(self, image: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        size = image.shape[-2:]
        if self.training and self.auxiliary is not None and len(image) < 2:
            raise UserError(
                "this network normalises what it pools over whole images, which takes at least two images in a batch; "
                "use a larger --batch-size"
            )
        between = self.early(image)
        logits = _resized(self.head(self.late(between)), size)
        if self.auxiliary is None or not self.training:
            return logits
        return logits, _resized(self.auxiliary(between), size)


class PyramidPooling(nn.Module):
    """PSPNet's head (Zhao et al., 2017): the features beside their means over ever finer grids, then FCN's head."""

    def __init__(self, channels: int, num_classes: int):
        super().__init__()
        narrow = channels // len(BINS)
        self.pools = nn.ModuleList(
            nn.Sequential(
                nn.AdaptiveAvgPool2d(n),
                nn.Conv2d(channels, narrow, 1, bias=False),
                nn.BatchNorm2d(narrow),
                nn.ReLU(inplace=True),
            )
            for n in BINS
        )
        wide = channels + narrow * len(BINS)
        self.head = nn.Sequential(
            nn.Conv2d(wide, narrow, 3, padding=1, bias=False),
            nn.BatchNorm2d(narrow),
            nn.ReLU(inplace=True),
            nn.Dropout(0.1),
            nn.Conv2d(narrow, num_classes, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([x, *(_resized(pool(x), x.shape[-2:]) for pool in self.pools)], 1))


HEADS = {"fcn32s": FCNHead, "pspnet": PyramidPooling, "deeplabv3": DeepLabHead}
RESNETS = {"resnet-18": "resnet18", "resnet-50": "resnet50", "resnet-101": "resnet101"}
WEIGHTS = "IMAGENET1K_V1"  # those of V2 have learned with TrivialAugment, mixup, CutMix and random erasing already
MOBILENET_SPLIT = 13  # the block of mobilenet_v3_large that halves the resolution for the last time


def segmenter(num_classes: int, channels: int, head: str, backbone: str, pretrained: bool = False) -> nn.Module:
    """FCN-32s on the backbone as it is; the others keep its last stages at a higher resolution by dilation."""
    if channels != 3:
        raise UserError(f"the backbones of torchvision take 3 channels, not {channels}; unet-16 takes any number")
    dilated = head != "fcn32s"
    early, late, middle, last = (_resnet if backbone in RESNETS else _mobilenet)(backbone, dilated, pretrained)
    return Segmenter(early, late, HEADS[head](last, num_classes), FCNHead(middle, num_classes) if dilated else None)


def _resnet(name: str, dilated: bool, pretrained: bool) -> tuple[nn.Module, nn.Module, int, int]:
    """The parts and the channels of their outputs; with dilation an eighth of the image's resolution."""
    net = _of_torchvision(RESNETS[name], pretrained)
    if dilated:
        for stage, rate in ((net.layer3, 2), (net.layer4, 4)):
            for conv in [module for module in stage.modules() if isinstance(module, nn.Conv2d)]:
                conv.stride = (1, 1)
                if conv.kernel_size == (3, 3):
                    conv.dilation = conv.padding = (rate, rate)
    early = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1, net.layer2, net.layer3)
    last = net.fc.in_features
    return early, net.layer4, last // 2, last


def _mobilenet(name: str, dilated: bool, pretrained: bool) -> tuple[nn.Module, nn.Module, int, int]:
    """MobileNetV3; with dilation a sixteenth of the image's resolution, as in torchvision's own DeepLabv3 on it."""
    features = _of_torchvision("mobilenet_v3_large", pretrained, dilated=dilated).features
    early, late = features[:MOBILENET_SPLIT], features[MOBILENET_SPLIT:]
    return early, late, early[-1].out_channels, late[-1].out_channels


def _of_torchvision(name: str, pretrained: bool, **options: Any) -> Any:
    if not pretrained:
        return torchvision.models.get_model(name, weights=None, **options)
    try:
        return torchvision.models.get_model(name, weights=WEIGHTS, **options)
    except (OSError, RuntimeError) as error:  # no network, a full disk, a file cut short
        weights = torchvision.models.get_model_weights(name)[WEIGHTS]
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"the ImageNet weights of {name} cannot be downloaded ({reason}); put {weights.url} into "
            f"{torch.hub.get_dir()}/checkpoints, or start without them: --pretrained false"
        ) from None


def _resized(x: Tensor, size: torch.Size) -> Tensor:
    return x if x.shape[-2:] == size else F.interpolate(x, size=size, mode="bilinear", align_corners=False)
