"""High resolution fits: what augmentation and colour distance take at 1024×1024, counted in images."""

from __future__ import annotations

import pytest
import torch

from teachaugment.augment.color import ColorAugmentation
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.batch import Batch
from teachaugment.commands.bench.memory import peak
from teachaugment.losses import color_distance

CPU, SIZE, IMAGES = torch.device("cpu"), 1024, 2
ONE = 4 * 3 * SIZE * SIZE  # bytes of an image


@pytest.fixture(scope="module")
def batch() -> Batch:
    image = torch.rand(IMAGES, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    return Batch(image, None, torch.zeros(IMAGES, SIZE, SIZE, dtype=torch.int64))


def test_the_colour_distance_takes_its_gradient_and_little_else(batch):
    after = (batch.image * 0.9).requires_grad_()

    def forward_and_backward() -> None:
        after.grad = None
        color_distance(batch.image, after).backward()

    assert peak(forward_and_backward, CPU) < 1.5 * IMAGES * ONE


def test_colouring_reads_a_lattice_and_takes_a_few_images(batch, monkeypatch):
    """The network on every pixel would keep 128 hidden values for each of them: 43 images per image and layer."""
    augmenter, colors = NeuralAugmenter(), []
    real = ColorAugmentation.unfolded
    monkeypatch.setattr(
        ColorAugmentation, "unfolded", lambda self, c, draw: colors.append(c.shape[-1]) or real(self, c, draw)
    )

    def forward_and_backward() -> None:
        draw = augmenter.sample(IMAGES, None, torch.Generator().manual_seed(0))
        augmenter.color(batch, draw).image.sum().backward()

    assert peak(forward_and_backward, CPU) < 8 * IMAGES * ONE
    assert set(colors) == {17**3}


def test_a_whole_augmentation_for_the_target_takes_a_few_images(batch):
    augmenter = NeuralAugmenter()

    def augment() -> None:
        with torch.no_grad():
            seen = augmenter(batch, torch.Generator().manual_seed(1))
        assert seen.mask is not None and seen.mask.shape == (IMAGES, SIZE, SIZE)

    assert peak(augment, CPU) < 6 * IMAGES * ONE
