from __future__ import annotations

import pytest
import torch
from torch import nn

from teachaugment import models
from teachaugment.models.parts import backbone_modules, heads, in_head, layers

NETWORKS = {
    "cnn-4": ("head",),
    "wrn-16-1": ("head",),
    "unet-16": ("head",),
    "torchvision/resnet18": ("fc",),
    "torchvision/squeezenet1_1": ("classifier.1",),
    "timm/test_vit": ("head",),
    "fcn32s-resnet-18": ("head", "auxiliary"),
    "smp/unet-resnet18": ("network.decoder", "network.segmentation_head"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_a_head_and_layers_that_end_with_it(name):
    pytest.importorskip({"timm": "timm", "smp": "segmentation_models_pytorch"}.get(name.split("/")[0], "torch"))
    with torch.device("meta"):
        network = models.create(name, 4)
    head, number = heads(network), layers(network)
    assert head == NETWORKS[name]
    assert number.keys() == {n for n, _ in network.named_parameters()}
    first, last = next(iter(number.values())), max(number.values())
    assert first == 0 < last and {k for n, k in number.items() if in_head(n, head)} == {last}
    inside = {id(p) for module in backbone_modules(network) for p in module.parameters(recurse=False)}
    own = {id(p) for p in network.parameters(recurse=False)}
    outside = {id(p) for n, p in network.named_parameters() if not in_head(n, head)}
    assert inside == outside - own


def test_layers_are_those_of_the_network():
    number = layers(models.create("cnn-4", 4))
    assert [number[f"features.{k}.0.weight"] for k in (0, 2, 4, 6)] == [0, 1, 2, 3] and number["head.bias"] == 4


def test_the_name_of_a_head_is_not_the_beginning_of_another():
    network = nn.ModuleDict({"header": nn.Linear(2, 2), "head": nn.Linear(2, 2)})
    assert heads(network) == ("head",) and not in_head("header.weight", ("head",))
