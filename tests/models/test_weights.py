"""Weights from files: what is taken, what stays new, and what is refused in one line."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from teachaugment import models
from teachaugment.errors import UserError
from teachaugment.models.weights import read_weights, take, without_prefixes


def saved(path: Path, tensors: dict, how: str) -> Path:
    """The same weights as people save them."""
    if how == "safetensors":
        save_file(tensors, path.with_suffix(".safetensors"))
        return path.with_suffix(".safetensors")
    inside = {
        "plain": tensors,
        "parallel": {f"module.{name}": value for name, value in tensors.items()},
        "checkpoint": {"epoch": 3, "state_dict": {f"_orig_mod.model.{name}": v for name, v in tensors.items()}},
        "average": {"state_dict": {name: v + 1 for name, v in tensors.items()}, "state_dict_ema": tensors},
        "backbone": {"model": {f"backbone.{name}": v for name, v in tensors.items()}},
    }
    torch.save(inside[how], path.with_suffix(".pth"))
    return path.with_suffix(".pth")


@pytest.mark.parametrize("how", ["safetensors", "plain", "parallel", "checkpoint", "average", "backbone"])
def test_all_but_a_head_for_other_classes_is_taken(tmp_path, how):
    given = models.create("cnn-4", 7).state_dict()
    network = models.create("cnn-4", 4)
    file = saved(tmp_path / "given", given, how)
    line = take(network, read_weights(str(file)), "FILE", "cnn-4")
    for name, value in network.state_dict().items():
        expected = torch.zeros_like(value) if name.startswith("head.") else given[name]
        assert torch.equal(value, expected), name
    taken = len(given) - 2
    assert line.startswith(f"weights: {taken} tensors taken from FILE; head.weight and head.bias are new")
    assert "(4 classes, 7 in the file)" in line and line.endswith("; nothing else was left")


def test_the_head_is_taken_where_the_classes_are_as_many(tmp_path):
    given, network = models.create("cnn-4", 4).state_dict(), models.create("cnn-4", 4)
    line = take(network, given, "FILE", "cnn-4")
    assert torch.equal(network.state_dict()["head.weight"], given["head.weight"])
    assert line.endswith("; nothing is new; nothing else was left")


def test_a_first_convolution_fits_other_channels():
    given, network = models.create("cnn-4", 4).state_dict(), models.create("cnn-4", 4, channels=1)
    take(network, given, "FILE", "cnn-4")
    grey = torch.rand(2, 1, 16, 16)
    whole = models.create("cnn-4", 4)
    whole.load_state_dict(given)
    torch.testing.assert_close(network.eval()(grey), whole.eval()(grey.expand(-1, 3, -1, -1)))


def test_the_positions_of_a_transformer_fit_another_size():
    pytest.importorskip("timm")
    given = models.create("timm/test_vit", 7).state_dict()
    network = models.create("timm/test_vit", 4, size=(96, 96))
    line = take(network, {f"module.{name}": value for name, value in given.items()}, "FILE", "timm/test_vit")
    assert network.state_dict()["pos_embed"].shape != given["pos_embed"].shape
    assert "head.weight and head.bias are new" in line and line.endswith("; nothing else was left")
    middle = network.state_dict()["pos_embed"][:, 1:].mean((0, 1))
    torch.testing.assert_close(middle, given["pos_embed"][:, 1:].mean((0, 1)), atol=0.02, rtol=0)


def test_a_network_for_segmentation_takes_a_whole_file():
    given, network = models.create("unet-16", 5).state_dict(), models.create("unet-16", 3)
    assert "head.weight and head.bias are new (3 classes, 5 in the file)" in take(network, given, "FILE", "unet-16")
    assert torch.equal(network.state_dict()["down.0.0.0.weight"], given["down.0.0.0.weight"])


@pytest.mark.parametrize(("other", "share"), [("wrn-16-1", "0 %"), ("torchvision/resnet34", "")])
def test_a_file_of_another_network_is_refused(other, share):
    network = models.create("torchvision/resnet18" if share else "torchvision/resnet50", 4)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with pytest.raises(UserError, match=r"FILE is not for mine: it has \d+% of what the network needs") as error:
        take(network, models.create(other, 4).state_dict(), "FILE", "mine")
    assert "\n" not in str(error.value)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


class Runs:
    """A pickle that makes a file when it is read."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_what_is_no_file_of_weights_is_refused_in_one_line(tmp_path):
    good = saved(tmp_path / "good", models.create("cnn-4", 4).state_dict(), "safetensors").read_bytes()
    torch.save(models.create("cnn-4", 4).state_dict(), tmp_path / "whole.pth")
    files = {
        "cut.safetensors": good[: len(good) // 2],
        "cut.pth": (tmp_path / "whole.pth").read_bytes()[:5000],
        "text.pth": b"no weights at all",
        "empty.pth": b"",
        "runs.pth": pickle.dumps({"state_dict": Runs(tmp_path / "it ran")}),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    torch.save({"state_dict": Runs(tmp_path / "it ran")}, tmp_path / "runs too.pt")
    torch.save({"epoch": 3, "classes": ["a"]}, tmp_path / "numbers.pt")
    for name, says in (
        *((name, "cannot read the weights") for name in ("cut.safetensors", "cut.pth", "empty.pth")),
        *((name, "reading it could run code") for name in ("runs.pth", "runs too.pt", "text.pth")),
        ("numbers.pt", "holds no tensors by name"),
        ("nowhere.pth", "is not there"),
        ("", "is a folder"),
    ):
        with pytest.raises(UserError) as error, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read_weights(str(tmp_path / name))
        assert says in str(error.value) and "\n" not in str(error.value), (name, str(error.value))
    assert not (tmp_path / "it ran").exists()


def test_what_a_network_has_no_use_for_is_left_and_named():
    given, network = models.create("cnn-4", 4).state_dict(), models.create("cnn-4", 4)
    assert take(network, {**given, "projector": torch.ones(2)}, "FILE", "cnn-4").endswith(
        "; projector of the file was left"
    )


def test_prefixes():
    assert without_prefixes("module.model.backbone.layer1.0.weight") == "layer1.0.weight"
    assert without_prefixes("modules.0.weight") == "modules.0.weight"


def test_what_networks_without_pretrained_weights_say():
    with pytest.raises(UserError, match=r"no pretrained weights of cnn-4; .*--weights"):
        models.create("cnn-4", 4, pretrained=True)
    pytest.importorskip("timm")
    with pytest.raises(UserError, match=r"no pretrained weights of timm/resnet50_mlp"):
        models.create("timm/resnet50_mlp", 4, pretrained=True)
    with pytest.raises(UserError, match=r"model\.drop_path is for networks of timm, not for cnn-4"):
        models.create("cnn-4", 4, drop_path=0.1)


def test_weights_that_cannot_be_downloaded_are_explained(monkeypatch):
    import torchvision

    def refused(name, weights):
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.models, "get_model", refused)
    with pytest.raises(UserError, match=r"no route to host\); get http.*resnet18.*pth by other means.*--weights"):
        models.create("torchvision/resnet18", 4, pretrained=True)


def test_downloaded_weights_are_taken_but_for_the_head(monkeypatch, capsys):
    import torchvision

    given = torchvision.models.squeezenet1_1(num_classes=12)
    get_model = torchvision.models.get_model

    def downloaded(name, weights=None, **options):
        return given if weights == "DEFAULT" else get_model(name, weights=weights, **options)

    monkeypatch.setattr(torchvision.models, "get_model", downloaded)
    network = models.create("torchvision/squeezenet1_1", 4, pretrained=True)
    assert torch.equal(network.state_dict()["features.0.weight"], given.state_dict()["features.0.weight"])
    assert network(torch.rand(1, 3, 32, 32)).shape == (1, 4)
    assert "taken from the pretrained torchvision/squeezenet1_1; classifier.1.weight" in capsys.readouterr().err


def test_how_images_were_read():
    found = models.pretraining("torchvision/resnet50")
    assert (found.size, found.interpolation, round(found.centre, 3)) == (224, "bilinear", 0.966)
    assert models.pretraining("resnet-50") == found and found.mean == (0.485, 0.456, 0.406)
    assert models.pretraining("cnn-4") is None and models.pretraining("fcn32s-resnet-18") is None
    pytest.importorskip("timm")
    lite = models.pretraining("timm/tf_efficientnet_lite0")
    assert (lite.size, lite.mean, lite.std, lite.centre, lite.interpolation) == (
        *(224, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        *(0.875, "bicubic"),
    )


def test_dropout_and_stochastic_depth_reach_timm():
    timm = pytest.importorskip("timm")
    network = models.create("timm/test_vit", 4, dropout=0.3, drop_path=0.2)
    assert network.head_drop.p == 0.3
    paths = [m.drop_prob for m in network.modules() if isinstance(m, timm.layers.DropPath)]
    assert max(paths) == pytest.approx(0.2)
