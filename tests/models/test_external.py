from __future__ import annotations

import sys

import pytest
import torch

from teachaugment import models
from teachaugment.errors import UserError


def test_a_torchvision_network_by_name():
    model = models.create("torchvision/squeezenet1_1", 4)
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 4)


@pytest.mark.parametrize("name", ["torchvision/googlenet", "torchvision/inception_v3"])
def test_a_network_with_two_heads_has_one_output(name):
    with torch.device("meta"):
        model = models.create(name, 4)
        assert model(torch.rand(2, 3, 96, 96)).shape == (2, 4)


def test_a_timm_network_by_name_fits_the_size_of_the_images():
    pytest.importorskip("timm")
    model = models.create("timm/test_vit", 4, channels=1, size=(32, 32))
    assert model(torch.rand(2, 1, 32, 32)).shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("torchvision/resnet51", "unknown model 'torchvision/resnet51'; did you mean 'resnet50'?"),
        ("torchvison/resnet50", "did you mean 'torchvision'?"),
        ("torchvision/qqqqqq", "networks"),
        ("qqqqqq", "torchvision/NAME, timm/NAME"),
    ],
)
def test_an_unknown_name_is_refused_in_one_line(name, says):
    with pytest.raises(UserError) as error:
        models.check(name)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_other_channels_are_refused_where_they_cannot_be():
    with pytest.raises(UserError, match="take 3 channels, not 1"):
        models.create("torchvision/resnet18", 4, channels=1)


def test_without_timm_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UserError, match=r"pip install '\.\[timm\]'"):
        models.create("timm/resnet18", 4)


def test_a_network_of_the_table_has_no_pretrained_weights():
    with pytest.raises(UserError, match="no pretrained weights of wrn-28-10; train it"):
        models.pretrained("wrn-28-10", 10)


def test_pretrained_weights_must_know_as_many_classes(monkeypatch):
    import torchvision

    asked = []

    def downloaded(name, weights):
        asked.append((name, weights))
        return torchvision.models.squeezenet1_1(num_classes=12)

    monkeypatch.setattr(torchvision.models, "get_model", downloaded)
    assert models.pretrained("torchvision/squeezenet1_1", 12)(torch.rand(1, 3, 32, 32)).shape == (1, 12)
    with pytest.raises(UserError, match="knows 12 classes, and the data have 10"):
        models.pretrained("resnet-50", 10)
    assert asked == [("squeezenet1_1", "DEFAULT"), ("resnet50", "DEFAULT")]


def test_weights_that_cannot_be_downloaded_are_explained(monkeypatch):
    import torchvision

    def refused(name, weights):
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.models, "get_model", refused)
    with pytest.raises(UserError, match="no route to host"):
        models.pretrained("torchvision/resnet18", 1000)
