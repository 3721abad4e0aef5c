from __future__ import annotations

import urllib.error

import pytest
import small
import torch
from torch import nn

from teachaugment import models
from teachaugment.algorithm import TeachAugment
from teachaugment.batch import Batch
from teachaugment.errors import UserError
from teachaugment.models import BACKBONES, SEGMENTERS
from teachaugment.tasks.segmentation.task import Segmentation

SMALL = [f"{head}-{backbone}" for head in SEGMENTERS for backbone in ("resnet-18", "mobilenet-v3")]
LARGE = [f"{head}-{backbone}" for head in SEGMENTERS for backbone in ("resnet-50", "resnet-101")]


def features(name: str) -> int:
    """How many times smaller than the image the last features are."""
    network = models.create(name, 3).eval()
    with torch.no_grad():
        return 128 // network.late(network.early(torch.zeros(1, 3, 128, 128))).shape[-1]


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_a_step_of_both_updates_at_small_size(name):
    torch.manual_seed(0)
    network, task = models.create(name, 4), Segmentation(small.dataset("abcd", (0.5,) * 3, (0.2,) * 3))
    teach = TeachAugment(network, normalize=task.normalize, n_inner=1, augmenter="neural")
    batch = Batch(torch.rand(2, 3, 48, 40), None, torch.randint(4, (2, 48, 40)))
    loss, output, _ = small.one_step(task, network, batch, teach.augment)
    loss.backward()
    assert isinstance(output, tuple) == (not name.startswith("fcn32s"))
    assert all(head.shape == (2, 4, 48, 40) for head in (output if isinstance(output, tuple) else [output]))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    measured = teach.step(batch)
    assert measured is not None and all(value.isfinite() for value in measured.values())
    network.eval()
    assert network(batch.image[:1, :, :33]).shape == (1, 4, 33, 40)


@pytest.mark.parametrize("name", [f"{head}-{backbone}" for head in SEGMENTERS for backbone in BACKBONES])
def test_every_network_can_be_made(name):
    with torch.device("meta"):
        network = models.create(name, 19)
    backbone = {"resnet-101": 40e6, "resnet-50": 20e6, "resnet-18": 11e6, "mobilenet-v3": 2e6}
    assert sum(p.numel() for p in network.parameters()) > backbone[name.partition("-")[2]]
    assert (network.auxiliary is None) == name.startswith("fcn32s")


def test_fcn32s_sees_a_thirty_second_and_the_others_more():
    assert features("fcn32s-resnet-18") == 32 and features("pspnet-resnet-18") == 8
    assert features("deeplabv3-mobilenet-v3") == 16


def test_the_augmenters_update_has_no_use_for_the_auxiliary_head():
    """Another auxiliary head, the same update."""
    torch.manual_seed(0)
    network = models.create("pspnet-resnet-18", 3)
    batch = Batch(torch.rand(2, 3, 32, 32), None, torch.randint(3, (2, 32, 32)))
    found = []
    for _ in range(2):
        teach = TeachAugment(network, seed=1, augmenter="neural")
        torch.manual_seed(1)  # dropout
        found.append(teach.update_augmenter(batch)["objective"])
        nn.init.normal_(network.auxiliary[-1].weight)
    assert torch.equal(*found)


def test_one_image_is_too_few_where_whole_images_are_pooled():
    with pytest.raises(UserError, match="at least two images in a batch"):
        models.create("deeplabv3-resnet-18", 3)(torch.rand(1, 3, 32, 32))
    assert models.create("fcn32s-resnet-18", 3)(torch.rand(1, 3, 64, 64)).shape == (1, 3, 64, 64)


def test_weights_that_cannot_be_downloaded_are_explained(monkeypatch):
    def no_network(*_, **__):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", no_network)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", no_network)
    with pytest.raises(UserError, match=r"resnet18 cannot be downloaded .*no route.*--pretrained false"):
        models.create("fcn32s-resnet-18", 3, pretrained=True)


@pytest.mark.parametrize(
    ("backbone", "file"),
    [
        ("resnet-18", "resnet18-f37072fd.pth"),
        ("resnet-50", "resnet50-0676ba61.pth"),
        ("resnet-101", "resnet101-63fe2227.pth"),
        ("mobilenet-v3", "mobilenet_v3_large-8738ca79.pth"),
    ],
)
def test_a_backbone_begins_with_the_weights_of_the_plain_recipe(backbone, file, monkeypatch):
    """IMAGENET1K_V1: the training that made V2 was full of learned and mixed augmentation."""
    asked = []

    def no_network(url, *_, **__):
        asked.append(url)
        raise urllib.error.URLError("no route")

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", no_network)
    with pytest.raises(UserError, match=file):
        models.create(f"pspnet-{backbone}", 3, pretrained=True)
    assert [url.rpartition("/")[2] for url in asked] == [file]


@pytest.mark.parametrize("name", ["unet-16", "cnn-4"])
def test_networks_without_a_backbone_have_no_pretrained_weights(name):
    with pytest.raises(UserError, match="no pretrained weights of"):
        models.create(name, 3, pretrained=True)


def test_backbones_take_three_channels():
    with pytest.raises(UserError, match="take 3 channels, not 1"):
        models.create("fcn32s-resnet-18", 3, channels=1)
