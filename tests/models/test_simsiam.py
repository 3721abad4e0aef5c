from __future__ import annotations

import pytest
import torch
from torch import nn

from teachaugment import models
from teachaugment.errors import UserError
from teachaugment.models.backbone import backbone
from teachaugment.models.resnet import zero_last_norms
from teachaugment.models.simsiam import SimSiam


@pytest.mark.parametrize(
    "name", ["cnn-4", "wrn-16-1", "resnet-18-cifar", "torchvision/mobilenet_v3_small", "timm/resnet10t"]
)
def test_any_classifier_gives_features(name):
    network, width = backbone(models.create(name, 7), 7, name)
    assert network.eval()(torch.rand(2, 3, 32, 32)).shape == (2, width)


def test_a_backbone_keeps_the_names_of_its_weights():
    network, width = backbone(models.create("torchvision/resnet18", 7), 7, "torchvision/resnet18")
    whole = models.create("torchvision/resnet18", 7).state_dict()
    assert set(whole) - set(network.state_dict()) == {"fc.weight", "fc.bias"} and width == 512


def test_a_network_without_a_linear_classifier_is_refused():
    with pytest.raises(UserError, match="'odd' does not end in a linear classifier"):
        backbone(nn.Sequential(nn.Conv2d(3, 4, 1)), 4, "odd")


@pytest.mark.parametrize("layers", [2, 3])
def test_heads_are_those_of_simsiam(layers):
    model = SimSiam(nn.Flatten(), 12, dim=16, hidden=4, layers=layers)
    linear = [m for m in model.projector if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(12, 16), *[(16, 16)] * (layers - 1)]
    last = model.projector[-1]
    assert isinstance(last, nn.BatchNorm1d) and not last.affine
    assert [m.out_features for m in model.predictor if isinstance(m, nn.Linear)] == [4, 16]
    assert isinstance(model.predictor[-1], nn.Linear)
    out = model(torch.rand(8, 3, 2, 2))
    assert out.features.shape == (8, 12) and out.projection.shape == out.prediction.shape == (8, 16)


def test_without_a_predictor_the_projection_is_the_prediction():
    out = SimSiam(nn.Flatten(), 12, dim=16, hidden=0, layers=2)(torch.rand(8, 3, 2, 2))
    assert out.prediction is out.projection


def test_resnet_18_for_small_images_keeps_their_size_at_first():
    network = models.create("resnet-18-cifar", 10, channels=1)
    assert network.layer1(network.maxpool(network.conv1(torch.rand(1, 1, 32, 32)))).shape == (1, 64, 32, 32)


@pytest.mark.parametrize("name", ["resnet-18-cifar", "torchvision/resnet50"])
def test_blocks_begin_as_their_shortcuts_once_their_last_norms_are_zero(name):
    network = models.create(name, 3)
    blocks = [block for stage in (network.layer1, network.layer4) for block in stage]
    assert all(norm.weight.eq(1).all() for block in blocks for norm in norms(block))  # as a classifier begins
    zero_last_norms(network)
    for block in blocks:
        *others, last = norms(block)
        assert last.weight.eq(0).all() and all(norm.weight.eq(1).all() for norm in others)
    x = torch.rand(2, network.layer1[-1].conv1.in_channels, 4, 4)
    assert torch.equal(network.layer1[-1](x), x)


def norms(block: nn.Module) -> list[nn.Module]:
    return [module for name, module in block.named_children() if name.startswith("bn")]
