"""Geometric augmentation g: an affine warp whose residual matrix comes from noise (Eq. 5)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from teachaugment.augment.functional import bounded
from teachaugment.augment.mlp import MLP


class GeometricAugmentation(nn.Module):
    """A noise network to a 2x3 residual A; the warp is A + I."""

    def __init__(self, noise: MLP, width: float) -> None:
        super().__init__()
        self.width = width
        self.noise = noise

    def matrix(self, raw: Tensor, weight: Tensor) -> Tensor:
        """[B, 6] raw outputs to [B, 2, 3] matrices; where ``weight`` is 0 the matrix is the identity.

        The paper's w A + (1-w) I plus I would make the identity a warp by 2; the residual is what is weighted here.
        """
        identity = torch.eye(2, 3, device=raw.device, dtype=raw.dtype)
        return identity + weight[:, None, None] * bounded(raw, self.width).reshape(-1, 2, 3)
