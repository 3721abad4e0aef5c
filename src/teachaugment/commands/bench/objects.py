"""What is measured with: batches of noise, and an augmenter as it is in the middle of a training."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from teachaugment.algorithm import TeachAugment
from teachaugment.augment.neural import NeuralAugmenter
from teachaugment.batch import Batch
from teachaugment.data.splits import STATISTICS


class Normalize(nn.Module):
    """(x - mean) / std with CIFAR-10's statistics."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, values in zip(("mean", "std"), STATISTICS["cifar10"], strict=True):
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1))

    def forward(self, image: Tensor) -> Tensor:
        return (image - self.mean) / self.std


def noise_batch(n: int, size: int, classes: int, device: torch.device) -> Batch:
    """Images of every colour, the same ones in every run."""
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(n, 3, size, size, generator=generator)
    label = torch.randint(classes, (n,), generator=generator)
    return Batch(image.to(device), label.to(device))


def photograph(height: int, width: int, seed: int = 0) -> Tensor:
    """[3, height, width] of uint8 with the statistics of one: large shapes, colours that go together, little detail."""
    generator = torch.Generator().manual_seed(seed)
    far = torch.hypot(torch.fft.fftfreq(height)[:, None], torch.fft.rfftfreq(width)[None])
    spectrum = torch.fft.rfft2(torch.randn(3, height, width, generator=generator))
    planes = torch.fft.irfft2(spectrum / far.clamp_min(1 / max(height, width)) ** 1.5, s=(height, width))
    mixed = 0.4 * planes + 0.6 * planes.mean(0)
    return (128 + 60 * mixed / mixed.std()).clamp(0, 255).round().byte()


def labels(batch: Batch) -> Tensor:
    """The labels of a batch that has them, as every batch of a benchmark does."""
    assert batch.label is not None
    return batch.label


def training_step(
    network: Callable[[Tensor], Tensor], optimizer: torch.optim.Optimizer, image: Tensor, label: Tensor
) -> None:
    """One update of a classifier on normalised images."""
    loss = F.cross_entropy(network(image), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@torch.no_grad()
def awaken(augmenter: NeuralAugmenter, strength: float = 1.0) -> NeuralAugmenter:
    """Draw the last layers, which start at zero, anew as ordinary linear layers times ``strength``.

    At strength 1 the raw outputs have a spread of about one, at 3 most of them saturate.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for network in (augmenter.colors.rgb, augmenter.colors.noise, augmenter.geometry.noise):
            fresh = nn.Linear(network.last.in_features, network.last.out_features)
            network.last.weight.copy_(strength * fresh.weight)
            network.last.bias.copy_(strength * fresh.bias)
    return augmenter


def make_teach(target: nn.Module, classes: int, snapshots: int, device: torch.device) -> TeachAugment:
    """All techniques on, the replay filled."""
    teach = TeachAugment(target, num_classes=classes, normalize=Normalize().to(device), augmenter="neural")
    assert isinstance(teach.augmenter, NeuralAugmenter)
    awaken(teach.augmenter)
    for _ in range(snapshots):
        teach.replay.push()
    return teach


def make_governed(target: nn.Module, strength: float, device: torch.device) -> TeachAugment:
    """The default, whose strength is and stays this one: so long a training moves it by next to nothing."""
    teach = TeachAugment(target, normalize=Normalize().to(device), total_steps=10**12)
    assert teach.governor is not None
    teach.governor.strength = strength
    return teach


def tensor_bytes(*modules: nn.Module) -> int:
    return sum(t.nbytes for module in modules for t in module.state_dict().values())
