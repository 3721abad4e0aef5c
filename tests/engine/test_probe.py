"""Linear evaluation recovers what is linearly separable, by either protocol, and not what is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from teachaugment import seeds
from teachaugment.batch import Batch
from teachaugment.engine import probe


def blobs(n: int, seed: int, apart: float = 6.0, size: int = 4) -> Batch:
    """Images whose mean colour is a class's own plus noise."""
    g = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 3
    center = torch.eye(3)[label] * apart
    color = center + torch.randn(n, 3, generator=g)
    return Batch(color[:, :, None, None].expand(n, 3, size, size).clone(), label)


def means(image: torch.Tensor) -> torch.Tensor:
    return image.mean((2, 3))


def nothing(image: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(image), 3)


def test_cached_features_of_separable_classes_are_classified():
    networks = {"means": means, "nothing": nothing}
    found = probe.cached(networks, blobs(300, 0).split(64), blobs(90, 1).split(32), nn.Identity(), 3)
    assert found["means"]["accuracy"] > 0.95 and found["means"]["images"] == 90
    assert found["nothing"]["accuracy"] == pytest.approx(1 / 3)


def test_features_of_any_scale_do():
    def scaled(image: torch.Tensor) -> torch.Tensor:
        return means(image) * torch.tensor([1e3, 1.0, 1e-3]) + 50

    found = probe.cached({"scaled": scaled}, [blobs(300, 0)], [blobs(90, 1)], nn.Identity(), 3)
    assert found["scaled"]["accuracy"] > 0.95


def test_logistic_regression_finds_the_minimum():
    """At it the gradient of the penalised loss is zero, wherever it started."""
    batch = blobs(200, 0, apart=1.0)
    x = means(batch.image)
    head = probe.logistic_regression(x, batch.label, 3).requires_grad_(True)
    loss = nn.functional.cross_entropy(head(x), batch.label) + head.weight.square().sum() / (2 * len(x))
    loss.backward()
    assert head.weight.grad.abs().max() < 1e-4 and head.bias.grad.abs().max() < 1e-4


def test_lars_trains_the_classifiers_side_by_side():
    data, epochs = blobs(240, 0), 30
    found = probe.simsiam(
        {"means": means, "nothing": nothing},
        ([*data.split(60)] for _ in range(epochs)),
        [blobs(90, 1)],
        nn.Identity(),
        3,
        widths={"means": 3, "nothing": 3},
        steps=4 * epochs,
        lr=30.0,
        cropped=False,
        generator=lambda step: seeds.generator("cpu", 0, step),
        at_once=32,
    )
    assert found["means"]["accuracy"] > 0.95 and found["nothing"]["accuracy"] < 0.5


def test_calibrating_gives_batch_norm_the_statistics_of_the_images():
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    data = blobs(400, 0)
    probe.calibrate(network, data.split(100), nn.Identity())
    assert not network.training
    with torch.no_grad():
        expected = network[0](data.image).mean((0, 2, 3))
    assert torch.allclose(network[1].running_mean, expected, atol=1e-4)
    out = network(data.image)
    assert torch.allclose(out.mean((0, 2, 3)), torch.zeros(4), atol=1e-3)
