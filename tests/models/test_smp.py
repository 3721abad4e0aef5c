from __future__ import annotations

import builtins

import pytest
import torch

from teachaugment import models
from teachaugment.errors import UserError


def test_without_the_package_it_is_said_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **kwargs):
        if name == "segmentation_models_pytorch":
            raise ImportError(name)
        return real(name, *rest, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install '\.\[smp\]'"):
        models.check("smp/unet-resnet18")


@pytest.mark.parametrize("name", ["smp/unet-resnet18", "smp/FPN-mobilenet_v2"])
def test_a_network_of_smp_takes_any_size_and_any_channels(name):
    pytest.importorskip("segmentation_models_pytorch")
    network = models.create(name, 5, channels=2)
    assert network(torch.rand(2, 2, 45, 33)).shape == (2, 5, 45, 33)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("smp/unett-resnet18", "no architecture 'unett'; did you mean 'unet'"),
        ("smp/unet-resnet19", "no encoder 'resnet19'; did you mean 'resnet1"),
        ("smp/unet", "must be smp/<architecture>-<encoder>"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name, says):
    pytest.importorskip("segmentation_models_pytorch")
    with pytest.raises(UserError, match=says):
        models.check(name)


def test_they_are_for_segmentation():
    pytest.importorskip("segmentation_models_pytorch")
    with pytest.raises(UserError, match="is for segmentation, not for classification"):
        models.check("smp/unet-resnet18", "classification")
