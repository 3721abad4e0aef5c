"""A network small enough for a laptop: four convolutions, batch norm, and a linear classifier."""

from __future__ import annotations

from torch import Tensor, nn


class SmallCNN(nn.Module):
    """3×3 convolutions of 32, 64, 128 and 256 channels, each with batch norm and ReLU.

    The first three halve the image, the last is averaged over all positions, so any size from 8×8 on will do.
    """

    def __init__(self, num_classes: int, channels: int = 3):
        super().__init__()
        self.features = nn.Sequential(
            _stage(channels, 32),
            nn.MaxPool2d(2),
            _stage(32, 64),
            nn.MaxPool2d(2),
            _stage(64, 128),
            nn.MaxPool2d(2),
            _stage(128, 256),
        )
        self.head = nn.Linear(256, num_classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.features(image).mean(dim=(2, 3)))


def _stage(inputs: int, outputs: int) -> nn.Sequential:
    # Batch norm subtracts the mean, so a bias of the convolution would have no effect.
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))
