"""A policy that changes an image so much that no test can miss it, and images to change."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as F

from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.policy.policy import Policy

SIZE = (60, 80)


def policy(classes=5, channels=3, odds=100.0, **options):
    """One that always acts, and strongly."""
    module = NeuralAugmenter(channels, classes)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.2)
        module.log_odds.fill_(odds)
    return Policy.of(module).adjust(**options)


def picture(mode="RGB", size=SIZE):
    channels = len(mode)
    pixels = np.random.default_rng(0).integers(0, 256, (*size, channels), dtype=np.uint8)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels, mode=mode)


def image(size=SIZE):
    return F.pil_to_tensor(picture(size=size))
