"""The heads of SimSiam (Chen and He, 2021) round any backbone; BYOL's are the same, MoCo v2's have no predictor."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn


class Embedding(NamedTuple):
    """What a network with heads makes of a batch of images."""

    features: Tensor  # [B, F] of the backbone: what is wanted in the end
    projection: Tensor  # z, [B, D]
    prediction: Tensor  # p = h(z), [B, D]; z itself without a predictor

    def detach(self) -> Embedding:
        return Embedding(*(part.detach() for part in self))


class SimSiam(nn.Module):
    """Backbone, projector and predictor.

    features:  that the backbone gives.
    dim:       of the projection and the prediction, and the width of the projector.
    hidden:    width of the predictor; 0: no predictor.
    layers:    of the projector: 3 as for ImageNet, 2 as for CIFAR.
    """

    def __init__(self, backbone: nn.Module, features: int, *, dim: int = 2048, hidden: int = 512, layers: int = 3):
        super().__init__()
        self.backbone, self.features = backbone, features
        steps: list[nn.Module] = []
        for inputs in [features, *[dim] * (layers - 2)]:
            steps += [nn.Linear(inputs, dim, bias=False), nn.BatchNorm1d(dim), nn.ReLU(inplace=True)]
        last = [nn.Linear(dim, dim, bias=False), nn.BatchNorm1d(dim, affine=False)]
        self.projector = nn.Sequential(*steps, *last)
        self.predictor: nn.Module = nn.Identity()
        if hidden:
            narrow = [nn.Linear(dim, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True)]
            self.predictor = nn.Sequential(*narrow, nn.Linear(hidden, dim))

    def forward(self, image: Tensor) -> Embedding:
        features = self.backbone(image)
        projection = self.projector(features)
        return Embedding(features, projection, self.predictor(projection))
