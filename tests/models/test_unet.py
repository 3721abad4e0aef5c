from __future__ import annotations

import pytest
import torch

from teachaugment.models import create


@pytest.mark.parametrize("name", ["unet-16", "unet-16-half"])
@pytest.mark.parametrize("size", [(32, 32), (45, 61), (9, 8)])
def test_logits_have_the_size_of_the_image(name, size):
    network = create(name, 5, channels=2)
    assert network(torch.rand(2, 2, *size)).shape == (2, 5, *size)


@pytest.mark.parametrize("name", ["unet-16", "unet-16-half"])
def test_every_parameter_gets_a_gradient(name):
    network = create(name, 5)
    network(torch.rand(2, 3, 32, 32)).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_half_resolution_has_the_same_weights():
    whole, half = (sum(p.numel() for p in create(name, 5).parameters()) for name in ("unet-16", "unet-16-half"))
    assert whole == half
